-- What people do with jobs, by hand and seldom.

-- Cancels a job in all groups. State: how it had ended before.
CREATE FUNCTION queue_cancel(in_namespace bytea, in_queue bytea, in_uid bytea, in_job_id bytea)
RETURNS TABLE (removed bigint, told bigint, state smallint) LANGUAGE plpgsql
SET search_path FROM CURRENT
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET lock_timeout = '1s' AS $$
DECLARE
    of_    queue := queue_enter(in_namespace, in_queue);
    known  job;
    c      job_copy;
    moment bigint := now_ms();
    passed passing[] := '{}';
BEGIN
    known := queue_job(of_.id, in_uid, in_job_id, moment);
    removed := 0;
    told := 0;
    IF known.uid IS NOT NULL THEN
        state := queue_state(known, moment);
        IF state < 3 THEN
            state := NULL;
        END IF;
    END IF;
    FOR c IN
        SELECT l.* FROM job_copy l
        WHERE l.grp = ANY (ARRAY(SELECT m.id FROM queue_meant(of_.id, NULL) AS m)) AND l.uid = known.uid
        ORDER BY l.grp FOR UPDATE OF l
    LOOP
        IF c.state = 0 THEN
            PERFORM queue_removed(of_.id, c, moment);
            passed := passed || (14, c.uid, c.attempts, c.grp)::passing;
            removed := removed + 1;
        ELSIF c.state = 1 THEN
            UPDATE job_copy u
            SET cancelled = true,
                history = queue_told(u.history, moment, 8, u.attempts, u.consumer, NULL, NULL, NULL)
            WHERE u.grp = c.grp AND u.uid = c.uid;
            told := told + 1;
        END IF;
    END LOOP;
    PERFORM queue_passed(of_.id, of_.events, passed, moment);
    RETURN NEXT;
END
$$;

-- Gives a waiting job another time, in all groups: at an instant, or after so many milliseconds.
CREATE FUNCTION queue_reschedule(
    in_namespace bytea, in_queue bytea, in_uid bytea, in_job_id bytea, in_after bigint, in_at bigint[]
) RETURNS TABLE (count bigint) LANGUAGE plpgsql
SET search_path FROM CURRENT
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET lock_timeout = '1s' AS $$
DECLARE
    of_    queue := queue_enter(in_namespace, in_queue);
    known  job;
    g      queue_group;
    place  bigint := (queue_seqs(1))[1];
    moment bigint := now_ms();
BEGIN
    known := queue_job(of_.id, in_uid, in_job_id, moment);
    count := 0;
    FOR g IN SELECT * FROM queue_meant(of_.id, NULL) LOOP
        UPDATE job_copy u
        SET due = greatest(coalesce(in_at[1], moment + in_after), moment), seq = place,
            history = queue_told(u.history, moment, 9, u.attempts, NULL,
                greatest(coalesce(in_at[1], moment + in_after), moment), NULL, NULL)
        WHERE u.grp = g.id AND u.uid = known.uid AND u.state = 0;
        IF FOUND THEN
            count := count + 1;
            PERFORM queue_ring(g, moment);
        END IF;
    END LOOP;
    RETURN NEXT;
END
$$;

-- Takes dead letters back into the queue. Words: ready, not_dead, too_often, or duplicate, and of which job.
CREATE FUNCTION queue_redrive(
    in_namespace bytea, in_queue bytea, in_group bytea, in_most bigint, in_force bigint, in_uids bytea[]
) RETURNS TABLE (nth bigint, said text, uid bytea) LANGUAGE plpgsql
SET search_path FROM CURRENT
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET lock_timeout = '1s' AS $$
DECLARE
    of_    queue := queue_enter(in_namespace, in_queue);
    g      queue_group := queue_only(of_.id, in_group);
    c      job_copy;
    known  job;
    holder job;
    moment bigint := now_ms();
    passed passing[] := '{}';
BEGIN
    FOR nth IN 1..cardinality(in_uids) LOOP
        uid := NULL;
        said := 'not_dead';
        SELECT * INTO c FROM job_copy l WHERE l.grp = g.id AND l.uid = in_uids[nth] AND l.state = 2 FOR UPDATE;
        IF FOUND AND c.redriven >= in_most AND in_force = 0 THEN
            said := 'too_often';
        ELSIF FOUND THEN
            SELECT * INTO known FROM job j WHERE j.queue = of_.id AND j.uid = c.uid FOR UPDATE;
            SELECT * INTO holder FROM job j
            WHERE j.queue = of_.id AND j.job_id = known.job_id AND j.holds AND j.uid <> known.uid FOR UPDATE;
            IF FOUND AND queue_holds_id(holder, moment) THEN
                said := 'duplicate';
                uid := holder.uid;
            ELSE
                UPDATE job j SET holds = false, id_until = NULL WHERE j.queue = of_.id AND j.uid = holder.uid;
                UPDATE job j
                SET dead = j.dead - 1, alive = j.alive + 1, holds = j.job_id IS NOT NULL, id_until = NULL, until = NULL
                WHERE j.queue = of_.id AND j.uid = c.uid;
                UPDATE job_copy u
                SET state = 0, due = moment, seq = (queue_seqs(1))[1], attempts = 0, losses = 0, snoozes = 0,
                    given_back = 0, redriven = u.redriven + 1, snoozed_since = NULL, cancelled = false, reason = NULL,
                    died_at = NULL, error = NULL,
                    history = queue_told(u.history, moment, 6, 0, NULL, NULL, NULL, NULL)
                WHERE u.grp = g.id AND u.uid = c.uid;
                PERFORM queue_counted(g.id, 1, 0, -1, 0, 0, 0, 0, NULL);
                passed := passed || (6, c.uid, 0, g.id)::passing;
                said := 'ready';
            END IF;
        END IF;
        RETURN NEXT;
    END LOOP;
    PERFORM queue_ring(g, moment);
    PERFORM queue_passed(of_.id, of_.events, passed, moment);
