-- A worker lives, and has these jobs; or it gives them back.

-- Locks those of these jobs that are the consumer's, by these hand-outs. By the order of the table, as everywhere; the rest
-- is not asked of the table, which has other indexes for it.
CREATE FUNCTION queue_held(in_group bigint, in_consumer bytea, in_uids bytea[], in_deliveries bigint[]) RETURNS job_copy[]
LANGUAGE plpgsql AS $$
DECLARE
    locked job_copy[] := ARRAY(
        SELECT c FROM job_copy c WHERE c.grp = in_group AND c.uid = ANY (in_uids) ORDER BY c.uid FOR UPDATE OF c);
BEGIN
    RETURN ARRAY(
        SELECT DISTINCT ON (l.uid) l FROM unnest(in_uids, in_deliveries) AS x(uid, delivery)
        JOIN unnest(locked) AS l ON l.uid = x.uid AND l.delivery = x.delivery
        WHERE l.state = 1 AND l.consumer = in_consumer ORDER BY l.uid);
END
$$;

-- Makes running jobs, whose rows are locked, ready again: that is no loss. Those that were cancelled are over.
CREATE FUNCTION queue_back(from_ queue, g queue_group, given job_copy[], moment bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    uids bytea[] := ARRAY(SELECT x.uid FROM unnest(given) AS x WHERE NOT x.cancelled);
    over bytea[] := ARRAY(SELECT x.uid FROM unnest(given) AS x WHERE x.cancelled);
BEGIN
    IF cardinality(given) = 0 THEN
        RETURN;
    END IF;
    UPDATE job_copy u
    SET state = 0, consumer = NULL, lease = NULL, taken_at = NULL, given_back = u.given_back + 1,
        history = queue_told(u.history, moment, 4, u.attempts, u.consumer, NULL, NULL, NULL)
    WHERE u.grp = g.id AND u.uid = ANY (uids);
    IF cardinality(over) > 0 THEN
        DELETE FROM job_copy d WHERE d.grp = g.id AND d.uid = ANY (over);
        PERFORM queue_ended(from_.id, over, array_fill(1::smallint, ARRAY[cardinality(over)]),
            array_fill(NULL::bigint, ARRAY[cardinality(over)]), moment);
    END IF;
    PERFORM queue_counted(g.id, cardinality(uids), -cardinality(given), 0, 0, 0, cardinality(over), 0, moment);
    PERFORM queue_ring(g, moment);
    IF from_.events > 0 THEN
        PERFORM queue_passed(from_.id, from_.events, ARRAY(
            SELECT (CASE WHEN x.cancelled THEN 14 ELSE 4 END, x.uid, x.attempts, g.id)::passing FROM unnest(given) AS x
        ), moment);
    END IF;
END
$$;

-- Makes leases longer, and keeps how far some of the jobs are. Since when: what the consumer got before and does not name came in an answer that was lost.
-- Answers with `cancelled` and `lost` jobs, and at the `end` how many were given back, and the time.
CREATE FUNCTION queue_beat(
    in_namespace bytea, in_queue bytea, in_group bytea, in_consumer bytea, in_lease bigint, in_since bigint[],
    in_uids bytea[], in_deliveries bigint[], in_told bytea[], in_progress bytea[]
) RETURNS TABLE (what text, uid bytea, freed bigint, now bigint) LANGUAGE plpgsql
SET search_path FROM CURRENT
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET lock_timeout = '1s' AS $$
DECLARE
    of_    queue := queue_enter(in_namespace, in_queue);
    g      queue_group;
    held   job_copy[];
    given  job_copy[] := '{}';
    moment bigint;
BEGIN
    SELECT * INTO g FROM queue_group l WHERE l.queue = of_.id AND l.name = in_group;
    held := queue_held(g.id, in_consumer, in_uids, in_deliveries);
    moment := now_ms();
    IF cardinality(held) > 0 THEN
        UPDATE job_copy u SET lease = greatest(u.lease, moment + in_lease)
        WHERE u.grp = g.id AND u.uid = ANY (ARRAY(SELECT h.uid FROM unnest(held) AS h));
    END IF;
    IF cardinality(in_told) > 0 THEN
        UPDATE job_copy u SET progress = x.progress
        FROM unnest(in_told, in_progress) AS x(uid, progress)
        WHERE u.grp = g.id AND u.uid = x.uid AND x.uid = ANY (ARRAY(SELECT h.uid FROM unnest(held) AS h));
    END IF;
    RETURN QUERY SELECT 'cancelled', h.uid, NULL::bigint, NULL::bigint FROM unnest(held) AS h WHERE h.cancelled;
    RETURN QUERY SELECT 'lost', x.uid, NULL::bigint, NULL::bigint
        FROM unnest(in_uids, in_deliveries) WITH ORDINALITY AS x(uid, delivery, nth)
        LEFT JOIN unnest(held) AS h ON h.uid = x.uid AND h.delivery = x.delivery
        WHERE h.uid IS NULL ORDER BY x.nth;
    IF g.id IS NOT NULL THEN
        PERFORM queue_seen(g.id, moment);
    END IF;
    IF in_since[1] IS NOT NULL THEN
        given := ARRAY(
            SELECT c FROM job_copy c
            WHERE c.grp = g.id AND c.state = 1 AND c.consumer = in_consumer AND c.taken_at < in_since[1]
                AND c.uid <> ALL (ARRAY(SELECT h.uid FROM unnest(held) AS h))
            ORDER BY c.uid LIMIT 256 FOR UPDATE SKIP LOCKED);
        PERFORM queue_back(of_, g, given, moment);
    END IF;
    RETURN QUERY SELECT 'end', NULL::bytea, cardinality(given)::bigint, moment;
END
$$;

-- Gives jobs back. Answers with the numbers of those that were the consumer's. Whoever leaves gives back the rest too.
CREATE FUNCTION queue_give_back(
    in_namespace bytea, in_queue bytea, in_group bytea, in_consumer bytea, in_leave bigint, in_uids bytea[],
    in_deliveries bigint[]
) RETURNS TABLE (nth bigint) LANGUAGE plpgsql
SET search_path FROM CURRENT
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET lock_timeout = '1s' AS $$
DECLARE
    of_   queue := queue_enter(in_namespace, in_queue);
    g     queue_group;
    given job_copy[];
    rest  job_copy[] := '{}';
BEGIN
    SELECT * INTO g FROM queue_group l WHERE l.queue = of_.id AND l.name = in_group;
    given := queue_held(g.id, in_consumer, in_uids, in_deliveries);
    RETURN QUERY SELECT min(x.nth) FROM unnest(in_uids, in_deliveries) WITH ORDINALITY AS x(uid, delivery, nth)
        JOIN unnest(given) AS u ON u.uid = x.uid AND u.delivery = x.delivery GROUP BY x.uid;
    IF in_leave <> 0 THEN
        rest := ARRAY(
            SELECT c FROM job_copy c
            WHERE c.grp = g.id AND c.state = 1 AND c.consumer = in_consumer
                AND c.uid <> ALL (ARRAY(SELECT u.uid FROM unnest(given) AS u))
            ORDER BY c.uid FOR UPDATE OF c);
    END IF;
    PERFORM queue_back(of_, g, given || rest, now_ms());
END
$$;
