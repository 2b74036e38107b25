-- The steps of a run, for many keys in one statement. Each key occurs once, and keys come in the order of the table, so
-- that two statements lock them in the same one. What is usual is done for all keys at once; any other key goes to the
-- function of one key, which knows all the rules.
--
-- The plan is pinned like everywhere: from the statistics of an empty table a join would read all of it.
--
-- What the server has to read and to prepare for each statement costs half as much as the rows, so columns come in the form
-- that costs least. Numbers are an array, of one element where all keys have the same. Bytes are one value in which all
-- follow each other, and an array of the places at which they end, from 0 on; without it, all keys have the value itself.
-- A token has sixteen bytes. The numbers of the keys, from 1, come along: the planner takes an array for ten rows, and
-- generate_series for a thousand.

-- The bytes of one key in a column. In SQL, so that it becomes a part of the statements.
CREATE FUNCTION item(list bytea, ends integer[], nth integer) RETURNS bytea LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN ends IS NULL THEN list ELSE substring(list FROM ends[nth] + 1 FOR ends[nth + 1] - ends[nth]) END
$$;

-- Records of other owners, without a write where all keys are held; reservations of all keys that nobody holds.
CREATE FUNCTION reserve_many(
    in_numbers integer[], in_prefix bytea, in_names bytea, in_name_ends integer[], in_tokens bytea,
    in_fingerprint_versions integer[], in_fingerprints bytea, in_fingerprint_ends integer[], in_leases bigint[]
) RETURNS SETOF numbered LANGUAGE plpgsql
SET search_path FROM CURRENT
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET lock_timeout = '50ms' AS $$
DECLARE
    seen   numbered;
    rest   bigint[] := '{}';
    held   bigint;
    made   bigint;
    moment bigint := now_ms();
BEGIN
    -- Most often all of them are held, or none.
    RETURN QUERY
        SELECT x.nth::bigint,
            CASE WHEN r.state = 0 AND r.token = substring(in_tokens FROM 16 * x.nth - 15 FOR 16) AND is_readable(r) THEN 'yours'
                ELSE 'held' END,
            CASE WHEN is_readable(r) THEN r.state ELSE -1::smallint END, r.token, r.fingerprint_version, r.fingerprint,
            r.first_at, r.until, r.completed_at, r.codec, r.receipt
        FROM unnest(in_numbers) AS x(nth)
        JOIN idempotency r ON r.name = in_prefix || item(in_names, in_name_ends, x.nth)
        WHERE r.until > moment OR NOT is_readable(r);
    GET DIAGNOSTICS held = ROW_COUNT;
    IF held = cardinality(in_numbers) THEN
        RETURN;
    END IF;
    -- Once more, since rows may have come and gone: of two answers the later counts.
    FOR seen IN
        SELECT x.nth,
            CASE WHEN r.name IS NULL OR (r.until <= moment AND is_readable(r)) THEN NULL
                WHEN r.state = 0 AND r.token = substring(in_tokens FROM 16 * x.nth - 15 FOR 16) AND is_readable(r) THEN 'yours'
                ELSE 'held' END,
            CASE WHEN is_readable(r) THEN r.state ELSE -1::smallint END, r.token, r.fingerprint_version, r.fingerprint,
            r.first_at, r.until, r.completed_at, r.codec, r.receipt
        FROM unnest(in_numbers) AS x(nth)
        LEFT JOIN idempotency r ON r.name = in_prefix || item(in_names, in_name_ends, x.nth)
    LOOP
        IF seen.said IS NULL THEN
            rest := rest || seen.nth;
        ELSE
            RETURN NEXT seen;
        END IF;
    END LOOP;
    IF cardinality(rest) = 0 THEN
        RETURN;
    END IF;
    INSERT INTO idempotency (name, format, state, token, fingerprint_version, fingerprint, first_at, until)
    SELECT in_prefix || item(in_names, in_name_ends, x.nth), 1, 0, substring(in_tokens FROM 16 * x.nth - 15 FOR 16),
        coalesce(in_fingerprint_versions[x.nth], in_fingerprint_versions[1]),
        nullif(item(in_fingerprints, in_fingerprint_ends, x.nth), ''), moment,
        moment + coalesce(in_leases[x.nth], in_leases[1])
    FROM unnest(in_numbers) AS x(nth)
    WHERE x.nth = ANY (rest)
    ON CONFLICT DO NOTHING;
    GET DIAGNOSTICS made = ROW_COUNT;
    IF made = cardinality(rest) THEN
        RETURN QUERY SELECT x.nth::bigint, 'yours', NULL::smallint, NULL::bytea, NULL::integer, NULL::bytea, moment,
            moment + coalesce(in_leases[x.nth], in_leases[1]), NULL::bigint, NULL::bytea, NULL::bytea
        FROM unnest(in_numbers) AS x(nth) WHERE x.nth = ANY (rest);
        RETURN;
    END IF;
    -- It finds those that were made by their token.
    RETURN QUERY SELECT x.nth::bigint, a.*
    FROM unnest(in_numbers) AS x(nth)
    CROSS JOIN LATERAL reserve(
        in_prefix || item(in_names, in_name_ends, x.nth), substring(in_tokens FROM 16 * x.nth - 15 FOR 16),
        coalesce(in_fingerprint_versions[x.nth], in_fingerprint_versions[1]),
        nullif(item(in_fingerprints, in_fingerprint_ends, x.nth), ''),
        coalesce(in_leases[x.nth], in_leases[1])) AS a
    WHERE x.nth = ANY (rest);
