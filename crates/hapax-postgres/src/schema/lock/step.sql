-- The steps of a holder, by the rules of `hapax_core::lock::machine`.

-- Takes the lock for a token, unless another holds it: `yours`, or `busy` with the rest of the lease.
CREATE FUNCTION lock_acquire(
    in_namespace bytea, in_scope bytea, in_key bytea, in_token bytea, in_lease bigint, in_holder bytea
) RETURNS lock_answer LANGUAGE plpgsql
SET search_path FROM CURRENT
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off AS $$
DECLARE
    slot   lock_slot;
    moment bigint;
    fence_ bigint;
BEGIN
    LOOP
        SELECT * INTO slot FROM lock_slot r
        WHERE r.namespace = in_namespace AND r.scope = in_scope AND r.key = in_key FOR UPDATE;
        moment := now_ms();
        IF FOUND THEN
            EXIT;
        END IF;
        fence_ := lock_next_fence(NULL);
        INSERT INTO lock_slot (namespace, scope, key, fence, token, held_fence, holder, since, until, used_at)
        VALUES (in_namespace, in_scope, in_key, fence_, in_token, fence_, in_holder, moment, moment + in_lease, moment)
        ON CONFLICT DO NOTHING;
        IF FOUND THEN
            RETURN ('yours', fence_, moment + in_lease, NULL, NULL, NULL)::lock_answer;
        END IF;
        -- Another one made it meanwhile: its row is seen now, or gone again.
    END LOOP;
    IF lock_is_held(slot, moment) THEN
        IF slot.token = in_token THEN
            RETURN ('yours', slot.held_fence, slot.until, NULL, NULL, NULL)::lock_answer;
        END IF;
        RETURN ('busy', NULL, NULL, slot.until - moment, NULL, NULL)::lock_answer;
    END IF;
    fence_ := lock_next_fence(slot.fence);
    UPDATE lock_slot r
    SET fence = fence_, token = in_token, held_fence = fence_, holder = in_holder, since = moment,
        until = moment + in_lease, released = nullif(r.released, in_token), used_at = moment
    WHERE r.namespace = in_namespace AND r.scope = in_scope AND r.key = in_key;
    RETURN ('yours', fence_, moment + in_lease, NULL, NULL, NULL)::lock_answer;
END
$$;

-- Makes a live lease longer; never shortens it.
CREATE FUNCTION lock_extend(in_namespace bytea, in_scope bytea, in_key bytea, in_token bytea, in_lease bigint)
RETURNS lock_answer LANGUAGE plpgsql
SET search_path FROM CURRENT
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off AS $$
DECLARE
    slot   lock_slot;
    moment bigint;
    ends   bigint;
BEGIN
    SELECT * INTO slot FROM lock_slot r
    WHERE r.namespace = in_namespace AND r.scope = in_scope AND r.key = in_key FOR UPDATE;
    moment := now_ms();
    IF NOT lock_is_held(slot, moment) OR slot.token <> in_token THEN
        RETURN lock_said('fenced');
    END IF;
    ends := greatest(slot.until, moment + in_lease);
    UPDATE lock_slot r SET until = ends
    WHERE r.namespace = in_namespace AND r.scope = in_scope AND r.key = in_key;
    RETURN ('until', NULL, ends, NULL, NULL, NULL)::lock_answer;
END
$$;

-- Gives the lock of a token back. One that was carried out before says so again.
CREATE FUNCTION lock_release(in_namespace bytea, in_scope bytea, in_key bytea, in_token bytea) RETURNS lock_answer
LANGUAGE plpgsql
SET search_path FROM CURRENT
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off AS $$
DECLARE
    slot   lock_slot;
    moment bigint;
BEGIN
    SELECT * INTO slot FROM lock_slot r
    WHERE r.namespace = in_namespace AND r.scope = in_scope AND r.key = in_key FOR UPDATE;
    moment := now_ms();
    IF lock_is_held(slot, moment) AND slot.token = in_token THEN
        PERFORM lock_freed(slot, in_token, moment);
        RETURN lock_said('applied');
    END IF;
    RETURN lock_said(CASE WHEN slot.released = in_token THEN 'applied' ELSE 'fenced' END);
END
$$;

-- Takes the lock from whoever holds it.
CREATE FUNCTION lock_break(in_namespace bytea, in_scope bytea, in_key bytea) RETURNS lock_answer LANGUAGE plpgsql
SET search_path FROM CURRENT
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off AS $$
DECLARE
    slot   lock_slot;
    moment bigint;
BEGIN
    SELECT * INTO slot FROM lock_slot r
    WHERE r.namespace = in_namespace AND r.scope = in_scope AND r.key = in_key FOR UPDATE;
    moment := now_ms();
    IF NOT lock_is_held(slot, moment) THEN
        RETURN lock_said('free');
    END IF;
    PERFORM lock_freed(slot, slot.released, moment);
    RETURN lock_shown('held', slot);
END
$$;

-- Makes the next fence larger; answers the last one as it is now.
CREATE FUNCTION lock_seed(in_namespace bytea, in_scope bytea, in_key bytea, in_least bigint) RETURNS lock_answer
LANGUAGE plpgsql
SET search_path FROM CURRENT
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off AS $$
DECLARE
    fence_ bigint;
BEGIN
    INSERT INTO lock_slot AS r (namespace, scope, key, fence, used_at)
    VALUES (in_namespace, in_scope, in_key, in_least, now_ms())
    ON CONFLICT (namespace, scope, key)
        DO UPDATE SET fence = greatest(r.fence, excluded.fence), used_at = excluded.used_at
    RETURNING r.fence INTO fence_;
    RETURN ('seeded', fence_, NULL, NULL, NULL, NULL)::lock_answer;
END
$$;
