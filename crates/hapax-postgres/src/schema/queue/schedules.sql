-- Schedules, which the engine reads and stores do not.

CREATE FUNCTION queue_put_schedule(
    in_namespace bytea, in_name bytea, in_queue bytea, in_owner bytea, in_revision bigint, in_what bytea, in_next bigint
) RETURNS TABLE (count bigint) LANGUAGE plpgsql
SET search_path FROM CURRENT
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET lock_timeout = '1s' AS $$
BEGIN
    INSERT INTO schedule AS s (namespace, name, queue, owner, revision, what, next)
    VALUES (in_namespace, in_name, in_queue, in_owner, in_revision, in_what, in_next)
    ON CONFLICT (namespace, name) DO UPDATE
    SET queue = excluded.queue, revision = excluded.revision, what = excluded.what, next = excluded.next
    WHERE s.owner IS NOT DISTINCT FROM excluded.owner AND s.revision <= excluded.revision;
    GET DIAGNOSTICS count = ROW_COUNT;
    RETURN NEXT;
END
$$;

-- Those whose next time is not after an instant, or all.
CREATE FUNCTION queue_schedules(in_namespace bytea, in_by bigint[])
RETURNS TABLE (name bytea, queue bytea, owner bytea, revision bigint, what bytea, next bigint) LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off AS $$
BEGIN
    RETURN QUERY SELECT s.name, s.queue, s.owner, s.revision, s.what, s.next FROM schedule s
    WHERE s.namespace = in_namespace AND (in_by[1] IS NULL OR s.next <= in_by[1]) ORDER BY s.name;
END
$$;

-- Removes a schedule; where a revision is given, only while owner and revision are still those.
CREATE FUNCTION queue_remove_schedule(in_namespace bytea, in_name bytea, in_owner bytea, in_revision bigint[])
RETURNS TABLE (count bigint) LANGUAGE plpgsql
SET search_path FROM CURRENT
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET lock_timeout = '1s' AS $$
BEGIN
    DELETE FROM schedule s WHERE s.namespace = in_namespace AND s.name = in_name
        AND (in_revision[1] IS NULL OR s.owner IS NOT DISTINCT FROM in_owner AND s.revision = in_revision[1]);
    GET DIAGNOSTICS count = ROW_COUNT;
    RETURN NEXT;
END
$$;

CREATE FUNCTION queue_advance_schedule(in_namespace bytea, in_name bytea, in_from bigint, in_to bigint)
RETURNS TABLE (count bigint) LANGUAGE plpgsql
SET search_path FROM CURRENT
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET lock_timeout = '1s' AS $$
BEGIN
    UPDATE schedule s SET next = in_to WHERE s.namespace = in_namespace AND s.name = in_name AND s.next = in_from;
    GET DIAGNOSTICS count = ROW_COUNT;
    RETURN NEXT;
END
$$;
