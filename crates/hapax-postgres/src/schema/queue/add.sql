-- Adding jobs.

-- What became of a job to add: `new`, `replaced`, `duplicate`, `reused` or `full`. State: 0 ready, 1 delayed, 2 running,
-- 3 dead, 4 done, 5 cancelled.
CREATE TYPE added AS (
    nth                 bigint,
    said                text,
    uid                 bytea,
    due                 bigint,
    state               smallint,
    fingerprint_version integer,
    fingerprint         bytea,
    codec               bytea,
    result              bytea,
    depth               bigint,
    oldest              bigint
);

-- Adds jobs to a queue, each with its own answer. Where `in_ats` has an instant, the job is due then, else after so many
-- milliseconds. What happens on a conflict of payloads under a job id: 0 refuse, 1 keep, 2 replace.
CREATE FUNCTION queue_add(
    in_namespace bytea, in_queue bytea, in_uids bytea[], in_job_ids bytea[], in_fingerprint_versions bigint[],
    in_fingerprints bytea[], in_payloads bytea[], in_afters bigint[], in_ats bigint[], in_priorities bigint[],
    in_settings bytea[], in_remembers bigint[], in_conflicts bigint[]
) RETURNS SETOF added LANGUAGE plpgsql
SET search_path FROM CURRENT
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_sort = off
SET lock_timeout = '1s' AS $$
DECLARE
    into_ queue := queue_open(in_namespace, in_queue);
    subs   queue_group[];
    g      queue_group;
    known  job;
    seqs   bigint[] := queue_seqs(cardinality(in_uids));
    nth    bigint;
    moment bigint;
    due_   bigint;
    added_ bigint := 0;
    free   bigint;
    longest bigint;
    said_  added;
    passed passing[] := '{}';
BEGIN
    IF into_.max_len IS NOT NULL THEN
        -- Whoever adds meanwhile is counted.
        PERFORM FROM queue q WHERE q.id = into_.id FOR NO KEY UPDATE;
    END IF;
    subs := ARRAY(SELECT m FROM queue_meant(into_.id, NULL) AS m);
    moment := now_ms();
    PERFORM queue_forget(2 * cardinality(in_uids), moment);
    IF into_.max_len IS NOT NULL THEN
        SELECT l.grp, into_.max_len - l.waiting INTO longest, free FROM (
            SELECT m.id AS grp, coalesce((SELECT sum(n.waiting) FROM queue_count n WHERE n.grp = m.id), 0)::bigint AS waiting
            FROM unnest(subs) AS m
        ) AS l ORDER BY l.waiting DESC LIMIT 1;
    END IF;
    -- In one order of ids, so that two batches do not wait for each other; in their own where a bound says which of them
    -- are too many.
    FOR nth IN
        SELECT x.nth FROM unnest(in_job_ids) WITH ORDINALITY AS x(job_id, nth)
        ORDER BY CASE WHEN free IS NULL THEN x.job_id END, x.nth
    LOOP
        said_ := NULL;
        due_ := greatest(coalesce(in_ats[nth], moment + in_afters[nth]), moment);
        FOR attempt IN 1..100 LOOP
            IF free IS NULL OR free > 0 THEN
                INSERT INTO job (
                    queue, uid, job_id, holds, fingerprint_version, fingerprint, priority, due, added_at, number, remember,
                    alive, settings, payload
                ) VALUES (
                    into_.id, in_uids[nth], in_job_ids[nth], in_job_ids[nth] IS NOT NULL, in_fingerprint_versions[nth],
                    in_fingerprints[nth], in_priorities[nth], due_, moment, seqs[nth], in_remembers[nth],
                    cardinality(subs), in_settings[nth], in_payloads[nth]
                ) ON CONFLICT DO NOTHING;
                IF FOUND THEN
                    INSERT INTO job_copy (grp, uid, state, priority, due, seq)
                    SELECT m.id, in_uids[nth], 0, in_priorities[nth], due_, seqs[nth] FROM unnest(subs) AS m;
                    added_ := added_ + 1;
                    IF into_.events > 0 THEN
                        passed := passed || (11, in_uids[nth], 0, NULL)::passing;
                    END IF;
                    free := free - 1;
                    said_ := (nth, 'new', in_uids[nth], due_, NULL, NULL, NULL, NULL, NULL, NULL, NULL)::added;
                    EXIT;
                END IF;
            END IF;
            SELECT * INTO known FROM job j WHERE j.queue = into_.id AND j.uid = in_uids[nth];
            IF FOUND THEN
                IF NOT queue_is_forgotten(known, moment) THEN
                    said_ := (nth, 'new', known.uid, known.due, NULL, NULL, NULL, NULL, NULL, NULL, NULL)::added;
                    EXIT;
                END IF;
                DELETE FROM job j WHERE j.queue = into_.id AND j.uid = in_uids[nth] AND queue_is_forgotten(j, moment);
                CONTINUE;
            END IF;
            SELECT * INTO known FROM job j WHERE j.queue = into_.id AND j.job_id = in_job_ids[nth] AND j.holds;
            IF FOUND AND NOT queue_holds_id(known, moment) THEN
                UPDATE job j SET holds = false, id_until = NULL
                WHERE j.queue = into_.id AND j.uid = known.uid AND NOT queue_holds_id(j, moment);
                CONTINUE;
            END IF;
            IF FOUND THEN
                said_ := queue_again(into_.id, known, in_fingerprint_versions[nth], in_fingerprints[nth],
                    in_payloads[nth], due_, in_priorities[nth], in_settings[nth], in_conflicts[nth], moment);
                CONTINUE WHEN said_.said IS NULL;
                said_.nth := nth;
                EXIT;
            END IF;
            IF free <= 0 THEN
                said_ := (nth, 'full', NULL, NULL, NULL, NULL, NULL, NULL, NULL, into_.max_len - free,
                    moment - queue_oldest(longest, moment))::added;
                EXIT;
            END IF;
        END LOOP;
        IF said_.said IS NULL THEN
            RAISE EXCEPTION 'the row never held still' USING ERRCODE = 'serialization_failure';
        END IF;
        RETURN NEXT said_;
    END LOOP;
    FOREACH g IN ARRAY subs LOOP
        IF added_ > 0 THEN
            PERFORM queue_counted(g.id, added_, 0, 0, added_, 0, 0, 0, NULL);
        END IF;
        PERFORM queue_ring(g, moment);
    END LOOP;
    PERFORM queue_passed(into_.id, into_.events, passed, moment);
