-- Decisions over limits.

-- The row of a limit, locked, and made where it is missing: then it counts nothing.
CREATE FUNCTION limit_locked(in_namespace bytea, in_scope bytea, in_key bytea) RETURNS limit_slot LANGUAGE plpgsql AS $$
DECLARE
    slot limit_slot;
BEGIN
    LOOP
        SELECT * INTO slot FROM limit_slot r
        WHERE r.namespace = in_namespace AND r.scope = in_scope AND r.key = in_key FOR UPDATE;
        IF FOUND THEN
            RETURN slot;
        END IF;
        INSERT INTO limit_slot (namespace, scope, key, lim, win, start, a, b, ends)
        VALUES (in_namespace, in_scope, in_key, 0, 0, 0, 0, 0, 0) ON CONFLICT DO NOTHING;
    END LOOP;
END
$$;

-- Writes what a locked row counts.
CREATE FUNCTION limit_kept(slot limit_slot, c limit_count, moment bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE limit_slot r
    SET lim = c.lim, win = c.win, start = coalesce(c.start, 0), a = c.a, b = c.b,
        ats = CASE c.algorithm WHEN 1 THEN c.ats END, weights = CASE c.algorithm WHEN 1 THEN c.weights END,
        ends = moment + limit_reset(c, moment)
    WHERE r.namespace = slot.namespace AND r.scope = slot.scope AND r.key = slot.key;
END
$$;

-- Decides over several limits at once, whose names are in the order of the table, so that two decisions lock them in the
-- same one. All that are no shadows count the request, or none does. A shadow counts it when the others let it pass and
-- it would have passed itself. Answers in the order of the arguments. A dry run locks and writes nothing.
CREATE FUNCTION limit_decide(
    in_namespace bytea, in_scopes bytea[], in_keys bytea[], in_algorithms bigint[], in_shadows bigint[], in_limits bigint[],
    in_windows bigint[], in_costs bigint[], in_dry bigint
) RETURNS SETOF limit_answer LANGUAGE plpgsql
SET search_path FROM CURRENT
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off AS $$
DECLARE
    slots  limit_slot[] := '{}';
    counts limit_count[] := '{}';
    waits  bigint[] := '{}';
    slot   limit_slot;
    c      limit_count;
    ms     bigint;
    moment bigint;
    passes boolean := true;
BEGIN
    FOR i IN 1 .. cardinality(in_keys) LOOP
        slot := NULL;
        IF in_dry <> 0 OR in_costs[i] > in_limits[i] THEN
            SELECT * INTO slot FROM limit_slot r
            WHERE r.namespace = in_namespace AND r.scope = in_scopes[i] AND r.key = in_keys[i];
        ELSE
            slot := limit_locked(in_namespace, in_scopes[i], in_keys[i]);
        END IF;
        slots := slots || slot;
    END LOOP;
    moment := now_ms();
    FOR i IN 1 .. cardinality(in_keys) LOOP
        c := limit_seen(slots[i], in_algorithms[i], in_limits[i], in_windows[i], moment);
        ms := CASE WHEN in_costs[i] <= in_limits[i] THEN limit_wait(c, in_costs[i], moment) END;
        passes := passes AND (in_shadows[i] <> 0 OR coalesce(ms = 0, false));
        counts := counts || c;
        waits := waits || ms;
    END LOOP;
    FOR i IN 1 .. cardinality(in_keys) LOOP
        c := counts[i];
        IF passes AND waits[i] = 0 THEN
            c := limit_take(c, in_costs[i], moment);
        END IF;
        IF in_dry = 0 AND waits[i] IS NOT NULL THEN
            IF (passes AND waits[i] = 0) OR c.was_set THEN
                PERFORM limit_kept(slots[i], c, moment);
            ELSIF (slots[i]).lim = 0 THEN
                -- It was made for this decision, which another limit refused.
                DELETE FROM limit_slot d
                WHERE d.namespace = in_namespace AND d.scope = in_scopes[i] AND d.key = in_keys[i];
            END IF;
        END IF;
        RETURN NEXT limit_says(c, waits[i], moment);
    END LOOP;
END
$$;

-- Decides on one limit, which many do at the same time.
CREATE FUNCTION limit_decide_one(
    in_namespace bytea, in_scope bytea, in_key bytea, in_algorithm bigint, in_limit bigint, in_window bigint,
    in_cost bigint, in_dry bigint
) RETURNS limit_answer LANGUAGE plpgsql
SET search_path FROM CURRENT
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off AS $$
DECLARE
    slot   limit_slot;
    c      limit_count;
    ms     bigint;
    moment bigint;
BEGIN
    IF in_dry <> 0 OR in_cost > in_limit THEN
        SELECT * INTO slot FROM limit_slot r
        WHERE r.namespace = in_namespace AND r.scope = in_scope AND r.key = in_key;
    ELSE
        slot := limit_locked(in_namespace, in_scope, in_key);
    END IF;
    moment := now_ms();
    c := limit_seen(slot, in_algorithm, in_limit, in_window, moment);
    IF in_cost <= in_limit THEN
        ms := limit_wait(c, in_cost, moment);
    END IF;
    IF ms = 0 THEN
        c := limit_take(c, in_cost, moment);
    END IF;
    IF in_dry = 0 AND (ms = 0 OR (ms > 0 AND c.was_set)) THEN
        PERFORM limit_kept(slot, c, moment);
    END IF;
    RETURN limit_says(c, ms, moment);
END
$$;

-- Forgets what was counted under a key, in every way.
CREATE FUNCTION limit_forget(in_namespace bytea, in_scopes bytea[], in_key bytea, OUT gone bigint) LANGUAGE plpgsql
SET search_path FROM CURRENT
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off AS $$
BEGIN
    -- In the order of the table, as decisions lock them.
    PERFORM FROM limit_slot r WHERE r.namespace = in_namespace AND r.scope = ANY (in_scopes) AND r.key = in_key
        ORDER BY r.scope FOR UPDATE;
    DELETE FROM limit_slot d WHERE d.namespace = in_namespace AND d.scope = ANY (in_scopes) AND d.key = in_key;
    GET DIAGNOSTICS gone = ROW_COUNT;
END
$$;

-- Forgets states that equal fresh ones.
CREATE FUNCTION limit_prune(in_limit bigint, OUT gone bigint) LANGUAGE plpgsql
SET search_path FROM CURRENT AS $$
DECLARE
    moment bigint := now_ms();
BEGIN
    DELETE FROM limit_slot d
    WHERE d.ctid = ANY (ARRAY(
        SELECT r.ctid FROM limit_slot r WHERE r.ends <= moment LIMIT in_limit FOR UPDATE SKIP LOCKED
    ));
    GET DIAGNOSTICS gone = ROW_COUNT;
END
$$;
