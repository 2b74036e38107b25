-- What several steps of queues need. Each is called by a step, under the settings of that step.

-- Places among jobs that are due at the same instant. With the rights of whoever made the schema: others have them on
-- its tables alone.
CREATE FUNCTION queue_seqs(many bigint) RETURNS bigint[] LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path FROM CURRENT AS $$
    SELECT coalesce(array_agg(nextval('job_seq')), '{}') FROM generate_series(1, many)
$$;

-- A number above all that were given before, and above the time in microseconds. The sequence runs a second ahead of the
-- clock, so that most steps take the next number and wait for nobody; who finds it behind puts it forward, one at a
-- time. It stays above what it gave when the clock is set back, and is above it after a restore.
CREATE FUNCTION queue_fence(moment bigint) RETURNS bigint LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path FROM CURRENT AS $$
DECLARE
    fence bigint := nextval('job_fence');
BEGIN
    IF fence >= moment * 1000 THEN
        RETURN fence;
    END IF;
    PERFORM pg_advisory_xact_lock('job_fence'::regclass::oid::bigint);
    fence := nextval('job_fence');
    IF fence < moment * 1000 THEN
        fence := setval('job_fence', moment * 1000 + 1000000);
    END IF;
    RETURN fence;
END
$$;

-- Puts an event behind the history of a job: 1 retried, 2 snoozed, 3 lost, 4 given back, 5 dead, 6 redriven, 7 edited,
-- 8 cancelled, 9 rescheduled, 10 replaced. The form is that of `hapax_core::queue::history`; the first event and the
-- last ones are kept.
CREATE FUNCTION queue_told(
    told bytea, moment bigint, what int, attempts bigint, consumer bytea, due bigint, reason bytea, error bytea
) RETURNS bytea LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    events bigint;
    second bigint;
    third  bigint;
    event  bytea;
    -- Not as a text of `\x…`, which some settings of a role read otherwise.
    zero   CONSTANT bytea := decode('00', 'hex');
BEGIN
    told := coalesce(told, decode('010000000000', 'hex'));
    IF get_byte(told, 0) <> 1 THEN
        RETURN told;
    END IF;
    events := get_byte(told, 1);
    IF events < 20 THEN
        told := set_byte(told, 1, events::int + 1);
    ELSE
        second := 9 + get_byte(told, 6) * 256 + get_byte(told, 7);
        third := second + 2 + get_byte(told, second::int - 1) * 256 + get_byte(told, second::int);
        told := substr(told, 1, 2)
            || int4send((('x' || encode(substr(told, 3, 4), 'hex'))::bit(32)::int + 1))
            || substr(told, 7, second::int - 7) || substr(told, third::int);
    END IF;
    consumer := coalesce(consumer, '');
    event := int8send(moment) || set_byte(zero, 0, what) || int4send(least(attempts, 2147483647)::int)
        || int8send(coalesce(due, 0))
        || set_byte(zero, 0, coalesce(array_position(ARRAY['exhausted', 'lost', 'undecodable', 'invalid', 'unknown',
            'key_reused', 'snoozed_out', 'refused']::bytea[], reason), 0))
        || set_byte(zero, 0, octet_length(consumer)) || consumer || substr(coalesce(error, ''), 1, 256);
    RETURN told || int2send(octet_length(event)::smallint) || event;
END
$$;

-- What happened to a job: 1 retried, 2 snoozed, 3 lost, 4 given back, 5 dead, 6 redriven, 11 added, 12 started, 13 done,
-- 14 cancelled.
CREATE TYPE passing AS (
    what     smallint,
    uid      bytea,
    attempts bigint,
    grp      bigint
);

