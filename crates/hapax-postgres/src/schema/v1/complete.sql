-- Keeps a result, wherever it can be kept without touching another owner's.
CREATE FUNCTION complete_named(
    in_name bytea, in_token bytea, in_fingerprint_version integer,
    in_fingerprint bytea, in_kind smallint, in_codec bytea, in_receipt bytea, in_ttl bigint
) RETURNS answer LANGUAGE plpgsql
SET search_path FROM CURRENT
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off AS $$
DECLARE
    slot   idempotency;
    locked idempotency;
    made   result;
    late   result;
    moment bigint;
    first  bigint;
BEGIN
    FOR attempt IN 1..100 LOOP
        SELECT * INTO locked FROM idempotency r
        WHERE r.name = in_name FOR UPDATE;
        moment := now_ms();
        first := moment;
        IF is_pending(locked) AND locked.token = in_token THEN
            first := locked.first_at;
        END IF;
        slot := settle(locked, moment);
        made := (in_token, in_fingerprint_version, in_fingerprint, in_kind, in_codec, in_receipt, first, moment,
            moment + in_ttl)::result;
        IF locked.name IS NULL THEN
            INSERT INTO idempotency (
                name, format, state, token, fingerprint_version, fingerprint, first_at, until,
                completed_at, codec, receipt
            ) VALUES (
                in_name, 1, in_kind, in_token, in_fingerprint_version, in_fingerprint, first,
                moment + in_ttl, moment, in_codec, in_receipt
            ) ON CONFLICT DO NOTHING;
            IF FOUND THEN
                RETURN said('stored');
            END IF;
            CONTINUE;
        END IF;
        IF slot.name IS NULL THEN
            PERFORM keep(locked, made);
            RETURN said('stored');
        END IF;
        IF NOT is_readable(slot) THEN
            RETURN shown('superseded', slot);
        END IF;
        IF slot.state = 0 AND slot.token = in_token THEN
            late := slot.late;
            -- An owner's unknown does not hide a success that lies beside it.
            IF in_kind = 2 AND late.kind = 1 AND has_late(slot, moment) THEN
                PERFORM keep(locked, late);
            ELSE
                PERFORM keep(locked, made);
            END IF;
            RETURN said('stored');
        END IF;
        IF slot.state = 0 THEN
            late := slot.late;
            IF NOT has_late(slot, moment) OR (late.kind = 2 AND in_kind = 1) THEN
                UPDATE idempotency r SET late = made
                WHERE r.name = in_name;
            END IF;
            RETURN said('stored_late');
        END IF;
        IF slot.state = 2 AND in_kind = 1 AND slot.token <> in_token THEN
            made.first_at := slot.first_at;
            PERFORM keep(locked, made);
        ELSE
            PERFORM settled(locked, slot);
        END IF;
        IF slot.token = in_token THEN
            RETURN said('already_done');
        END IF;
        RETURN shown('superseded', slot);
    END LOOP;
    RAISE EXCEPTION 'the row never held still' USING ERRCODE = 'serialization_failure';
END
$$;

-- The same. Public: any driver may call it within a transaction of its own. Its signature stays; another one would get
-- another name.
CREATE FUNCTION complete(
    in_namespace bytea, in_scope bytea, in_key bytea, in_token bytea, in_fingerprint_version integer,
    in_fingerprint bytea, in_kind smallint, in_codec bytea, in_receipt bytea, in_ttl bigint
) RETURNS answer LANGUAGE plpgsql
SET search_path FROM CURRENT AS $$
BEGIN
    RETURN complete_named(joined(in_namespace, in_scope, in_key), in_token, in_fingerprint_version, in_fingerprint,
        in_kind, in_codec, in_receipt, in_ttl);
END
$$;
