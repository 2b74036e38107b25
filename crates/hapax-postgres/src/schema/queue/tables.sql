-- Queues. Texts are bytes and instants are milliseconds, as everywhere.

CREATE TABLE queue (
    id                  bigint   GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    namespace           bytea    NOT NULL,
    name                bytea    NOT NULL,
    -- The bounds; none: none.
    concurrency         bigint,
    rate                bigint,
    rate_window         bigint,
    max_len             bigint,
    -- The rate for each value of a field: its text.
    per                 bytea,
    -- So many events are kept.
    events              bigint   NOT NULL DEFAULT 0,
    UNIQUE (namespace, name)
);

-- The groups of a queue; the first has no name until a worker gives it one.
CREATE TABLE queue_group (
    id                  bigint   GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue               bigint   NOT NULL,
    name                bytea,
    paused              boolean  NOT NULL DEFAULT false,
    -- Parts are beyond what a bigint holds.
    bucket_used         numeric  NOT NULL DEFAULT 0,
    bucket_at           bigint   NOT NULL DEFAULT 0,
    -- Until then somebody listens who wants to be told of new jobs.
    listened_until      bigint   NOT NULL DEFAULT 0,
    UNIQUE (queue, name)
) WITH (fillfactor = 50);

-- The figures of a group are sums over its rows. A step adds to a row that nobody else is at, and makes one where all
-- are taken: one row would be what every step of a group waits for, until the commit of the one before.
CREATE TABLE queue_count (
    grp                 bigint   NOT NULL,
    slot                bigint   GENERATED ALWAYS AS IDENTITY,
    waiting             bigint   NOT NULL DEFAULT 0,
    running             bigint   NOT NULL DEFAULT 0,
    dead                bigint   NOT NULL DEFAULT 0,
    added               bigint   NOT NULL DEFAULT 0,
    done                bigint   NOT NULL DEFAULT 0,
    cancelled           bigint   NOT NULL DEFAULT 0,
    lost                bigint   NOT NULL DEFAULT 0,
    seen                bigint,
    PRIMARY KEY (grp, slot)
) WITH (fillfactor = 20);

-- What is known of a job over all groups, while any has it and for a while after.
CREATE TABLE job (
    queue               bigint   NOT NULL,
    uid                 bytea    NOT NULL,
    job_id              bytea,
    -- Whether the id is the job's; until `id_until`, once the job is over.
    holds               boolean  NOT NULL,
    fingerprint_version integer  NOT NULL,
    fingerprint         bytea,
    priority            smallint NOT NULL,
    due                 bigint   NOT NULL,
    added_at            bigint   NOT NULL,
    -- In the order of adding.
    number              bigint   NOT NULL,
    remember            bigint   NOT NULL,
    -- In how many groups it waits or runs, and in how many it is a dead letter.
    alive               bigint   NOT NULL,
    dead                bigint   NOT NULL DEFAULT 0,
    -- How it ended elsewhere: 0 not yet, 1 cancelled, 2 done.
    ended               smallint NOT NULL DEFAULT 0,
    ended_at            bigint,
    id_until            bigint,
    -- When the row may go.
    until               bigint,
    result_until        bigint,
    codec               bytea,
    result              bytea,
    settings            bytea    NOT NULL,
    -- None once no group has it.
    payload             bytea,
    PRIMARY KEY (queue, uid)
) WITH (autovacuum_vacuum_scale_factor = 0.05);
CREATE UNIQUE INDEX job_id ON job (queue, job_id) WHERE holds;
CREATE INDEX job_dead ON job (queue, job_id) WHERE NOT holds AND dead > 0;
CREATE INDEX job_until ON job (until) WHERE until IS NOT NULL;

-- The job in one group. Its bytes lie in `job`, so that taking it and each beat write a few of them.
CREATE TABLE job_copy (
    grp                 bigint   NOT NULL,
    uid                 bytea    NOT NULL,
    -- 0 waiting, 1 running, 2 dead.
    state               smallint NOT NULL,
    priority            smallint NOT NULL,
    due                 bigint   NOT NULL,
    -- Its place among those that are due at the same instant.
    seq                 bigint   NOT NULL,
    delivery            bigint   NOT NULL DEFAULT 0,
    attempts            bigint   NOT NULL DEFAULT 0,
    losses              bigint   NOT NULL DEFAULT 0,
    snoozes             bigint   NOT NULL DEFAULT 0,
    given_back          bigint   NOT NULL DEFAULT 0,
    redriven            bigint   NOT NULL DEFAULT 0,
    snoozed_since       bigint,
    cancelled           boolean  NOT NULL DEFAULT false,
    -- Of a running one.
    consumer            bytea,
    lease               bigint,
    taken_at            bigint,
    -- How far it is, since it was taken.
    progress            bytea,
    -- Of a dead one.
    reason              bytea,
    died_at             bigint,
    -- What its handler said last.
    error               bytea,
    -- Instead of the job's, where somebody gave a dead letter another.
    payload             bytea,
    -- What happened beside the usual; none: nothing.
    history             bytea,
    PRIMARY KEY (grp, uid)
) WITH (autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX job_waiting ON job_copy (grp, priority, due, seq) WHERE state = 0;
CREATE INDEX job_leased ON job_copy (grp, lease, uid) WHERE state = 1;
CREATE INDEX job_held ON job_copy (grp, consumer) WHERE state = 1;
CREATE INDEX job_died ON job_copy (grp, died_at, seq) WHERE state = 2;

-- What passed in a queue that keeps events: which group (none: all), and how often the job had failed.
CREATE TABLE queue_event (
    queue               bigint   NOT NULL,
    number              bigint   NOT NULL,
    at                  bigint   NOT NULL,
    what                smallint NOT NULL,
    uid                 bytea    NOT NULL,
    grp                 bigint,
    attempts            bigint   NOT NULL,
    PRIMARY KEY (queue, number)
) WITH (autovacuum_vacuum_scale_factor = 0.05);

-- The number of the last event. A step locks it last, and holds it until its commit: who reads events sees them in their
-- order, and none comes later than one that was seen.
CREATE TABLE queue_stream (
    queue               bigint   PRIMARY KEY,
    last                bigint   NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE schedule (
    namespace           bytea    NOT NULL,
    name                bytea    NOT NULL,
    queue               bytea    NOT NULL,
    owner               bytea,
    revision            bigint   NOT NULL,
    what                bytea    NOT NULL,
    next                bigint   NOT NULL,
    PRIMARY KEY (namespace, name)
);

CREATE SEQUENCE job_seq;
CREATE SEQUENCE job_fence;
