-- What is told of jobs and queues.

-- A job in one group, or one that is over. Its place in a list: the group, and three numbers.
CREATE TYPE job_info AS (
    grp           bigint,
    first         bigint,
    second        bigint,
    third         bigint,
    uid           bytea,
    job_id        bytea,
    name          bytea,
    state         smallint,
    priority      smallint,
    attempts      bigint,
    losses        bigint,
    snoozes       bigint,
    given_back    bigint,
    redriven      bigint,
    added_at      bigint,
    at            bigint,
    consumer      bytea,
    reason        bytea,
    error         bytea,
    payload       bytea,
    settings      bytea,
    codec         bytea,
    result        bytea,
    taken_at      bigint,
    -- Not on the pages of a list.
    history       bytea,
    progress      bytea
);

CREATE FUNCTION queue_shown(g queue_group, c job_copy, j job, state smallint, first bigint, second bigint, third bigint)
RETURNS job_info LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (g.id, first, second, third, j.uid, j.job_id, g.name, state, c.priority, c.attempts, c.losses, c.snoozes,
        c.given_back, c.redriven, j.added_at, CASE state WHEN 2 THEN c.lease WHEN 3 THEN c.died_at ELSE c.due END,
        c.consumer, c.reason, c.error, coalesce(c.payload, j.payload), j.settings, NULL, NULL, c.taken_at,
        NULL, NULL)::job_info;
END
$$;

-- What is known of a job: a row for each group that has it, or one for a job that is over.
CREATE FUNCTION queue_find(in_namespace bytea, in_queue bytea, in_uid bytea, in_job_id bytea)
RETURNS SETOF job_info LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off AS $$
DECLARE
    of_    queue;
    known  job;
    moment bigint := now_ms();
BEGIN
    SELECT * INTO of_ FROM queue q WHERE q.namespace = in_namespace AND q.name = in_queue;
    known := queue_job(of_.id, in_uid, in_job_id, moment);
    IF known.uid IS NULL THEN
        RETURN;
    END IF;
    RETURN QUERY SELECT i.grp, i.first, i.second, i.third, i.uid, i.job_id, i.name, i.state, i.priority, i.attempts,
            i.losses, i.snoozes, i.given_back, i.redriven, i.added_at, i.at, i.consumer, i.reason, i.error, i.payload,
            i.settings, i.codec, i.result, i.taken_at, c.history,
            -- What was said of an earlier hand-out stays in the row until the next.
            CASE c.state WHEN 1 THEN c.progress END
        FROM queue_meant(of_.id, NULL) AS m
        JOIN job_copy c ON c.grp = m.id AND c.uid = known.uid
        CROSS JOIN LATERAL queue_shown(m, c, known, queue_copy_state(c, moment), 0, 0, 0) AS i
        ORDER BY m.id;
    IF NOT FOUND THEN
        RETURN NEXT (NULL, 0, 0, 0, known.uid, known.job_id, NULL, queue_end_state(known), known.priority, 0, 0, 0, 0, 0,
            known.added_at, known.ended_at, NULL, NULL, NULL, '', known.settings,
            CASE WHEN known.result_until > moment THEN known.codec END,
            CASE WHEN known.result_until > moment THEN known.result END, NULL, NULL, NULL)::job_info;
    END IF;
END
$$;

-- A page of jobs in one state, after a place: group by group, each a range of an index. Those that run are in the order
-- of none, and no more than the workers have places for.
CREATE FUNCTION queue_list(
    in_namespace bytea, in_queue bytea, in_group bytea, in_state bigint, in_after bigint, in_first bigint,
    in_second bigint, in_third bigint, in_limit bigint
) RETURNS SETOF job_info LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off AS $$
DECLARE
    of_    queue;
    g      queue_group;
    room   bigint := in_limit;
    a      bigint;
    b      bigint;
    z      bigint;
    got    bigint;
    moment bigint := now_ms();
