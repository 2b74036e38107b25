-- Rate limits: one row for each name and way of counting, until it equals a fresh one.

CREATE TABLE limit_slot (
    namespace bytea    NOT NULL,
    -- The algorithm, the version of its state, and whether it is a shadow.
    scope     bytea    NOT NULL,
    key       bytea    NOT NULL,
    -- The quota of the last request that was allowed; no limit: nothing was counted.
    lim       bigint   NOT NULL,
    win       bigint   NOT NULL,
    -- When the window began, or the bucket was filled.
    start     bigint   NOT NULL,
    -- The count of the window, the sum of the log, the credits of the bucket; of a counter the window before.
    a         bigint   NOT NULL,
    -- Of a counter: the window of now.
    b         bigint   NOT NULL,
    -- The log: when, in order, and how much.
    ats       bigint[],
    weights   bigint[],
    -- When it equals a fresh one, and may go.
    ends      bigint   NOT NULL,
    PRIMARY KEY (namespace, scope, key)
) WITH (fillfactor = 50);

-- A log is written anew with each request: to compress it takes longer than to write it.
ALTER TABLE limit_slot ALTER ats SET STORAGE EXTERNAL, ALTER weights SET STORAGE EXTERNAL;

-- A limit at one moment under one quota: what of the row counts. `algorithm`: 0 a fixed window, 1 a sliding window, 2 a
-- sliding counter, 3 a token bucket.
CREATE TYPE limit_count AS (
    algorithm bigint,
    lim       bigint,
    win       bigint,
    -- None: no window has begun.
    start     bigint,
    a         bigint,
    b         bigint,
    ats       bigint[],
    weights   bigint[],
    -- The clock was set back by more than a window: the state has to be written as it is here.
    was_set   boolean
);

-- What one limit says of a request.
CREATE TYPE limit_answer AS (
    allowed   boolean,
    never     boolean,
    remaining bigint,
    retry     bigint,
    reset     bigint,
    next      bigint
);
