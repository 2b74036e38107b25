-- Layout 1. The database may hold tables of its users too, so every name of ours starts with `hapax_`.

-- What the store knows of itself: layout, min_reader and min_writer; the secret; where pruning goes on.
CREATE TABLE hapax_meta (
    name  TEXT PRIMARY KEY,
    value
) WITHOUT ROWID;

INSERT INTO hapax_meta (name, value) VALUES ('layout', 1), ('min_reader', 1), ('min_writer', 1);

-- One row for each key. There is no index on the time at which a row is over: it would double the cost of a write,
-- and nothing but pruning would use it.
CREATE TABLE hapax_idempotency (
    namespace          TEXT NOT NULL,
    scope              TEXT NOT NULL,
    key                TEXT NOT NULL,
    -- Version of the rest of the row.
    format             INTEGER NOT NULL,
    -- Of a pending row: the life of the machine in which `until` counts.
    boot_id            TEXT,
    -- 0 pending, 1 done, 2 unknown.
    state              INTEGER NOT NULL,
    token              BLOB NOT NULL,
    fingerprint_version INTEGER NOT NULL,
    fingerprint        BLOB,
    -- Milliseconds since 1970, like every instant here but one.
    first_at           INTEGER NOT NULL,
    -- Of a pending row: milliseconds since the machine started.
    until              INTEGER NOT NULL,
    completed_at       INTEGER,
    codec              TEXT,
    receipt            BLOB,
    -- The result of an earlier owner beside a pending row, in the same order.
    late_state         INTEGER,
    late_token         BLOB,
    late_fingerprint_version INTEGER,
    late_fingerprint   BLOB,
    late_first_at      INTEGER,
    late_until         INTEGER,
    late_completed_at  INTEGER,
    late_codec         TEXT,
    late_receipt       BLOB,
    PRIMARY KEY (namespace, scope, key)
) WITHOUT ROWID;

-- `hapx`: tells this database from those of other programs.
PRAGMA application_id = 1751216248;