BEGIN
    SELECT * INTO of_ FROM queue q WHERE q.namespace = in_namespace AND q.name = in_queue;
    FOR g IN SELECT * FROM queue_meant(of_.id, in_group) AS m WHERE m.id >= in_after LOOP
        -- A place in another group bounds nothing in this one.
        a := CASE WHEN g.id = in_after THEN in_first ELSE -9223372036854775808 END;
        b := CASE WHEN g.id = in_after THEN in_second ELSE -9223372036854775808 END;
        z := CASE WHEN g.id = in_after THEN in_third ELSE -9223372036854775808 END;
        IF in_state = 0 THEN
            FOR class IN 0..3 LOOP
                CONTINUE WHEN class < a;
                RETURN QUERY SELECT i.* FROM job_copy c JOIN job j ON j.queue = of_.id AND j.uid = c.uid
                    CROSS JOIN LATERAL queue_shown(g, c, j, 0::smallint, class, c.due, c.seq) AS i
                    WHERE c.grp = g.id AND c.state = 0 AND c.priority = class AND c.due <= moment
                        AND (class > a OR (c.due, c.seq) > (b, z))
                    ORDER BY c.due, c.seq LIMIT room;
                GET DIAGNOSTICS got = ROW_COUNT;
                room := room - got;
            END LOOP;
        ELSIF in_state = 1 THEN
            RETURN QUERY SELECT i.* FROM (
                    SELECT d.* FROM generate_series(0, 3) AS p CROSS JOIN LATERAL (
                        SELECT c.* FROM job_copy c
                        WHERE c.grp = g.id AND c.state = 0 AND c.priority = p AND c.due > moment
                            AND (c.due, c.seq) > (a, b)
                        ORDER BY c.due, c.seq LIMIT room
                    ) AS d ORDER BY d.due, d.seq LIMIT room
                ) AS l
                JOIN job_copy c ON c.grp = g.id AND c.uid = l.uid
                JOIN job j ON j.queue = of_.id AND j.uid = l.uid
                CROSS JOIN LATERAL queue_shown(g, c, j, 1::smallint, l.due, l.seq, 0) AS i ORDER BY l.due, l.seq;
            GET DIAGNOSTICS got = ROW_COUNT;
            room := room - got;
        ELSIF in_state = 2 THEN
            RETURN QUERY SELECT i.* FROM job_copy c JOIN job j ON j.queue = of_.id AND j.uid = c.uid
                CROSS JOIN LATERAL queue_shown(g, c, j, 2::smallint, c.lease, c.seq, 0) AS i
                WHERE c.grp = g.id AND c.state = 1 AND (c.lease, c.seq) > (a, b) ORDER BY c.lease, c.seq LIMIT room;
            GET DIAGNOSTICS got = ROW_COUNT;
            room := room - got;
        ELSE
            RETURN QUERY SELECT i.* FROM job_copy c JOIN job j ON j.queue = of_.id AND j.uid = c.uid
                CROSS JOIN LATERAL queue_shown(g, c, j, 3::smallint, c.died_at, c.seq, 0) AS i
                WHERE c.grp = g.id AND c.state = 2 AND (c.died_at, c.seq) > (a, b) ORDER BY c.died_at, c.seq LIMIT room;
            GET DIAGNOSTICS got = ROW_COUNT;
            room := room - got;
        END IF;
        EXIT WHEN room <= 0;
    END LOOP;
END
$$;

-- The figures of all groups of one queue, or of all of a namespace, by name.
CREATE FUNCTION queue_stats(in_namespace bytea, in_queue bytea) RETURNS TABLE (
    queue bytea, name bytea, ready bigint, delayed bigint, running bigint, dead bigint, added bigint, done bigint,
    cancelled bigint, lost bigint, paused boolean, oldest bigint, seen bigint, now bigint
) LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off AS $$
DECLARE
    moment bigint := now_ms();