END
$$;

-- The same without a look: for keys that are free, as all those before them were. Where one is not, all of it is undone
-- and done over.
CREATE FUNCTION reserve_new(
    in_numbers integer[], in_prefix bytea, in_names bytea, in_name_ends integer[], in_tokens bytea,
    in_fingerprint_versions integer[], in_fingerprints bytea, in_fingerprint_ends integer[], in_leases bigint[]
) RETURNS SETOF numbered LANGUAGE plpgsql
SET search_path FROM CURRENT
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET lock_timeout = '50ms' AS $$
DECLARE
    moment bigint := now_ms();
BEGIN
    INSERT INTO idempotency (name, format, state, token, fingerprint_version, fingerprint, first_at, until)
    SELECT in_prefix || item(in_names, in_name_ends, x.nth), 1, 0, substring(in_tokens FROM 16 * x.nth - 15 FOR 16),
        coalesce(in_fingerprint_versions[x.nth], in_fingerprint_versions[1]),
        nullif(item(in_fingerprints, in_fingerprint_ends, x.nth), ''), moment,
        moment + coalesce(in_leases[x.nth], in_leases[1])
    FROM unnest(in_numbers) AS x(nth);
    IF cardinality(in_leases) = 1 THEN
        RETURN NEXT (0, 'yours', NULL, NULL, NULL, NULL, moment, moment + in_leases[1], NULL, NULL, NULL)::numbered;
        RETURN;
    END IF;
    RETURN QUERY SELECT x.nth, 'yours', NULL::smallint, NULL::bytea, NULL::integer, NULL::bytea, moment,
        moment + x.lease, NULL::bigint, NULL::bytea, NULL::bytea
    FROM unnest(in_leases) WITH ORDINALITY AS x(lease, nth);
EXCEPTION WHEN unique_violation THEN
    RETURN QUERY SELECT * FROM reserve_many(in_numbers, in_prefix, in_names, in_name_ends, in_tokens,
        in_fingerprint_versions, in_fingerprints, in_fingerprint_ends, in_leases);
END
$$;

-- Results of reservations that still hold their keys, and nothing lies beside them; and any other.
CREATE FUNCTION complete_many(
    in_numbers integer[], in_prefix bytea, in_names bytea, in_name_ends integer[], in_tokens bytea,
    in_fingerprint_versions integer[], in_fingerprints bytea, in_fingerprint_ends integer[], in_kinds smallint[],
    in_codecs bytea, in_codec_ends integer[], in_receipts bytea, in_receipt_ends integer[], in_ttls bigint[]
) RETURNS SETOF numbered LANGUAGE plpgsql
SET search_path FROM CURRENT
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET lock_timeout = '50ms' AS $$
DECLARE
    kept   integer[];
    moment bigint := now_ms();
BEGIN
    WITH kept_ AS (
        UPDATE idempotency r
        SET state = coalesce(in_kinds[x.nth], in_kinds[1]),
            fingerprint_version = coalesce(in_fingerprint_versions[x.nth], in_fingerprint_versions[1]),
            fingerprint = nullif(item(in_fingerprints, in_fingerprint_ends, x.nth), ''),
            until = moment + coalesce(in_ttls[x.nth], in_ttls[1]), completed_at = moment,
            codec = item(in_codecs, in_codec_ends, x.nth), receipt = item(in_receipts, in_receipt_ends, x.nth)
        FROM unnest(in_numbers) AS x(nth)
        WHERE r.name = in_prefix || item(in_names, in_name_ends, x.nth) AND r.state = 0
            AND r.token = substring(in_tokens FROM 16 * x.nth - 15 FOR 16) AND (r.late).token IS NULL AND is_readable(r)
        RETURNING x.nth
    )
    SELECT coalesce(array_agg(k.nth), '{}') INTO kept FROM kept_ k;
    IF cardinality(kept) = cardinality(in_numbers) THEN
        RETURN NEXT (0, 'stored', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)::numbered;
        RETURN;
    END IF;
    RETURN QUERY SELECT k.nth::bigint, 'stored', NULL::smallint, NULL::bytea, NULL::integer, NULL::bytea, NULL::bigint,
        NULL::bigint, NULL::bigint, NULL::bytea, NULL::bytea
    FROM unnest(kept) AS k(nth);
    RETURN QUERY SELECT x.nth::bigint, a.*
    FROM unnest(in_numbers) AS x(nth)
    CROSS JOIN LATERAL complete_named(
        in_prefix || item(in_names, in_name_ends, x.nth), substring(in_tokens FROM 16 * x.nth - 15 FOR 16),
        coalesce(in_fingerprint_versions[x.nth], in_fingerprint_versions[1]),
        nullif(item(in_fingerprints, in_fingerprint_ends, x.nth), ''),
        coalesce(in_kinds[x.nth], in_kinds[1]), item(in_codecs, in_codec_ends, x.nth), item(in_receipts, in_receipt_ends, x.nth),
        coalesce(in_ttls[x.nth], in_ttls[1])) AS a
    WHERE x.nth <> ALL (kept);
END
$$;
