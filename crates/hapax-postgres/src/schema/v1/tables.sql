-- Layout 1. All texts are bytes: a name may hold NUL, which text may not, and lists are in the order of bytes.

-- What the store knows of itself: layout, min_reader and min_writer; the secret.
CREATE TABLE meta (
    name  text PRIMARY KEY,
    value text NOT NULL
);

INSERT INTO meta (name, value) VALUES ('layout', '1'), ('min_reader', '1'), ('min_writer', '1');

-- A result. Instants are milliseconds since 1970 everywhere, on the clock of the server.
CREATE TYPE result AS (
    token               bytea,
    fingerprint_version integer,
    fingerprint         bytea,
    -- 1 done, 2 unknown.
    kind                smallint,
    codec               bytea,
    receipt             bytea,
    first_at            bigint,
    completed_at        bigint,
    until               bigint
);

-- One row for each key. Its name is one column: to find a row by three takes the server twice as long. Pages are filled by
-- a third with reservations: their results, twice as long, then fit beside them, and no update needs an entry in the index.
-- There is no index on the time at which a row is over: with it no update could stay on its page, and nothing but pruning
-- would use it.
CREATE TABLE idempotency (
    -- Namespace, scope and key, joined: see joined().
    name                bytea    NOT NULL PRIMARY KEY,
    -- Version of the rest of the row.
    format              smallint NOT NULL,
    -- 0 pending, 1 done, 2 unknown.
    state               smallint NOT NULL,
    token               bytea    NOT NULL,
    fingerprint_version integer  NOT NULL,
    fingerprint         bytea,
    first_at            bigint   NOT NULL,
    until               bigint   NOT NULL,
    completed_at        bigint,
    codec               bytea,
    receipt             bytea,
    -- The result of an earlier owner beside a pending row.
    late                result
) WITH (fillfactor = 35);

-- What every step answers: a word, and the record that it speaks of. State -1: unreadable.
CREATE TYPE answer AS (
    said                text,
    state               smallint,
    token               bytea,
    fingerprint_version integer,
    fingerprint         bytea,
    first_at            bigint,
    until               bigint,
    completed_at        bigint,
    codec               bytea,
    receipt             bytea
);

-- An answer among many: whose, from 1; 0: of all of them.
CREATE TYPE numbered AS (
    nth                 bigint,
    said                text,
    state               smallint,
    token               bytea,
    fingerprint_version integer,
    fingerprint         bytea,
    first_at            bigint,
    until               bigint,
    completed_at        bigint,
    codec               bytea,
    receipt             bytea
);
