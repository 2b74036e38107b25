-- What is under a key.
CREATE FUNCTION read(in_name bytea) RETURNS answer LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off AS $$
DECLARE
    slot idempotency;
BEGIN
    SELECT * INTO slot FROM idempotency r
    WHERE r.name = in_name;
    RETURN shown('record', settle(slot, now_ms()));
END
$$;

-- Records whose names lie between two, at most so many. In one state, with a key that begins so: each where it is given.
CREATE FUNCTION list(in_from bytea, in_end bytea, in_prefix bytea, in_state smallint, in_limit bigint) RETURNS TABLE (
    name bytea, state smallint, token bytea, fingerprint_version integer, fingerprint bytea,
    first_at bigint, until bigint, completed_at bigint, codec bytea, receipt bytea
) LANGUAGE plpgsql STABLE ROWS 100
SET search_path FROM CURRENT
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off AS $$
DECLARE
    slot   idempotency;
    seen   answer;
    room   bigint := in_limit;
    moment bigint := now_ms();
BEGIN
    FOR slot IN SELECT * FROM idempotency r WHERE r.name >= in_from AND r.name < in_end ORDER BY r.name LOOP
        EXIT WHEN room <= 0;
        CONTINUE WHEN in_prefix <> '' AND substring(key_of(slot.name) FOR octet_length(in_prefix)) <> in_prefix;
        seen := shown('record', settle(slot, moment));
        CONTINUE WHEN seen.state IS NULL OR seen.state <> in_state;
        room := room - 1;
        name := slot.name;
        state := seen.state;
        token := seen.token;
        fingerprint_version := seen.fingerprint_version;
        fingerprint := seen.fingerprint;
        first_at := seen.first_at;
        until := seen.until;
        completed_at := seen.completed_at;
        codec := seen.codec;
        receipt := seen.receipt;
        RETURN NEXT;
    END LOOP;
END
$$;