END
$$;

-- The job id is that of a job that is known. Nothing where that changed meanwhile.
CREATE FUNCTION queue_again(
    in_queue bigint, known job, in_fingerprint_version bigint, in_fingerprint bytea, in_payload bytea, in_due bigint,
    in_priority bigint, in_settings bytea, in_conflict bigint, moment bigint
) RETURNS added LANGUAGE plpgsql AS $$
DECLARE
    copies job_copy[];
BEGIN
    IF in_fingerprint_version = known.fingerprint_version AND in_fingerprint IS NOT DISTINCT FROM known.fingerprint
        OR in_conflict = 1
    THEN
        RETURN (NULL, 'duplicate', known.uid, NULL, queue_state(known, moment), NULL, NULL,
            CASE WHEN known.result_until > moment THEN known.codec END,
            CASE WHEN known.result_until > moment THEN known.result END, NULL, NULL)::added;
    END IF;
    IF in_conflict = 2 THEN
        -- In the order in which steps lock them: a step may be about to take it.
        copies := ARRAY(
            SELECT c FROM job_copy c
            WHERE c.grp IN (SELECT m.id FROM queue_meant(in_queue, NULL) AS m) AND c.uid = known.uid ORDER BY c.grp FOR UPDATE);
        IF NOT EXISTS (SELECT FROM unnest(copies) AS c WHERE c.state <> 0 OR c.delivery > 0) AND cardinality(copies) > 0 THEN
            UPDATE job j
            SET fingerprint_version = in_fingerprint_version, fingerprint = in_fingerprint, priority = in_priority,
                settings = in_settings, payload = in_payload
            WHERE j.queue = in_queue AND j.uid = known.uid AND j.holds;
            IF NOT FOUND THEN
                RETURN NULL;
            END IF;
            UPDATE job_copy c
            SET priority = in_priority, due = in_due, payload = NULL,
                history = queue_told(c.history, moment, 10, c.attempts, NULL, in_due, NULL, NULL)
            FROM unnest(copies) AS l WHERE c.grp = l.grp AND c.uid = l.uid;
            RETURN (NULL, 'replaced', known.uid, in_due, NULL, NULL, NULL, NULL, NULL, NULL, NULL)::added;
        END IF;
    END IF;
    RETURN (NULL, 'reused', known.uid, NULL, NULL, known.fingerprint_version, known.fingerprint, NULL, NULL, NULL,
        NULL)::added;
END
$$;

-- Since when the oldest ready job of a group has been so.
CREATE FUNCTION queue_oldest(in_group bigint, moment bigint) RETURNS bigint LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT min(f.due) FROM generate_series(0, 3) AS p CROSS JOIN LATERAL (
        SELECT c.due FROM job_copy c WHERE c.grp = in_group AND c.state = 0 AND c.priority = p AND c.due <= moment
        ORDER BY c.due LIMIT 1) AS f);
END
$$;

-- The first instant after a moment at which a waiting job of a group is due.
CREATE FUNCTION queue_next_due(in_group bigint, moment bigint) RETURNS bigint LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT min(f.due) FROM generate_series(0, 3) AS p CROSS JOIN LATERAL (
        SELECT c.due FROM job_copy c WHERE c.grp = in_group AND c.state = 0 AND c.priority = p AND c.due > moment
        ORDER BY c.due LIMIT 1) AS f);
END
$$;

-- Adds one job. Public: any driver may call it within a transaction of its own. Its signature stays; another one would
-- get another name. `in_uid`: 16 random bytes, the same when the call is sent again. Roll back unless it says `new`,
-- `replaced` or `duplicate`.
CREATE FUNCTION add(
    in_namespace bytea, in_queue bytea, in_uid bytea, in_job_id bytea, in_fingerprint_version integer,
    in_fingerprint bytea, in_payload bytea, in_after bigint, in_at bigint, in_priority smallint, in_settings bytea,
    in_remember bigint, in_on_conflict smallint
) RETURNS added LANGUAGE plpgsql
SET search_path FROM CURRENT AS $$
DECLARE
    answer added;
BEGIN
    IF octet_length(in_uid) <> 16 OR in_priority NOT BETWEEN 0 AND 3 OR in_on_conflict NOT BETWEEN 0 AND 2 THEN
        RAISE EXCEPTION 'an id has 16 bytes, a priority is 0 to 3, a way on a conflict 0 to 2'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    SELECT * INTO answer FROM queue_add(
        in_namespace, in_queue, ARRAY[in_uid], ARRAY[in_job_id], ARRAY[in_fingerprint_version::bigint],
        ARRAY[in_fingerprint], ARRAY[in_payload], ARRAY[coalesce(in_after, 0)], ARRAY[in_at],
        ARRAY[in_priority::bigint], ARRAY[in_settings], ARRAY[in_remember], ARRAY[in_on_conflict::bigint]);
    RETURN answer;
END
$$;