END
$$;

-- Gives a dead letter another payload. Answers whether it was there.
CREATE FUNCTION queue_edit(
    in_namespace bytea, in_queue bytea, in_group bytea, in_uid bytea, in_payload bytea, in_fingerprint_version integer,
    in_fingerprint bytea
) RETURNS TABLE (count bigint) LANGUAGE plpgsql
SET search_path FROM CURRENT
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET lock_timeout = '1s' AS $$
DECLARE
    of_ queue := queue_enter(in_namespace, in_queue);
    g   queue_group := queue_only(of_.id, in_group);
BEGIN
    UPDATE job_copy u
    SET payload = in_payload, history = queue_told(u.history, now_ms(), 7, u.attempts, NULL, NULL, NULL, NULL)
    WHERE u.grp = g.id AND u.uid = in_uid AND u.state = 2;
    count := FOUND::int;
    IF FOUND THEN
        UPDATE job j SET fingerprint_version = in_fingerprint_version, fingerprint = in_fingerprint
        WHERE j.queue = of_.id AND j.uid = in_uid;
    END IF;
    RETURN NEXT;
END
$$;

-- Removes dead letters. Answers how many there were.
CREATE FUNCTION queue_drop_dead(in_namespace bytea, in_queue bytea, in_group bytea, in_uids bytea[])
RETURNS TABLE (count bigint) LANGUAGE plpgsql
SET search_path FROM CURRENT
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET lock_timeout = '1s' AS $$
DECLARE
    of_    queue := queue_enter(in_namespace, in_queue);
    c      job_copy;
    moment bigint := now_ms();
    passed passing[] := '{}';
BEGIN
    count := 0;
    FOR c IN
        SELECT l.* FROM job_copy l
        WHERE l.grp = ANY (ARRAY(SELECT m.id FROM queue_meant(of_.id, in_group) AS m)) AND l.uid = ANY (in_uids)
            AND l.state = 2
        ORDER BY l.grp, l.uid FOR UPDATE OF l
    LOOP
        PERFORM queue_removed(of_.id, c, moment);
        passed := passed || (14, c.uid, c.attempts, c.grp)::passing;
        count := count + 1;
    END LOOP;
    PERFORM queue_passed(of_.id, of_.events, passed, moment);
    RETURN NEXT;
END
$$;

-- Removes at most so many jobs after a place, in all groups: none that was added after the purge began. Answers where the
-- next part goes on.
CREATE FUNCTION queue_purge(
    in_namespace bytea, in_queue bytea, in_newest bigint, in_after_group bigint, in_after_uid bytea, in_most bigint
) RETURNS TABLE (removed bigint, newest bigint, grp bigint, uid bytea) LANGUAGE plpgsql
SET search_path FROM CURRENT
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET lock_timeout = '1s' AS $$
DECLARE
    of_    queue := queue_enter(in_namespace, in_queue);
    c      job_copy;
    moment bigint := now_ms();
    passed passing[] := '{}';
BEGIN
    newest := CASE WHEN in_newest > 0 THEN in_newest ELSE (queue_seqs(1))[1] END;
    removed := 0;
    FOR c IN
        SELECT l.* FROM queue_meant(of_.id, NULL) AS m
        JOIN job_copy l ON l.grp = m.id AND (l.grp, l.uid) > (in_after_group, in_after_uid)
        JOIN job j ON j.queue = of_.id AND j.uid = l.uid AND j.number < newest
        ORDER BY l.grp, l.uid LIMIT in_most FOR UPDATE OF l
    LOOP
        PERFORM queue_removed(of_.id, c, moment);
        passed := passed || (14, c.uid, c.attempts, c.grp)::passing;
        removed := removed + 1;
        grp := c.grp;
        uid := c.uid;
    END LOOP;
    PERFORM queue_passed(of_.id, of_.events, passed, moment);
    RETURN NEXT;
END
$$;

-- Forgets jobs whose time of being remembered is over.
CREATE FUNCTION queue_prune(in_most bigint) RETURNS TABLE (count bigint) LANGUAGE plpgsql
SET search_path FROM CURRENT
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET lock_timeout = '1s' AS $$
BEGIN
    count := queue_forget(in_most, now_ms());
    RETURN NEXT;
END
$$;
