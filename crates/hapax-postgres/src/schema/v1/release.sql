-- Frees the key of a token, or lets the late result take its place. Public, as complete is.
CREATE FUNCTION release(in_namespace bytea, in_scope bytea, in_key bytea, in_token bytea) RETURNS answer
LANGUAGE plpgsql
SET search_path FROM CURRENT
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off AS $$
DECLARE
    slot idempotency;
BEGIN
    SELECT * INTO slot FROM idempotency r
    WHERE r.namespace = in_namespace AND r.scope = in_scope AND r.key = in_key FOR UPDATE;
    IF is_pending(slot) AND slot.token = in_token THEN
        PERFORM finish(slot, now_ms());
        RETURN said('applied');
    END IF;
    RETURN said('fenced');
END
$$;

-- Ends a live reservation whoever holds it.
CREATE FUNCTION force_release(in_namespace bytea, in_scope bytea, in_key bytea) RETURNS answer LANGUAGE plpgsql
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
    WHERE r.namespace = in_namespace AND r.scope = in_scope AND r.key = in_key FOR UPDATE;
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
