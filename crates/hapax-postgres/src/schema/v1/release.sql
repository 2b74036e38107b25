-- Frees the key of a token, or lets the late result take its place.
CREATE FUNCTION release_named(in_name bytea, in_token bytea) RETURNS answer
LANGUAGE plpgsql
SET search_path FROM CURRENT
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off AS $$
DECLARE
    slot idempotency;
BEGIN
    SELECT * INTO slot FROM idempotency r
    WHERE r.name = in_name FOR UPDATE;
    IF is_pending(slot) AND slot.token = in_token THEN
        PERFORM finish(slot, now_ms());
        RETURN said('applied');
    END IF;
    RETURN said('fenced');
END
$$;

-- The same. Public, as complete is.
CREATE FUNCTION release(in_namespace bytea, in_scope bytea, in_key bytea, in_token bytea) RETURNS answer LANGUAGE plpgsql
SET search_path FROM CURRENT AS $$
BEGIN
    RETURN release_named(joined(in_namespace, in_scope, in_key), in_token);
END
$$;

-- Ends a live reservation whoever holds it.
CREATE FUNCTION force_release(in_name bytea) RETURNS answer LANGUAGE plpgsql
SET search_path FROM CURRENT
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off AS $$
DECLARE
    slot   idempotency;
    locked idempotency;
    moment bigint;
BEGIN
    SELECT * INTO locked FROM idempotency r
    WHERE r.name = in_name FOR UPDATE;
    moment := now_ms();
    slot := settle(locked, moment);
    IF is_pending(slot) THEN
        PERFORM finish(slot, moment);
        RETURN said('applied');
    END IF;
    PERFORM settled(locked, slot);
    RETURN said('fenced');
END
$$;
