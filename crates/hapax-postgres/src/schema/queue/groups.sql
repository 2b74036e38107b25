-- Groups and bounds of queues.

CREATE FUNCTION queue_subscribe(in_namespace bytea, in_queue bytea, in_group bytea) RETURNS TABLE (said text) LANGUAGE plpgsql
SET search_path FROM CURRENT
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET lock_timeout = '1s' AS $$
DECLARE
    of_ queue := queue_open(in_namespace, in_queue);
BEGIN
    said := (queue_join(of_.id, in_group)).word;
    RETURN NEXT;
END
$$;

-- Removes at most so many jobs of a group, and with the last one the group. No row: no such group.
CREATE FUNCTION queue_unsubscribe(in_namespace bytea, in_queue bytea, in_group bytea, in_most bigint)
RETURNS TABLE (removed bigint, is_last boolean) LANGUAGE plpgsql
SET search_path FROM CURRENT
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET lock_timeout = '1s' AS $$
DECLARE
    of_    queue;
    g      queue_group;
    c      job_copy;
    moment bigint;
    passed passing[] := '{}';
BEGIN
    SELECT * INTO of_ FROM queue q WHERE q.namespace = in_namespace AND q.name = in_queue;
    -- Steps that are under way know the group: they end first.
    PERFORM pg_advisory_xact_lock(queue_lock(of_.id)) WHERE of_.id IS NOT NULL;
    SELECT * INTO g FROM queue_group l WHERE l.queue = of_.id AND l.name = in_group FOR UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    moment := now_ms();
    removed := 0;
    FOR c IN SELECT * FROM job_copy l WHERE l.grp = g.id ORDER BY l.uid LIMIT in_most FOR UPDATE LOOP
        PERFORM queue_removed(of_.id, c, moment);
        passed := passed || (14, c.uid, c.attempts, g.id)::passing;
        removed := removed + 1;
    END LOOP;
    is_last := removed < in_most;
    IF is_last THEN
        DELETE FROM queue_group d WHERE d.id = g.id;
        DELETE FROM queue_count n WHERE n.grp = g.id;
        -- The last leaves one without a name, so that nothing that is added later gets lost.
        IF NOT EXISTS (SELECT FROM queue_group l WHERE l.queue = of_.id) THEN
            INSERT INTO queue_group (queue) VALUES (of_.id);
        END IF;
    END IF;
    PERFORM queue_passed(of_.id, of_.events, passed, moment);
    RETURN NEXT;
END
$$;

-- Holds back the jobs of a group, or of all. Answers how many groups there are for it.
CREATE FUNCTION queue_pause(in_namespace bytea, in_queue bytea, in_group bytea, in_paused bigint)
RETURNS TABLE (count bigint) LANGUAGE plpgsql
SET search_path FROM CURRENT
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET lock_timeout = '1s' AS $$
DECLARE
    of_ queue := queue_enter(in_namespace, in_queue);
    g   queue_group;
BEGIN
    count := 0;
    FOR g IN SELECT * FROM queue_meant(of_.id, in_group) LOOP
        UPDATE queue_group u SET paused = in_paused <> 0 WHERE u.id = g.id;
        PERFORM queue_ring(g, now_ms());
        count := count + 1;
    END LOOP;
    RETURN NEXT;
END
$$;

CREATE FUNCTION queue_set_limits(
    in_namespace bytea, in_queue bytea, in_concurrency bigint[], in_rate bigint[], in_max_len bigint[],
    in_events bigint, in_per bytea
) RETURNS TABLE (count bigint) LANGUAGE plpgsql
SET search_path FROM CURRENT
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET lock_timeout = '1s' AS $$
DECLARE
    of_ queue := queue_open(in_namespace, in_queue);
    g   queue_group;
BEGIN
    UPDATE queue q
    SET concurrency = in_concurrency[1], rate = in_rate[1], rate_window = in_rate[2], max_len = in_max_len[1],
        events = in_events, per = in_per
    WHERE q.id = of_.id;
    count := 0;
    FOR g IN SELECT * FROM queue_meant(of_.id, NULL) LOOP
        PERFORM queue_ring(g, now_ms());
        count := count + 1;
    END LOOP;
    DELETE FROM queue_event e
    WHERE e.queue = of_.id AND e.number <= (SELECT s.last FROM queue_stream s WHERE s.queue = of_.id) - in_events;
    RETURN NEXT;
END
$$;

CREATE FUNCTION queue_limits(in_namespace bytea, in_queue bytea)
RETURNS TABLE (concurrency bigint, rate bigint, rate_window bigint, max_len bigint, events bigint, per bytea) LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off AS $$
BEGIN
    RETURN QUERY SELECT q.concurrency, q.rate, q.rate_window, q.max_len, q.events, q.per FROM queue q
    WHERE q.namespace = in_namespace AND q.name = in_queue;
END
$$;
