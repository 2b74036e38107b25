-- Holds a key of unknown outcome pending while somebody is asked; the unknown record stays beside it.
CREATE FUNCTION retake_unknown(
    in_name bytea, in_token bytea, in_fingerprint_version integer,
    in_fingerprint bytea, in_lease bigint
) RETURNS answer LANGUAGE plpgsql
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
    IF is_pending(slot) AND slot.token = in_token THEN
        RETURN said('yours', slot.until, slot.first_at);
    END IF;
    IF slot.name IS NULL OR NOT is_readable(slot) OR slot.state <> 2 THEN
        PERFORM settled(locked, slot);
        RETURN shown('changed', slot);
    END IF;
    PERFORM hold(
        locked, in_token, in_fingerprint_version, in_fingerprint, moment + in_lease, slot.first_at,
        (slot.token, slot.fingerprint_version, slot.fingerprint, slot.state, slot.codec, slot.receipt, slot.first_at,
            slot.completed_at, slot.until)::result);
    RETURN said('yours', moment + in_lease, slot.first_at);
END
$$;

-- Forgets the unknown result beside a live reservation. Refused where it has become a success.
CREATE FUNCTION drop_unknown(in_name bytea, in_token bytea) RETURNS answer
LANGUAGE plpgsql
SET search_path FROM CURRENT
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off AS $$
DECLARE
    slot   idempotency;
    moment bigint;
BEGIN
    SELECT * INTO slot FROM idempotency r
    WHERE r.name = in_name FOR UPDATE;
    moment := now_ms();
    IF NOT is_pending(slot) OR slot.token <> in_token OR slot.until <= moment THEN
        RETURN said('fenced');
    END IF;
    IF has_late(slot, moment) AND (slot.late).kind = 1 THEN
        RETURN said('refused');
    END IF;
    UPDATE idempotency r SET late = NULL
    WHERE r.name = in_name;
    RETURN said('dropped');
END
$$;

-- Settles an unknown outcome by a verdict. The version is the first eight bytes of the token's digest; none: any
-- unknown record. Without a receipt it did not happen; with in_forget not 0, the record of that version goes, whatever it is.
CREATE FUNCTION resolve(
    in_name bytea, in_token bytea, in_version bytea, in_codec bytea,
    in_receipt bytea, in_ttl bigint, in_forget smallint
) RETURNS answer LANGUAGE plpgsql
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
    IF in_forget <> 0 THEN
        -- What cannot be read has the version of a token of zeros.
        IF slot.name IS NULL OR is_pending(slot) OR in_version IS DISTINCT FROM substring(sha256(
            CASE WHEN is_readable(slot) THEN slot.token ELSE decode(repeat('00', 16), 'hex') END) FROM 1 FOR 8)
        THEN
            PERFORM settled(locked, slot);
            RETURN shown('changed', slot);
        END IF;
        PERFORM forget(locked);
        RETURN said('applied');
    END IF;
    IF slot.name IS NULL OR slot.state = 0 OR NOT is_readable(slot) THEN
        PERFORM settled(locked, slot);
        RETURN shown('changed', slot);
    END IF;
    -- A verdict whose reply was lost.
    IF slot.token = in_token THEN
        PERFORM settled(locked, slot);
        RETURN said('applied');
    END IF;
    IF slot.state <> 2 OR (in_version IS NOT NULL AND in_version <> substring(sha256(slot.token) FROM 1 FOR 8)) THEN
        PERFORM settled(locked, slot);
        RETURN shown('changed', slot);
    END IF;
    IF in_receipt IS NULL THEN
        PERFORM forget(locked);
    ELSE
        PERFORM keep(locked, (in_token, slot.fingerprint_version, slot.fingerprint, 1, in_codec, in_receipt,
            slot.first_at, moment, moment + in_ttl)::result);
    END IF;
    RETURN said('applied');
END
$$;
