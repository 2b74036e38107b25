-- What several steps need. Each is called by a step, under the settings of that step.

CREATE FUNCTION now_ms() RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint
$$;

-- The name of a row: namespace and scope, each with a zero byte behind it, and the key. A zero byte within one of the two
-- has a byte 255 behind it, which no text begins with. So no two names meet, and they are in the order of their parts.
CREATE FUNCTION joined(in_namespace bytea, in_scope bytea, in_key bytea) RETURNS bytea LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    name bytea := '';
    part bytea;
BEGIN
    FOREACH part IN ARRAY ARRAY[in_namespace, in_scope] LOOP
        IF position(decode('00', 'hex') IN part) > 0 THEN
            SELECT string_agg(
                CASE get_byte(part, x.at) WHEN 0 THEN decode('00ff', 'hex') ELSE substring(part FROM x.at + 1 FOR 1) END,
                '' ORDER BY x.at)
            INTO part FROM generate_series(0, octet_length(part) - 1) AS x(at);
        END IF;
        name := name || part || decode('00', 'hex');
    END LOOP;
    RETURN name || in_key;
END
$$;

-- The key in a name.
CREATE FUNCTION key_of(in_name bytea) RETURNS bytea LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    rest  bytea := in_name;
    parts integer := 2;
    ends  integer;
BEGIN
    WHILE parts > 0 LOOP
        ends := position(decode('00', 'hex') IN rest);
        -- Of a name that hapax did not write.
        EXIT WHEN ends = 0;
        rest := substring(rest FROM ends + 1);
        IF rest = '' OR get_byte(rest, 0) <> 255 THEN
            parts := parts - 1;
        END IF;
    END LOOP;
    RETURN rest;
END
$$;

-- Whether this version knows the form of the row. Any other is held as it is. In SQL, so that it becomes a part of the
-- statements that ask it of many rows.
CREATE FUNCTION is_readable(slot idempotency) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT slot.format = 1 AND slot.state BETWEEN 0 AND 2 AND octet_length(slot.token) = 16
        AND slot.fingerprint_version BETWEEN 0 AND 65535
        AND (slot.fingerprint_version = 0 OR coalesce(octet_length(slot.fingerprint), 0) = 32)
        AND (slot.state = 0 OR (slot.completed_at IS NOT NULL AND slot.codec IS NOT NULL AND slot.receipt IS NOT NULL))
        AND ((slot.late).token IS NULL OR coalesce((slot.late).kind, 0) BETWEEN 1 AND 2)
$$;

CREATE FUNCTION is_pending(slot idempotency) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN slot.name IS NOT NULL AND slot.state = 0 AND is_readable(slot);
END
$$;

CREATE FUNCTION has_late(slot idempotency, moment bigint) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN (slot.late).token IS NOT NULL AND (slot.late).until > moment;
END
$$;

-- The slot brought up to a moment: what is over is gone, and a reservation that is over gives its place to a late
-- result.
CREATE FUNCTION settle(slot idempotency, moment bigint) RETURNS idempotency LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    late result;
BEGIN
    IF slot.name IS NULL OR slot.until > moment OR NOT is_readable(slot) THEN
        RETURN slot;
    END IF;
    IF slot.state <> 0 OR NOT has_late(slot, moment) THEN
        RETURN NULL;
    END IF;
    late := slot.late;
    slot.state := late.kind;
    slot.token := late.token;
    slot.fingerprint_version := late.fingerprint_version;
    slot.fingerprint := late.fingerprint;
    slot.first_at := late.first_at;
    slot.until := late.until;
    slot.completed_at := late.completed_at;
    slot.codec := late.codec;
    slot.receipt := late.receipt;
    slot.late := NULL;
    RETURN slot;
END
$$;

CREATE FUNCTION shown(said text, slot idempotency) RETURNS answer LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF slot.name IS NULL THEN
        RETURN (said, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)::answer;
    END IF;
    IF NOT is_readable(slot) THEN
        RETURN (said, -1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)::answer;
    END IF;
    RETURN (said, slot.state, slot.token, slot.fingerprint_version, slot.fingerprint, slot.first_at, slot.until,
        slot.completed_at, slot.codec, slot.receipt)::answer;
END
$$;

CREATE FUNCTION said(word text, until bigint DEFAULT NULL, first_at bigint DEFAULT NULL) RETURNS answer
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN (word, NULL, NULL, NULL, NULL, first_at, until, NULL, NULL, NULL)::answer;
END
$$;

-- Makes a result the record of a row that is locked.
CREATE FUNCTION keep(slot idempotency, kept result) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE idempotency r
    SET format = 1, state = kept.kind, token = kept.token, fingerprint_version = kept.fingerprint_version,
        fingerprint = kept.fingerprint, first_at = kept.first_at, until = kept.until,
        completed_at = kept.completed_at, codec = kept.codec, receipt = kept.receipt, late = NULL
    WHERE r.name = slot.name;
END
$$;

-- Makes a locked row pending for a token.
CREATE FUNCTION hold(
    slot idempotency, in_token bytea, in_fingerprint_version integer, in_fingerprint bytea, ends bigint,
    first bigint, beside result
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE idempotency r
    SET format = 1, state = 0, token = in_token, fingerprint_version = in_fingerprint_version,
        fingerprint = in_fingerprint, first_at = first, until = ends, completed_at = NULL, codec = NULL,
        receipt = NULL, late = beside
    WHERE r.name = slot.name;
END
$$;

CREATE FUNCTION forget(slot idempotency) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM idempotency r
    WHERE r.name = slot.name;
END
$$;

-- Ends a reservation whose row is locked: a result beside it takes its place.
CREATE FUNCTION finish(slot idempotency, moment bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF has_late(slot, moment) THEN
        PERFORM keep(slot, slot.late);
    ELSE
        PERFORM forget(slot);
    END IF;
END
$$;

-- Writes back what settling a locked row changed, where the step itself changes nothing: whoever owned the reservation
-- that is over is fenced from then on.
CREATE FUNCTION settled(locked idempotency, slot idempotency) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF locked.name IS NULL THEN
        RETURN;
    END IF;
    IF slot.name IS NULL THEN
        PERFORM forget(locked);
    ELSIF slot.state <> locked.state THEN
        PERFORM keep(locked, locked.late);
    END IF;
END
$$;
