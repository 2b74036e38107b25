-- Looks at so many rows after a place, and removes at most so many that are over. Rows that somebody has locked are
-- passed over. Answers how many went, and the last row that was looked at, none at the end of the table.
CREATE FUNCTION prune(
    in_namespace bytea, in_scope bytea, in_key bytea, in_rows bigint, in_most bigint,
    OUT gone bigint, OUT namespace bytea, OUT scope bytea, OUT key bytea
) LANGUAGE plpgsql
SET search_path FROM CURRENT
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off AS $$
#variable_conflict use_column
DECLARE
    last_  idempotency;
    moment bigint := now_ms();
BEGIN
    SELECT r.* INTO last_ FROM idempotency r
    WHERE (r.namespace, r.scope, r.key) > (in_namespace, in_scope, in_key)
    ORDER BY r.namespace, r.scope, r.key OFFSET in_rows - 1 LIMIT 1;
    WITH over_ AS MATERIALIZED (
        SELECT o.namespace, o.scope, o.key FROM idempotency o
        WHERE (o.namespace, o.scope, o.key) > (in_namespace, in_scope, in_key)
            AND (last_.key IS NULL OR (o.namespace, o.scope, o.key) <= (last_.namespace, last_.scope, last_.key))
            AND o.until <= moment AND is_readable(o) AND (o.state <> 0 OR NOT has_late(o, moment))
        ORDER BY o.namespace, o.scope, o.key LIMIT in_most FOR UPDATE SKIP LOCKED
    )
    DELETE FROM idempotency r USING over_
    WHERE r.namespace = over_.namespace AND r.scope = over_.scope AND r.key = over_.key;
    GET DIAGNOSTICS gone = ROW_COUNT;
    prune.namespace := last_.namespace;
    prune.scope := last_.scope;
    prune.key := last_.key;
END
$$;