BEGIN
    RETURN QUERY SELECT q.name, g.name, (s.waiting - l.delayed)::bigint, l.delayed, s.running::bigint, s.dead::bigint,
        s.added::bigint, s.done::bigint, s.cancelled::bigint, s.lost::bigint, g.paused, queue_oldest(g.id, moment), s.seen,
        moment
    FROM queue q JOIN queue_group g ON g.queue = q.id
    CROSS JOIN LATERAL (
        SELECT coalesce(sum(n.waiting), 0) AS waiting, coalesce(sum(n.running), 0) AS running,
            coalesce(sum(n.dead), 0) AS dead, coalesce(sum(n.added), 0) AS added, coalesce(sum(n.done), 0) AS done,
            coalesce(sum(n.cancelled), 0) AS cancelled, coalesce(sum(n.lost), 0) AS lost, max(n.seen) AS seen
        FROM queue_count n WHERE n.grp = g.id
    ) AS s
    CROSS JOIN LATERAL (
        SELECT count(*) AS delayed FROM generate_series(0, 3) AS p
        JOIN job_copy c ON c.grp = g.id AND c.state = 0 AND c.priority = p AND c.due > moment
    ) AS l
    WHERE q.namespace = in_namespace AND (in_queue IS NULL OR q.name = in_queue) ORDER BY q.name, g.id;
END
$$;

-- What is there of the groups of one queue, or of the first queues of all, when their records are looked at: so many of
-- each kind. All at the instant of the call.
CREATE FUNCTION queue_books(in_namespace bytea, in_queue bytea, in_queues bigint, in_most bigint, in_overdue bigint)
RETURNS TABLE (
    namespace bytea, queue bytea, name bytea, ready bigint, delayed bigint, running bigint, dead bigint, added bigint,
    done bigint, cancelled bigint, lost bigint, paused boolean, oldest bigint, seen bigint, now bigint,
    has_waiting bigint, has_running bigint, has_dead bigint, bodiless bigint, homeless bigint, dangling bigint,
    overdue bigint, overdue_of bytea, is_more boolean
) LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off AS $$
DECLARE
    q      queue;
    g      queue_group;
    base   bigint;
    so_far bigint := 0;
    moment bigint := now_ms();
BEGIN
    FOR q IN
        SELECT * FROM queue a WHERE in_queue IS NULL OR (a.namespace = in_namespace AND a.name = in_queue)
        ORDER BY a.namespace, a.name LIMIT in_queues + 1
    LOOP
        so_far := so_far + 1;
        is_more := so_far > in_queues;
        namespace := q.namespace;
        queue := q.name;
        IF is_more THEN
            RETURN NEXT;
            RETURN;
        END IF;
        base := NULL;
        FOR g IN SELECT * FROM queue_meant(q.id, NULL) LOOP
            name := g.name;
            SELECT s.ready, s.delayed, s.running, s.dead, s.added, s.done, s.cancelled, s.lost, s.paused, s.oldest, s.seen,
                s.now
            INTO ready, delayed, running, dead, added, done, cancelled, lost, paused, oldest, seen, now
            FROM queue_stats(q.namespace, q.name) AS s WHERE s.name IS NOT DISTINCT FROM g.name;
            SELECT count(*) FILTER (WHERE c.state = 0), count(*) FILTER (WHERE c.state = 1),
                count(*) FILTER (WHERE c.state = 2)
            INTO has_waiting, has_running, has_dead
            FROM (SELECT a.state FROM job_copy a WHERE a.grp = g.id LIMIT in_most + 1) AS c;
            SELECT count(*) INTO bodiless
            FROM (SELECT a.uid, a.payload IS NULL AS is_bare FROM job_copy a WHERE a.grp = g.id LIMIT in_most) AS c
            WHERE NOT EXISTS (
                SELECT FROM job j WHERE j.queue = q.id AND j.uid = c.uid AND (NOT c.is_bare OR j.payload IS NOT NULL));
            SELECT count(*), (array_agg(c.consumer))[1] INTO overdue, overdue_of
            FROM (
                SELECT a.consumer FROM job_copy a
                WHERE a.grp = g.id AND a.state = 1 AND a.lease < moment - in_overdue LIMIT in_most
            ) AS c;
            homeless := 0;
            dangling := 0;
            -- Of the queue, and told once.
            IF base IS NULL THEN
                base := g.id;
                SELECT count(*) INTO homeless
                FROM (SELECT a.uid, a.alive + a.dead AS held FROM job a WHERE a.queue = q.id AND a.alive + a.dead > 0 LIMIT in_most)
                    AS j
                WHERE j.held > (
                    SELECT count(*) FROM queue_group m JOIN job_copy c ON c.grp = m.id AND c.uid = j.uid WHERE m.queue = q.id);
                SELECT count(*) INTO dangling
                FROM (
                    SELECT FROM job a
                    WHERE a.queue = q.id AND a.holds AND a.alive = 0 AND a.dead = 0 AND a.until IS NULL LIMIT in_most
                ) AS j;
            END IF;
            RETURN NEXT;
        END LOOP;
    END LOOP;
