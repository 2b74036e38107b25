-- Locks, and the fences of guarded writes. Instants are milliseconds since 1970, except that a lease counts from the
-- start of the machine.

-- A row stays when the lock is given back: it remembers the fence.
CREATE TABLE hapax_lock (
    namespace     TEXT NOT NULL,
    key           TEXT NOT NULL,
    -- The last one given, or the seed of the next.
    fence         INTEGER NOT NULL,
    -- The token of the last release.
    released      BLOB,
    used_at       INTEGER NOT NULL,
    -- The holder; NULL: nobody.
    token         BLOB,
    held_fence    INTEGER,
    holder        TEXT,
    since         INTEGER,
    -- The life of the machine in which `until` counts.
    boot_id       TEXT,
    until         INTEGER,
    PRIMARY KEY (namespace, key)
) WITHOUT ROWID;

-- The largest fence that wrote to a resource. The same table is made in other databases that guard writes.
CREATE TABLE hapax_guard (
    resource      TEXT PRIMARY KEY,
    fence         INTEGER NOT NULL
) WITHOUT ROWID;
