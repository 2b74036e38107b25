-- What is under a key.
CREATE FUNCTION read(in_namespace bytea, in_scope bytea, in_key bytea) RETURNS answer LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off AS $$
DECLARE
    slot idempotency;
BEGIN
    SELECT * INTO slot FROM idempotency r
    WHERE r.namespace = in_namespace AND r.scope = in_scope AND r.key = in_key;
    RETURN shown('record', settle(slot, now_ms()));
END
$$;

-- Records of a namespace from a place on, at most so many. Of one scope, in one state, with keys below an end: each
-- where it is given.
CREATE FUNCTION list(
    in_namespace bytea, in_from_scope bytea, in_from_key bytea, in_scope bytea, in_prefix bytea, in_end bytea,
    in_state smallint, in_limit bigint
) RETURNS TABLE (
    scope bytea, key bytea, state smallint, token bytea, fingerprint_version integer, fingerprint bytea,
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
    FOR slot IN
        SELECT * FROM idempotency r
        WHERE r.namespace = in_namespace AND (r.scope, r.key) >= (in_from_scope, in_from_key)
        ORDER BY r.namespace, r.scope, r.key
    LOOP
        -- In one scope, keys with the prefix lie together, and the first came first.
        EXIT WHEN room <= 0 OR slot.scope <> in_scope OR (in_scope IS NOT NULL AND slot.key >= in_end);
        CONTINUE WHEN slot.key < in_prefix OR slot.key >= in_end;
        seen := shown('record', settle(slot, moment));
        CONTINUE WHEN seen.state IS NULL OR seen.state <> in_state;
        room := room - 1;
        scope := slot.scope;
        key := slot.key;
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
