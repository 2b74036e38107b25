-- Moves the end of a live lease.
CREATE FUNCTION extend(in_name bytea, in_token bytea, in_lease bigint) RETURNS answer
LANGUAGE plpgsql
SET search_path FROM CURRENT
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off AS $$
DECLARE
    slot   idempotency;
    moment bigint;
    ends   bigint;
BEGIN
    SELECT * INTO slot FROM idempotency r
    WHERE r.name = in_name FOR UPDATE;
    moment := now_ms();
    IF NOT is_pending(slot) OR slot.token <> in_token OR slot.until <= moment THEN
        RETURN said('fenced');
    END IF;
    ends := greatest(slot.until, moment + in_lease);
    UPDATE idempotency r SET until = ends
    WHERE r.name = in_name;
    RETURN said('until', ends);
END
$$;
