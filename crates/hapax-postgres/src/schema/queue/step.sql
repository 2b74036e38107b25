-- A worker's step: ends, takes over, hands out.

-- A row of the answer. `finished`: a finish by its number, whether the job was the worker's, and what became of the key.
-- `job`: one that is handed out. `end`, the last: the next due time, whether the group is held back, and the time.
CREATE TYPE stepped AS (
    what                text,
    nth                 bigint,
    applied             boolean,
    said                text,
    state               smallint,
    token               bytea,
    fingerprint_version integer,
    fingerprint         bytea,
    first_at            bigint,
    until               bigint,
    completed_at        bigint,
    codec               bytea,
    receipt             bytea,
    uid                 bytea,
    job_id              bytea,
    delivery            bigint,
    fence               bigint,
    attempts            bigint,
    losses              bigint,
    snoozes             bigint,
    given_back          bigint,
    redriven            bigint,
    snoozed_since       bigint,
    added_at            bigint,
    payload             bytea,
    settings            bytea,
    next_due            bigint,
    paused              boolean,
    now                 bigint
);

-- Ends are 0 done, 1 to be tried again, 2 put off, 3 dead, 4 dead without an attempt. Keys lie in arrays of their own, and
-- each finish says which one is its own.
CREATE FUNCTION queue_step(
    in_namespace bytea, in_queue bytea, in_group bytea, in_consumer bytea, in_want bigint, in_lease bigint,
    in_max_losses bigint, in_uids bytea[], in_deliveries bigint[], in_ends bigint[], in_afters bigint[],
    in_reasons bytea[], in_errors bytea[], in_keeps bigint[], in_codecs bytea[], in_results bytea[],
    in_key_of bigint[], in_key_names bytea[], in_tokens bytea[],
    in_key_fingerprint_versions bigint[], in_key_fingerprints bytea[], in_kinds bigint[], in_key_codecs bytea[],
    in_receipts bytea[], in_ttls bigint[]
) RETURNS SETOF stepped LANGUAGE plpgsql
SET search_path FROM CURRENT
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_sort = off
SET lock_timeout = '1s' AS $$
DECLARE
    from_   queue := queue_open(in_namespace, in_queue);
    g       queue_group := (queue_join(from_.id, in_group)).joined;
    keys    answer[] := '{}';
    applied boolean[] := array_fill(false, ARRAY[cardinality(in_uids)]);
    at      bigint;
    it      record;
    owed    job_copy;
    last    bytea;
    seqs    bigint[];
    gone    bytea[] := '{}';
    ended   bytea[] := '{}';
    hows    smallint[] := '{}';
    keeps   bigint[] := '{}';
    waiting bigint := 0;
    running bigint := 0;
    dead    bigint := 0;
    done    bigint := 0;
    cancels bigint := 0;
    lost    bigint := 0;
    moment  bigint;
    want    bigint := in_want;
    taken   bytea[] := '{}';
    fence   bigint;
    later   bigint;
    -- Only of a queue that keeps events.
    passed  passing[] := '{}';
