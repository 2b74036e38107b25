-- Queues. Instants are milliseconds since 1970, except that a lease counts from the start of the machine.

CREATE TABLE hapax_queue (
    id            INTEGER PRIMARY KEY,
    namespace     TEXT NOT NULL,
    name          TEXT NOT NULL,
    -- The bounds; NULL: none.
    concurrency   INTEGER,
    rate          INTEGER,
    rate_window   INTEGER,
    max_len       INTEGER,
    -- The rate for each value of a field: its text.
    per           TEXT,
    -- So many events are kept; the number of the last one.
    events        INTEGER NOT NULL DEFAULT 0,
    event         INTEGER NOT NULL DEFAULT 0,
    -- The last place among jobs that are due at the same instant, and the last fence.
    seq           INTEGER NOT NULL DEFAULT 0,
    fence         INTEGER NOT NULL DEFAULT 0,
    UNIQUE (namespace, name)
);

-- The groups of a queue; the name of its first is NULL until a worker gives it one.
CREATE TABLE hapax_queue_group (
    id            INTEGER PRIMARY KEY,
    queue         INTEGER NOT NULL,
    name          TEXT,
    paused        INTEGER NOT NULL DEFAULT 0,
    -- How many copies it has in each state: counting them would cost more with each one.
    waiting       INTEGER NOT NULL DEFAULT 0,
    running       INTEGER NOT NULL DEFAULT 0,
    dead          INTEGER NOT NULL DEFAULT 0,
    added         INTEGER NOT NULL DEFAULT 0,
    done          INTEGER NOT NULL DEFAULT 0,
    cancelled     INTEGER NOT NULL DEFAULT 0,
    lost          INTEGER NOT NULL DEFAULT 0,
    bucket_used   INTEGER NOT NULL DEFAULT 0,
    bucket_at     INTEGER NOT NULL DEFAULT 0,
    seen          INTEGER,
    UNIQUE (queue, name)
);

-- What is known of a job over all groups, while any has it and for a while after.
CREATE TABLE hapax_job (
    id            INTEGER PRIMARY KEY,
    queue         INTEGER NOT NULL,
    uid           BLOB NOT NULL,
    job_id        TEXT,
    -- Whether the id is the job's; until `id_until`, once the job is over.
    holds         INTEGER NOT NULL,
    fingerprint_version INTEGER NOT NULL,
    fingerprint   BLOB,
    priority      INTEGER NOT NULL,
    due           INTEGER NOT NULL,
    added_at      INTEGER NOT NULL,
    remember      INTEGER NOT NULL,
    -- In how many groups it waits or runs, and in how many it is a dead letter.
    alive         INTEGER NOT NULL,
    dead          INTEGER NOT NULL DEFAULT 0,
    -- How it ended elsewhere: 0 not yet, 1 cancelled, 2 done.
    ended         INTEGER NOT NULL DEFAULT 0,
    ended_at      INTEGER,
    id_until      INTEGER,
    -- When the row may go.
    until         INTEGER,
    result_until  INTEGER,
    codec         TEXT,
    result        BLOB,
    settings      BLOB NOT NULL,
    -- NULL once no group has it.
    payload       BLOB
);
CREATE UNIQUE INDEX hapax_job_uid ON hapax_job (queue, uid);
CREATE UNIQUE INDEX hapax_job_id ON hapax_job (queue, job_id) WHERE holds = 1;
CREATE INDEX hapax_job_dead ON hapax_job (queue, job_id) WHERE holds = 0 AND dead > 0;
CREATE INDEX hapax_job_until ON hapax_job (until) WHERE until IS NOT NULL;

-- The job in one group. Its bytes lie in `hapax_job`, so that taking it and each beat write a few of them.
CREATE TABLE hapax_job_copy (
    grp           INTEGER NOT NULL,
    job           INTEGER NOT NULL,
    -- 0 waiting, 1 running, 2 dead.
    state         INTEGER NOT NULL,
    priority      INTEGER NOT NULL,
    due           INTEGER NOT NULL,
    seq           INTEGER NOT NULL,
    delivery      INTEGER NOT NULL DEFAULT 0,
    attempts      INTEGER NOT NULL DEFAULT 0,
    losses        INTEGER NOT NULL DEFAULT 0,
    snoozes       INTEGER NOT NULL DEFAULT 0,
    given_back    INTEGER NOT NULL DEFAULT 0,
    redriven      INTEGER NOT NULL DEFAULT 0,
    snoozed_since INTEGER,
    cancelled     INTEGER NOT NULL DEFAULT 0,
    -- Of a running one.
    consumer      TEXT,
    boot_id       TEXT,
    lease         INTEGER,
    fence         INTEGER,
    -- How far it is, since it was taken.
    progress      BLOB,
    -- Of a dead one.
    reason        TEXT,
    died_at       INTEGER,
    -- What its handler said last.
    error         TEXT,
    -- Instead of the job's, where somebody gave a dead letter another.
    payload       BLOB,
    -- What happened beside the usual; NULL: nothing.
    history       BLOB,
    PRIMARY KEY (grp, job)
) WITHOUT ROWID;
CREATE INDEX hapax_job_waiting ON hapax_job_copy (grp, priority, due, seq) WHERE state = 0;
CREATE INDEX hapax_job_running ON hapax_job_copy (grp, consumer, lease) WHERE state = 1;
CREATE INDEX hapax_job_died ON hapax_job_copy (grp, died_at, seq) WHERE state = 2;

-- What passed in a queue that keeps events.
CREATE TABLE hapax_queue_event (
    queue         INTEGER NOT NULL,
    number        INTEGER NOT NULL,
    at            INTEGER NOT NULL,
    what          INTEGER NOT NULL,
    uid           BLOB NOT NULL,
    -- NULL: all groups.
    grp           INTEGER,
    attempts      INTEGER NOT NULL,
    PRIMARY KEY (queue, number)
) WITHOUT ROWID;

CREATE TABLE hapax_schedule (
    namespace     TEXT NOT NULL,
    name          TEXT NOT NULL,
    queue         TEXT NOT NULL,
    owner         TEXT,
    revision      INTEGER NOT NULL,
    what          BLOB NOT NULL,
    next          INTEGER NOT NULL,
    PRIMARY KEY (namespace, name)
) WITHOUT ROWID;
