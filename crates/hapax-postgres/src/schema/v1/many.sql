-- The steps of a run, for many keys in one statement. Each key occurs once, and keys come in the order of the table, so
-- that two statements lock them in the same one. What is usual is done for all keys at once; any other key goes to the
-- function of one key, which knows all the rules.
--
-- The plan is pinned like everywhere: from the statistics of an empty table a join would read all of it.

-- Records of other owners, without a write where all keys are held; reservations of all keys that nobody holds.
CREATE FUNCTION reserve_many(
    in_namespaces bytea[], in_scopes bytea[], in_keys bytea[], in_tokens bytea[], in_fingerprint_versions integer[],
    in_fingerprints bytea[], in_leases bigint[]
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
        SELECT x.nth,
            CASE WHEN r.state = 0 AND r.token = x.token AND is_readable(r) THEN 'yours' ELSE 'held' END,
            CASE WHEN is_readable(r) THEN r.state ELSE -1::smallint END, r.token, r.fingerprint_version, r.fingerprint,
            r.first_at, r.until, r.completed_at, r.codec, r.receipt
        FROM unnest(in_namespaces, in_scopes, in_keys, in_tokens) WITH ORDINALITY AS x(namespace, scope, key, token, nth)
        JOIN idempotency r ON r.namespace = x.namespace AND r.scope = x.scope AND r.key = x.key
        WHERE r.until > moment OR NOT is_readable(r);
    GET DIAGNOSTICS held = ROW_COUNT;
    IF held = cardinality(in_keys) THEN
        RETURN;
    END IF;
    -- Once more, since rows may have come and gone: of two answers the later counts.
    FOR seen IN
        SELECT x.nth,
            CASE WHEN r.key IS NULL OR (r.until <= moment AND is_readable(r)) THEN NULL
                WHEN r.state = 0 AND r.token = x.token AND is_readable(r) THEN 'yours'
                ELSE 'held' END,
            CASE WHEN is_readable(r) THEN r.state ELSE -1::smallint END, r.token, r.fingerprint_version, r.fingerprint,
            r.first_at, r.until, r.completed_at, r.codec, r.receipt
        FROM unnest(in_namespaces, in_scopes, in_keys, in_tokens) WITH ORDINALITY AS x(namespace, scope, key, token, nth)
        LEFT JOIN idempotency r ON r.namespace = x.namespace AND r.scope = x.scope AND r.key = x.key
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
    INSERT INTO idempotency (
        namespace, scope, key, format, state, token, fingerprint_version, fingerprint, first_at, until
    )
    SELECT x.namespace, x.scope, x.key, 1, 0, x.token, x.version, x.fingerprint, moment, moment + x.lease
    FROM unnest(in_namespaces, in_scopes, in_keys, in_tokens, in_fingerprint_versions, in_fingerprints, in_leases)
        WITH ORDINALITY AS x(namespace, scope, key, token, version, fingerprint, lease, nth)
    WHERE x.nth = ANY (rest)
    ON CONFLICT DO NOTHING;
    GET DIAGNOSTICS made = ROW_COUNT;
    IF made = cardinality(rest) THEN
        RETURN QUERY SELECT x.nth, 'yours', NULL::smallint, NULL::bytea, NULL::integer, NULL::bytea, moment,
            moment + x.lease, NULL::bigint, NULL::bytea, NULL::bytea
        FROM unnest(in_leases) WITH ORDINALITY AS x(lease, nth) WHERE x.nth = ANY (rest);
        RETURN;
    END IF;
    -- It finds those that were made by their token.
    RETURN QUERY SELECT x.nth, a.*
    FROM unnest(in_namespaces, in_scopes, in_keys, in_tokens, in_fingerprint_versions, in_fingerprints, in_leases)
        WITH ORDINALITY AS x(namespace, scope, key, token, version, fingerprint, lease, nth)
    CROSS JOIN LATERAL reserve(x.namespace, x.scope, x.key, x.token, x.version, x.fingerprint, x.lease) AS a
    WHERE x.nth = ANY (rest);
END
$$;

-- The same without a look: for keys that are free, as all those before them were. Where one is not, all of it is undone
-- and done over.
CREATE FUNCTION reserve_new(
    in_namespaces bytea[], in_scopes bytea[], in_keys bytea[], in_tokens bytea[], in_fingerprint_versions integer[],
    in_fingerprints bytea[], in_leases bigint[]
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
    INSERT INTO idempotency (
        namespace, scope, key, format, state, token, fingerprint_version, fingerprint, first_at, until
    )
    SELECT in_namespaces[x.nth], in_scopes[x.nth], x.key, 1, 0, in_tokens[x.nth], in_fingerprint_versions[x.nth],
        in_fingerprints[x.nth], moment, moment + in_leases[x.nth]
    FROM unnest(in_keys) WITH ORDINALITY AS x(key, nth);
    IF in_leases[1] = ALL (in_leases) THEN
        RETURN NEXT (0, 'yours', NULL, NULL, NULL, NULL, moment, moment + in_leases[1], NULL, NULL, NULL)::numbered;
        RETURN;
    END IF;
    RETURN QUERY SELECT x.nth, 'yours', NULL::smallint, NULL::bytea, NULL::integer, NULL::bytea, moment,
        moment + x.lease, NULL::bigint, NULL::bytea, NULL::bytea
    FROM unnest(in_leases) WITH ORDINALITY AS x(lease, nth);
EXCEPTION WHEN unique_violation THEN
    RETURN QUERY SELECT * FROM reserve_many(
        in_namespaces, in_scopes, in_keys, in_tokens, in_fingerprint_versions, in_fingerprints, in_leases);
END
$$;

-- Results of reservations that still hold their keys, and nothing lies beside them; and any other.
CREATE FUNCTION complete_many(
    in_namespaces bytea[], in_scopes bytea[], in_keys bytea[], in_tokens bytea[], in_fingerprint_versions integer[],
    in_fingerprints bytea[], in_kinds smallint[], in_codecs bytea[], in_receipts bytea[], in_ttls bigint[]
) RETURNS SETOF numbered LANGUAGE plpgsql
SET search_path FROM CURRENT
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET lock_timeout = '50ms' AS $$
DECLARE
    kept   bigint[];
    moment bigint := now_ms();
BEGIN
    WITH kept_ AS (
        UPDATE idempotency r
        SET state = in_kinds[x.nth], fingerprint_version = in_fingerprint_versions[x.nth],
            fingerprint = in_fingerprints[x.nth], until = moment + in_ttls[x.nth], completed_at = moment,
            codec = in_codecs[x.nth], receipt = in_receipts[x.nth]
        FROM unnest(in_keys) WITH ORDINALITY AS x(key, nth)
        WHERE r.namespace = in_namespaces[x.nth] AND r.scope = in_scopes[x.nth] AND r.key = x.key AND r.state = 0
            AND r.token = in_tokens[x.nth] AND (r.late).token IS NULL AND is_readable(r)
        RETURNING x.nth
    )
    SELECT coalesce(array_agg(k.nth), '{}') INTO kept FROM kept_ k;
    IF cardinality(kept) = cardinality(in_keys) THEN
        RETURN NEXT (0, 'stored', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)::numbered;
        RETURN;
    END IF;
    RETURN QUERY SELECT k.nth, 'stored', NULL::smallint, NULL::bytea, NULL::integer, NULL::bytea, NULL::bigint,
        NULL::bigint, NULL::bigint, NULL::bytea, NULL::bytea
    FROM unnest(kept) AS k(nth);
    RETURN QUERY SELECT x.nth, a.*
    FROM unnest(in_namespaces, in_scopes, in_keys, in_tokens, in_fingerprint_versions, in_fingerprints, in_kinds,
        in_codecs, in_receipts, in_ttls)
        WITH ORDINALITY AS x(namespace, scope, key, token, version, fingerprint, kind, codec, receipt, ttl, nth)
    CROSS JOIN LATERAL complete(
        x.namespace, x.scope, x.key, x.token, x.version, x.fingerprint, x.kind, x.codec, x.receipt, x.ttl) AS a
    WHERE x.nth <> ALL (kept);
END
$$;
