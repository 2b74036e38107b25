-- Whether a write under a fence may be made, as a part of the caller's transaction: `applied` once for each fence and
-- resource; `repeat`, it was made before; `stale`, a newer holder has written. Public, as `complete` is: its signature stays.
CREATE FUNCTION admit(in_namespace bytea, in_resource bytea, in_fence bigint) RETURNS text LANGUAGE plpgsql
SET search_path FROM CURRENT
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off AS $$
DECLARE
    last_ bigint;
BEGIN
    IF in_fence IS NULL OR in_fence NOT BETWEEN 1 AND 9007199254740991 THEN
        RAISE EXCEPTION 'a fence is a number from 1 to 9007199254740991, not %', in_fence
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    INSERT INTO fence_seen AS f (namespace, key, fence, seen_at)
    VALUES (in_namespace, in_resource, in_fence, now_ms())
    ON CONFLICT (namespace, key) DO UPDATE SET fence = excluded.fence, seen_at = excluded.seen_at
        WHERE f.fence < excluded.fence;
    IF FOUND THEN
        RETURN 'applied';
    END IF;
    -- Its row stays locked, so that nothing larger comes before the end of this transaction.
    SELECT f.fence INTO last_ FROM fence_seen f WHERE f.namespace = in_namespace AND f.key = in_resource;
    RETURN CASE WHEN last_ = in_fence THEN 'repeat' ELSE 'stale' END;
END
$$;