BEGIN
    -- In the order of their table. Apart from the jobs: a receipt is kept whoever has the job by now.
    IF cardinality(in_key_names) > 0 THEN
        FOR at IN
            SELECT x.nth FROM unnest(in_key_names) WITH ORDINALITY AS x(name, nth) ORDER BY x.name
        LOOP
            keys[at] := complete_named(in_key_names[at], in_tokens[at],
                in_key_fingerprint_versions[at]::integer, in_key_fingerprints[at], in_kinds[at]::smallint,
                in_key_codecs[at], in_receipts[at], in_ttls[at]);
        END LOOP;
    END IF;
    moment := now_ms();

    -- In the order of their table, too; their places are in the order in which they were ended.
    IF cardinality(in_uids) > 0 THEN
        IF 0 <> ANY (in_ends) THEN
            seqs := queue_seqs(cardinality(in_uids));
        END IF;
        FOR it IN
            SELECT x.nth, c.uid, c.state, c.delivery, c.consumer, c.cancelled, c.attempts
            FROM unnest(in_uids) WITH ORDINALITY AS x(uid, nth) JOIN job_copy c ON c.grp = g.id AND c.uid = x.uid
            ORDER BY c.uid, x.nth FOR UPDATE OF c
        LOOP
            -- Not asked of the table, which has other indexes for these.
            CONTINUE WHEN it.state <> 1 OR it.delivery <> in_deliveries[it.nth] OR it.consumer <> in_consumer
                OR it.uid = last;
            at := it.nth;
            last := it.uid;
            applied[at] := true;
            running := running - 1;
            IF from_.events > 0 THEN
                passed := passed || (
                    CASE WHEN in_ends[at] = 0 THEN 13 WHEN it.cancelled THEN 14 ELSE (ARRAY[1, 2, 5, 5])[in_ends[at]] END,
                    it.uid, it.attempts + (NOT it.cancelled AND in_ends[at] IN (1, 3))::int, g.id)::passing;
            END IF;
            IF in_ends[at] = 0 OR it.cancelled THEN
                gone := gone || it.uid;
                ended := ended || it.uid;
                IF in_ends[at] = 0 THEN
                    done := done + 1;
                    hows := hows || 2::smallint;
                    keeps := keeps || in_keeps[at];
                    IF in_results[at] IS NOT NULL THEN
                        UPDATE job j SET codec = in_codecs[at], result = in_results[at]
                        WHERE j.queue = from_.id AND j.uid = it.uid;
                    END IF;
                ELSE
                    cancels := cancels + 1;
                    hows := hows || 1::smallint;
                    keeps := keeps || NULL::bigint;
                END IF;
            ELSIF in_ends[at] IN (1, 2) THEN
                waiting := waiting + 1;
                UPDATE job_copy u
                SET state = 0, due = moment + in_afters[at], seq = seqs[at], consumer = NULL, lease = NULL,
                    taken_at = NULL, attempts = u.attempts + (in_ends[at] = 1)::int,
                    snoozes = CASE in_ends[at] WHEN 1 THEN 0 ELSE u.snoozes + 1 END,
                    snoozed_since = CASE in_ends[at] WHEN 1 THEN NULL ELSE coalesce(u.snoozed_since, moment) END,
                    error = CASE in_ends[at] WHEN 1 THEN in_errors[at] ELSE u.error END,
                    history = queue_told(u.history, moment, in_ends[at]::int, u.attempts + (in_ends[at] = 1)::int,
                        in_consumer, moment + in_afters[at], NULL, CASE in_ends[at] WHEN 1 THEN in_errors[at] END)
                WHERE u.grp = g.id AND u.uid = it.uid;
            ELSE
                dead := dead + 1;
                ended := ended || it.uid;
                hows := hows || 0::smallint;
                keeps := keeps || NULL::bigint;
                UPDATE job_copy u
                SET state = 2, seq = seqs[at], consumer = NULL, lease = NULL, taken_at = NULL,
                    attempts = u.attempts + (in_ends[at] = 3)::int, reason = in_reasons[at], died_at = moment,
                    error = in_errors[at],
                    history = queue_told(u.history, moment, 5, u.attempts + (in_ends[at] = 3)::int, in_consumer, NULL,
                        in_reasons[at], in_errors[at])
                WHERE u.grp = g.id AND u.uid = it.uid;
            END IF;
        END LOOP;
        -- Before anybody looks for those whose leases are over.
        DELETE FROM job_copy d WHERE d.grp = g.id AND d.uid = ANY (gone);
        gone := '{}';
    END IF;

    -- What other workers lost is ready again, before all that became ready later.
    FOR owed IN
        SELECT * FROM job_copy l WHERE l.grp = g.id AND l.state = 1 AND l.lease <= moment ORDER BY l.lease, l.uid
        LIMIT least((in_want + 1) / 2, 16) FOR UPDATE SKIP LOCKED
    LOOP
        running := running - 1;
        IF from_.events > 0 THEN
            passed := passed || (
                CASE WHEN owed.cancelled THEN 14 WHEN owed.losses + 1 > in_max_losses THEN 5 ELSE 3 END,
                owed.uid, owed.attempts, g.id)::passing;
        END IF;
        IF owed.cancelled THEN
            cancels := cancels + 1;
            gone := gone || owed.uid;
            ended := ended || owed.uid;
            hows := hows || 1::smallint;
            keeps := keeps || NULL::bigint;
            CONTINUE;
        END IF;
        lost := lost + 1;
        IF owed.losses + 1 > in_max_losses THEN
            dead := dead + 1;
            ended := ended || owed.uid;
            hows := hows || 0::smallint;
            keeps := keeps || NULL::bigint;
            UPDATE job_copy u
            SET state = 2, seq = (queue_seqs(1))[1], consumer = NULL, lease = NULL, taken_at = NULL,
                losses = u.losses + 1, reason = 'lost', died_at = moment,
                error = convert_to('its worker was lost ' || u.losses + 1 || ' times', 'UTF8'),
                history = queue_told(u.history, moment, 5, u.attempts, u.consumer, NULL, 'lost',
                    convert_to('its worker was lost ' || u.losses + 1 || ' times', 'UTF8'))
            WHERE u.grp = g.id AND u.uid = owed.uid;
        ELSE
            waiting := waiting + 1;
            UPDATE job_copy u
            SET state = 0, consumer = NULL, lease = NULL, taken_at = NULL, losses = u.losses + 1,
                history = queue_told(u.history, moment, 3, u.attempts, u.consumer, NULL, NULL, NULL)
            WHERE u.grp = g.id AND u.uid = owed.uid;
        END IF;
    END LOOP;
    IF cardinality(gone) > 0 THEN
        DELETE FROM job_copy d WHERE d.grp = g.id AND d.uid = ANY (gone);
    END IF;
    IF cardinality(ended) > 0 THEN
        PERFORM queue_ended(from_.id, ended, hows, keeps, moment);
    END IF;

    -- What the limits allow.
    IF want > 0 AND NOT g.paused AND (from_.concurrency IS NOT NULL OR from_.rate IS NOT NULL) THEN
        -- Whoever hands out meanwhile is counted.
        SELECT * INTO g FROM queue_group l WHERE l.id = g.id FOR NO KEY UPDATE;
        moment := now_ms();
        IF from_.concurrency IS NOT NULL THEN
            want := least(want, from_.concurrency - running - coalesce(
                (SELECT sum(n.running) FROM queue_count n WHERE n.grp = g.id), 0));
        END IF;
        IF from_.rate IS NOT NULL THEN
            g.bucket_used := greatest(g.bucket_used - greatest(moment - g.bucket_at, 0)::numeric * from_.rate, 0);
            g.bucket_at := greatest(moment, g.bucket_at);
            later := want;
            want := least(want, greatest(
                div(from_.rate::numeric * from_.rate_window - g.bucket_used, from_.rate_window), 0));
        END IF;
    END IF;
    IF NOT g.paused THEN
        FOR class IN 0..3 LOOP
            EXIT WHEN cardinality(taken) >= want;
            taken := taken || ARRAY(
                SELECT r.uid FROM job_copy r
                WHERE r.grp = g.id AND r.state = 0 AND r.priority = class AND r.due <= moment ORDER BY r.due, r.seq
                LIMIT want - cardinality(taken) FOR UPDATE SKIP LOCKED);
        END LOOP;
    END IF;
    IF cardinality(taken) > 0 THEN
        fence := queue_fence(moment);
        waiting := waiting - cardinality(taken);
        running := running + cardinality(taken);
        UPDATE job_copy u
        SET state = 1, delivery = u.delivery + 1, consumer = in_consumer, lease = moment + in_lease, taken_at = moment,
            progress = NULL
        WHERE u.grp = g.id AND u.uid = ANY (taken);
        IF from_.events > 0 THEN
            passed := passed || ARRAY(
                SELECT (12, t.uid, t.attempts, g.id)::passing FROM unnest(taken) WITH ORDINALITY AS x(uid, nth)
                JOIN job_copy t ON t.grp = g.id AND t.uid = x.uid ORDER BY x.nth);
        END IF;
    END IF;
    IF from_.rate IS NOT NULL AND later IS NOT NULL THEN
        g.bucket_used := g.bucket_used + cardinality(taken)::numeric * from_.rate_window;
        UPDATE queue_group u SET bucket_used = g.bucket_used, bucket_at = g.bucket_at WHERE u.id = g.id;
        -- The rate alone kept some back: were there fewer, it would not matter.
        IF want < later AND cardinality(taken) = want AND queue_oldest(g.id, moment) IS NOT NULL THEN
            later := moment + ceil(greatest(g.bucket_used + from_.rate_window
                - from_.rate::numeric * from_.rate_window, 0) / greatest(from_.rate, 1));
        ELSE
            later := NULL;
        END IF;
    END IF;
    IF waiting <> 0 OR running <> 0 OR dead <> 0 OR done <> 0 OR cancels <> 0 OR lost <> 0 THEN
        PERFORM queue_counted(g.id, waiting, running, dead, 0, done, cancels, lost, moment);
    ELSE
        PERFORM queue_seen(g.id, moment);
    END IF;
    IF cardinality(in_uids) > 0 THEN
        PERFORM queue_ring(g, moment);
    END IF;
    PERFORM queue_passed(from_.id, from_.events, passed, moment);

    FOR nth IN 1..cardinality(in_uids) LOOP
        RETURN NEXT ('finished', nth, applied[nth], (keys[in_key_of[nth]]).said, (keys[in_key_of[nth]]).state,
            (keys[in_key_of[nth]]).token, (keys[in_key_of[nth]]).fingerprint_version,
            (keys[in_key_of[nth]]).fingerprint, (keys[in_key_of[nth]]).first_at, (keys[in_key_of[nth]]).until,
            (keys[in_key_of[nth]]).completed_at, (keys[in_key_of[nth]]).codec, (keys[in_key_of[nth]]).receipt, NULL,
            NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)::stepped;
    END LOOP;
    RETURN QUERY SELECT 'job', x.nth, NULL::boolean, NULL::text, NULL::smallint, NULL::bytea, NULL::integer, NULL::bytea,
        NULL::bigint, NULL::bigint, NULL::bigint, NULL::bytea, NULL::bytea, t.uid, j.job_id, t.delivery, fence,
        t.attempts, t.losses, t.snoozes, t.given_back, t.redriven, t.snoozed_since, j.added_at,
        coalesce(t.payload, j.payload), j.settings, NULL::bigint, NULL::boolean, NULL::bigint
    FROM unnest(taken) WITH ORDINALITY AS x(uid, nth)
    JOIN job_copy t ON t.grp = g.id AND t.uid = x.uid
    JOIN job j ON j.queue = from_.id AND j.uid = x.uid
    ORDER BY x.nth;
    RETURN NEXT ('end', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
        NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, least(queue_next_due(g.id, moment), later), g.paused,
        moment)::stepped;
END
$$;