END
$$;

-- In how many milliseconds a step of a group may find something; none: not unless somebody writes. Notes until when the
-- caller listens, in milliseconds from now, so that others call.
CREATE FUNCTION queue_look(in_namespace bytea, in_queue bytea, in_group bytea, in_listens bigint)
RETURNS TABLE (next bigint) LANGUAGE plpgsql
SET search_path FROM CURRENT
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_sort = off
SET lock_timeout = '1s' AS $$
DECLARE
    of_     queue;
    g       queue_group;
    lost    bigint;
    due_    bigint;
    used    numeric;
    running bigint;
    moment  bigint := now_ms();
BEGIN
    SELECT * INTO of_ FROM queue q WHERE q.namespace = in_namespace AND q.name = in_queue;
    SELECT * INTO g FROM queue_group l WHERE l.queue = of_.id AND l.name = in_group;
    -- Seldom, so that those who wait do not write all the time.
    IF in_listens > 0 AND g.listened_until < moment + in_listens / 2 THEN
        UPDATE queue_group u SET listened_until = moment + in_listens
        WHERE u.id = (SELECT l.id FROM queue_group l WHERE l.id = g.id FOR NO KEY UPDATE SKIP LOCKED);
    END IF;
    IF g.paused THEN
        RETURN NEXT;
        RETURN;
    END IF;
    SELECT c.lease INTO lost FROM job_copy c WHERE c.grp = g.id AND c.state = 1 ORDER BY c.lease LIMIT 1;
    due_ := coalesce(queue_oldest(g.id, moment), queue_next_due(g.id, moment));
    IF of_.concurrency IS NOT NULL THEN
        SELECT sum(n.running) INTO running FROM queue_count n WHERE n.grp = g.id;
        IF running >= of_.concurrency THEN
            due_ := NULL;
        END IF;
    END IF;
    IF due_ <= moment AND of_.rate IS NOT NULL THEN
        used := greatest(g.bucket_used - greatest(moment - g.bucket_at, 0)::numeric * of_.rate, 0);
        due_ := moment + ceil(greatest(used + of_.rate_window - of_.rate::numeric * of_.rate_window, 0)
            / greatest(of_.rate, 1));
    END IF;
    next := least(lost, due_) - moment;
    IF next < 0 THEN
        next := 0;
    END IF;
    RETURN NEXT;
END
$$;

-- What passed in a queue, behind the event of a number: a row for each, and a last one without a number. In every row the
-- number of the newest, and of the first that is kept.
CREATE FUNCTION queue_events(in_namespace bytea, in_queue bytea, in_after bigint, in_limit bigint)
RETURNS TABLE (
    number bigint, at bigint, what smallint, uid bytea, name bytea, attempts bigint, newest bigint, first bigint
) LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off AS $$
DECLARE
    of_   bigint;
    last_ bigint;
    kept  bigint;
BEGIN
    SELECT q.id INTO of_ FROM queue q WHERE q.namespace = in_namespace AND q.name = in_queue;
    last_ := coalesce((SELECT s.last FROM queue_stream s WHERE s.queue = of_), 0);
    kept := coalesce((SELECT min(e.number) FROM queue_event e WHERE e.queue = of_), last_ + 1);
    RETURN QUERY SELECT e.number, e.at, e.what, e.uid,
            (SELECT g.name FROM queue_group g WHERE g.id = e.grp), e.attempts, last_, kept
        FROM queue_event e WHERE e.queue = of_ AND e.number > in_after ORDER BY e.number LIMIT in_limit;
    RETURN QUERY SELECT NULL::bigint, NULL::bigint, NULL::smallint, NULL::bytea, NULL::bytea, NULL::bigint, last_, kept;
END
$$;
