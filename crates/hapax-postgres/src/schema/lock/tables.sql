-- Locks: one row for each name that was held, until its fence need not be remembered any more.

CREATE TABLE lock_slot (
    namespace     bytea  NOT NULL,
    scope         bytea  NOT NULL,
    key           bytea  NOT NULL,
    -- The last fence given, or the seed of the next.
    fence         bigint NOT NULL,
    -- Who holds it, until when; nobody.
    token         bytea,
    held_fence    bigint,
    holder        bytea,
    since         bigint,
    until         bigint,
    -- The last token that gave it back.
    released      bytea,
    used_at       bigint NOT NULL,
    -- So long somebody who waits listens for its release.
    awaited_until bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (namespace, scope, key)
) WITH (fillfactor = 50);

-- What every step answers: a word, and what it speaks of. `rest` is the rest of a lease.
CREATE TYPE lock_answer AS (
    said   text,
    fence  bigint,
    until  bigint,
    rest   bigint,
    holder bytea,
    since  bigint
);

-- The largest fence that was written under, for each resource that is guarded.
CREATE TABLE fence_seen (
    namespace bytea  NOT NULL,
    key       bytea  NOT NULL,
    fence     bigint NOT NULL,
    seen_at   bigint NOT NULL,
    PRIMARY KEY (namespace, key)
);