-- Tells what passed, and forgets what is too old. The last that a step does: others wait until its commit. Numbers have no
-- gaps, and begin at the time in microseconds.
CREATE FUNCTION queue_passed(in_queue bigint, in_kept bigint, passed passing[], moment bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    many    bigint := cardinality(passed);
    newest  bigint;
BEGIN
    IF in_kept = 0 OR many = 0 THEN
        RETURN;
    END IF;
    INSERT INTO queue_stream AS s (queue, last) VALUES (in_queue, moment * 1000 + many - 1)
    ON CONFLICT (queue) DO UPDATE SET last = s.last + many RETURNING s.last INTO newest;
    INSERT INTO queue_event (queue, number, at, what, uid, grp, attempts)
    SELECT in_queue, newest - many + x.nth, moment, x.what, x.uid, x.grp, x.attempts
    FROM unnest(passed) WITH ORDINALITY AS x(what, uid, attempts, grp, nth);
    DELETE FROM queue_event e WHERE e.queue = in_queue AND e.number <= newest - in_kept;
END
$$;

-- No group of the queue is dropped while somebody holds this.
CREATE FUNCTION queue_lock(in_queue bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT x'6861706100000000'::bigint | in_queue
$$;

-- The queue, as it stays until the step ends. None where it is not there.
CREATE FUNCTION queue_enter(in_namespace bytea, in_name bytea) RETURNS queue LANGUAGE plpgsql AS $$
DECLARE
    found queue;
BEGIN
    SELECT * INTO found FROM queue q WHERE q.namespace = in_namespace AND q.name = in_name;
    IF found.id IS NOT NULL THEN
        PERFORM pg_advisory_xact_lock_shared(queue_lock(found.id));
    END IF;
    RETURN found;
END
$$;

-- The same; it comes into being where it is not there.
CREATE FUNCTION queue_open(in_namespace bytea, in_name bytea) RETURNS queue LANGUAGE plpgsql AS $$
DECLARE
    found queue := queue_enter(in_namespace, in_name);
    made  bigint;
BEGIN
    IF found.id IS NULL THEN
        INSERT INTO queue (namespace, name) VALUES (in_namespace, in_name) ON CONFLICT DO NOTHING RETURNING id INTO made;
        IF made IS NOT NULL THEN
            INSERT INTO queue_group (queue) VALUES (made);
        END IF;
        found := queue_enter(in_namespace, in_name);
    END IF;
    RETURN found;
END
$$;

-- Groups that are meant: of a name, or all. In the order in which they began.
CREATE FUNCTION queue_meant(in_queue bigint, in_group bytea) RETURNS SETOF queue_group LANGUAGE plpgsql STABLE ROWS 1 AS $$
BEGIN
    RETURN QUERY SELECT * FROM queue_group g
    WHERE g.queue = in_queue AND (in_group IS NULL OR g.name = in_group) ORDER BY g.id;
END
$$;

-- The one group that is meant; none where there are several.
CREATE FUNCTION queue_only(in_queue bigint, in_group bytea) RETURNS queue_group LANGUAGE plpgsql STABLE AS $$
DECLARE
    meant queue_group[] := ARRAY(SELECT m FROM queue_meant(in_queue, in_group) AS m);
BEGIN
    RETURN CASE WHEN cardinality(meant) = 1 THEN meant[1] END;
END
$$;

-- Makes a group known. The word: known, first or another.
CREATE FUNCTION queue_join(in_queue bigint, in_group bytea, OUT word text, OUT joined queue_group) LANGUAGE plpgsql AS $$
BEGIN
    SELECT * INTO joined FROM queue_group g WHERE g.queue = in_queue AND g.name = in_group;
    IF FOUND THEN
        word := 'known';
        RETURN;
    END IF;
    -- One at a time, each seeing what the one before did.
    PERFORM FROM queue q WHERE q.id = in_queue FOR NO KEY UPDATE;
    SELECT * INTO joined FROM queue_group g WHERE g.queue = in_queue AND g.name = in_group;
    IF FOUND THEN
        word := 'known';
        RETURN;
    END IF;
    UPDATE queue_group g SET name = in_group WHERE g.queue = in_queue AND g.name IS NULL RETURNING g.* INTO joined;
    IF FOUND THEN
        word := 'first';
        RETURN;
    END IF;
    INSERT INTO queue_group (queue, name) VALUES (in_queue, in_group) RETURNING * INTO joined;
    word := 'another';
END
$$;

-- Adds to the figures of a group. The last that a step does.
CREATE FUNCTION queue_counted(
    in_group bigint, in_waiting bigint, in_running bigint, in_dead bigint, in_added bigint, in_done bigint,
    in_cancelled bigint, in_lost bigint, in_seen bigint
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    free bigint;
BEGIN
    SELECT n.slot INTO free FROM queue_count n WHERE n.grp = in_group ORDER BY n.slot LIMIT 1 FOR UPDATE SKIP LOCKED;
    IF free IS NULL THEN
        INSERT INTO queue_count (grp, waiting, running, dead, added, done, cancelled, lost, seen)
        VALUES (in_group, in_waiting, in_running, in_dead, in_added, in_done, in_cancelled, in_lost, in_seen);
    ELSE
        UPDATE queue_count n
        SET waiting = n.waiting + in_waiting, running = n.running + in_running, dead = n.dead + in_dead,
            added = n.added + in_added, done = n.done + in_done, cancelled = n.cancelled + in_cancelled,
            lost = n.lost + in_lost, seen = greatest(n.seen, in_seen)
        WHERE n.grp = in_group AND n.slot = free;
    END IF;
END
$$;

-- A worker of the group was here: to the second.
CREATE FUNCTION queue_seen(in_group bigint, moment bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM queue_count n WHERE n.grp = in_group AND n.seen > moment - 1000) THEN
        PERFORM queue_counted(in_group, 0, 0, 0, 0, 0, 0, 0, moment);
    END IF;
END
$$;

-- Wakes whoever waits for jobs of a group and listens. A hint: who does not hear it looks by itself.
CREATE FUNCTION queue_ring(ringing queue_group, moment bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF ringing.listened_until > moment THEN
        PERFORM pg_notify('hapax', current_schema() || ' ' || ringing.id);
    END IF;
END
$$;

-- Whether the caller's id stays the job's when a group where it was alive has ended it: not where it is cancelled in the
-- last one.
CREATE FUNCTION queue_keeps_id(known job, how smallint) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT known.holds AND (known.alive > 1 OR how = 0 OR known.dead > 0 OR greatest(known.ended, how) = 2)
$$;

-- Jobs are over in a group where they were alive: 0 as dead letters, 1 cancelled, 2 done. Each occurs once.
CREATE FUNCTION queue_ended(in_queue bigint, in_uids bytea[], in_hows smallint[], in_keeps bigint[], moment bigint)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    -- From the columns of the row alone: another group may be about to end it too. A job without an id of its own is known
    -- for ten minutes: an `add` that is sent again finds it.
    UPDATE job j
    SET alive = j.alive - 1, dead = j.dead + (x.how = 0)::int, ended = greatest(j.ended, x.how), ended_at = moment,
        holds = queue_keeps_id(j, x.how), result_until = coalesce(moment + x.keep, j.result_until),
        id_until = CASE WHEN j.alive > 1 OR NOT queue_keeps_id(j, x.how) THEN j.id_until ELSE moment + j.remember END,
        until = CASE WHEN j.alive > 1 THEN j.until ELSE greatest(
            moment + CASE WHEN queue_keeps_id(j, x.how) THEN j.remember ELSE 600000 END,
            coalesce(moment + x.keep, j.result_until)) END,
        payload = CASE WHEN j.alive > 1 OR x.how = 0 OR j.dead > 0 THEN j.payload END
    FROM unnest(in_uids, in_hows, in_keeps) AS x(uid, how, keep)
    WHERE j.queue = in_queue AND j.uid = x.uid;
END
$$;

-- Takes a job out of a group before its end; its row there is locked, or gone.
CREATE FUNCTION queue_removed(in_queue bigint, removed job_copy, moment bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM job_copy c WHERE c.grp = removed.grp AND c.uid = removed.uid;
    IF removed.state = 2 THEN
        UPDATE job j SET dead = j.dead - 1 WHERE j.queue = in_queue AND j.uid = removed.uid;
    ELSE
        PERFORM queue_ended(in_queue, ARRAY[removed.uid], ARRAY[1::smallint], ARRAY[NULL::bigint], moment);
    END IF;
    -- The last one frees the id, also that of a dead letter.
    UPDATE job j
    SET ended = 1, ended_at = moment, holds = false, id_until = NULL, until = moment + 600000, payload = NULL
    WHERE j.queue = in_queue AND j.uid = removed.uid AND j.alive = 0 AND j.dead = 0;
    PERFORM queue_counted(removed.grp, -(removed.state = 0)::int, -(removed.state = 1)::int,
        -(removed.state = 2)::int, 0, 0, 1, 0, NULL);
END
$$;

-- Whether nobody needs to know the job any more.
CREATE FUNCTION queue_is_forgotten(known job, moment bigint) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT known.alive = 0 AND known.dead = 0 AND coalesce(known.until <= moment, false)
$$;

-- Whether the caller's id is the job's.
CREATE FUNCTION queue_holds_id(known job, moment bigint) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT known.holds AND (known.alive > 0 OR coalesce(known.id_until > moment, true))
$$;

-- Removes what is over; a dead letter stays and loses its id.
CREATE FUNCTION queue_forget(in_limit bigint, moment bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    known job;
    gone  bigint := 0;
BEGIN
    FOR known IN
        SELECT * FROM job j WHERE j.until IS NOT NULL AND j.until <= moment ORDER BY j.until
        LIMIT in_limit FOR UPDATE SKIP LOCKED
    LOOP
        gone := gone + 1;
        IF known.dead = 0 THEN
            DELETE FROM job j WHERE j.queue = known.queue AND j.uid = known.uid;
        ELSE
            UPDATE job j SET holds = false, id_until = NULL, until = NULL
            WHERE j.queue = known.queue AND j.uid = known.uid;
        END IF;
    END LOOP;
    RETURN gone;
END
$$;

-- How far a job is where no group has it any more.
CREATE FUNCTION queue_end_state(known job) RETURNS smallint LANGUAGE sql IMMUTABLE AS $$
    SELECT (CASE WHEN known.dead > 0 THEN 3 WHEN known.ended = 2 THEN 4 ELSE 5 END)::smallint
$$;

-- How far a job is in a group: 0 ready, 1 delayed, 2 running, 3 dead.
CREATE FUNCTION queue_copy_state(known job_copy, moment bigint) RETURNS smallint LANGUAGE sql IMMUTABLE AS $$
    SELECT (CASE known.state WHEN 1 THEN 2 WHEN 2 THEN 3 ELSE (known.due > moment)::int END)::smallint
$$;

-- The same over all groups: one that runs comes first.
CREATE FUNCTION queue_state(known job, moment bigint) RETURNS smallint LANGUAGE plpgsql STABLE AS $$
DECLARE
    states smallint[] := ARRAY(
        SELECT queue_copy_state(c, moment) FROM queue_group g JOIN job_copy c ON c.grp = g.id AND c.uid = known.uid
        WHERE g.queue = known.queue);
BEGIN
    IF 2 = ANY (states) THEN
        RETURN 2;
    END IF;
    RETURN coalesce((SELECT min(s) FROM unnest(states) AS s), queue_end_state(known));
END
$$;

-- The job that is meant, by either name, where it is known.
CREATE FUNCTION queue_job(in_queue bigint, in_uid bytea, in_job_id bytea, moment bigint) RETURNS job LANGUAGE plpgsql STABLE AS $$
DECLARE
    known job;
BEGIN
    IF in_uid IS NOT NULL THEN
        SELECT * INTO known FROM job j WHERE j.queue = in_queue AND j.uid = in_uid;
        RETURN CASE WHEN NOT queue_is_forgotten(known, moment) THEN known END;
    END IF;
    SELECT * INTO known FROM job j WHERE j.queue = in_queue AND j.job_id = in_job_id AND j.holds;
    IF FOUND AND (queue_holds_id(known, moment) OR known.dead > 0) THEN
        RETURN known;
    END IF;
    -- A dead letter is found by its id also when that is free again.
    SELECT j.* INTO known
    FROM job j JOIN queue_group g ON g.queue = in_queue JOIN job_copy c ON c.grp = g.id AND c.uid = j.uid AND c.state = 2
    WHERE j.queue = in_queue AND j.job_id = in_job_id AND NOT j.holds AND j.dead > 0
    ORDER BY g.id, c.died_at, c.seq LIMIT 1;
    RETURN CASE WHEN FOUND THEN known END;
END
$$;
