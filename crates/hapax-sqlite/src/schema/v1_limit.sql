-- Rate limits. Instants are milliseconds since 1970.

CREATE TABLE hapax_limit (
    namespace     TEXT NOT NULL,
    key           TEXT NOT NULL,
    -- 0 fixed window, 1 sliding window, 2 sliding counter, 3 token bucket.
    algorithm     INTEGER NOT NULL,
    shadow        INTEGER NOT NULL,
    -- The quota of the last request that was allowed; the window in milliseconds.
    most          INTEGER NOT NULL,
    window        INTEGER NOT NULL,
    -- When the state equals a fresh one.
    until         INTEGER NOT NULL,
    -- The start of a window, or when the bucket held its credits.
    at            INTEGER,
    -- What was taken in the window, or the credits.
    count         INTEGER,
    -- What was taken in the window before.
    previous      INTEGER,
    -- The requests of a sliding window: for each, the milliseconds since the one before and the weight, in seven bits a
    -- byte, the lowest first; the highest bit says that more follow.
    log           BLOB,
    PRIMARY KEY (namespace, key, algorithm, shadow)
) WITHOUT ROWID;
