-- Holds the key pending under a token, or answers what holds it. Locks nothing where the key is held; where somebody
-- else has locked the row of a free one, it gives up soon, and the caller asks what is seen of it.
CREATE FUNCTION reserve(
    in_name bytea, in_token bytea, in_fingerprint_version integer,
    in_fingerprint bytea, in_lease bigint
) RETURNS answer LANGUAGE plpgsql
SET search_path FROM CURRENT
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET lock_timeout = '50ms' AS $$
DECLARE
    slot   idempotency;
    locked idempotency;
    moment bigint;
BEGIN
    -- Between two looks the row may come and go.
    FOR attempt IN 1..100 LOOP
        SELECT * INTO slot FROM idempotency r
        WHERE r.name = in_name;
        moment := now_ms();
        IF NOT FOUND THEN
            INSERT INTO idempotency (
                name, format, state, token, fingerprint_version, fingerprint, first_at, until
            ) VALUES (
                in_name, 1, 0, in_token, in_fingerprint_version, in_fingerprint, moment,
                moment + in_lease
            ) ON CONFLICT DO NOTHING;
            IF FOUND THEN
                RETURN said('yours', moment + in_lease, moment);
            END IF;
            CONTINUE;
        END IF;
        IF slot.until <= moment AND is_readable(slot) THEN
            SELECT * INTO locked FROM idempotency r
            WHERE r.name = in_name FOR UPDATE;
            CONTINUE WHEN NOT FOUND;
            moment := now_ms();
            slot := settle(locked, moment);
            IF slot.name IS NULL THEN
                PERFORM hold(
                    locked, in_token, in_fingerprint_version, in_fingerprint, moment + in_lease, moment, NULL::result);
                RETURN said('yours', moment + in_lease, moment);
            END IF;
            PERFORM settled(locked, slot);
        END IF;
        IF is_pending(slot) AND slot.token = in_token THEN
            RETURN said('yours', slot.until, slot.first_at);
        END IF;
        RETURN shown('held', slot);
    END LOOP;
    RAISE EXCEPTION 'the row never held still' USING ERRCODE = 'serialization_failure';
END
$$;

-- What is seen of a key whose row stays locked: somebody is about to change it. Where nothing is seen, it is to be asked
-- for again in a second.
CREATE FUNCTION busy(
    in_name bytea, in_token bytea, in_fingerprint_version integer,
    in_fingerprint bytea, in_lease bigint
) RETURNS answer LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off AS $$
DECLARE
    slot   idempotency;
    moment bigint;
BEGIN
    SELECT * INTO slot FROM idempotency r
    WHERE r.name = in_name;
    moment := now_ms();
    slot := settle(slot, moment);
    IF is_pending(slot) AND slot.token = in_token THEN
        RETURN said('yours', slot.until, slot.first_at);
    END IF;
    IF slot.name IS NOT NULL THEN
        RETURN shown('held', slot);
    END IF;
    -- Nothing that can be seen: as if whoever holds the lock had asked for the same.
    RETURN ('held', 0, decode(repeat('00', 16), 'hex'), in_fingerprint_version, in_fingerprint, moment,
        moment + 1000, NULL, NULL, NULL)::answer;
END
$$;
