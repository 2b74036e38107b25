-- Looks at so many rows after a place, and removes at most so many that are over. Rows that somebody has locked are
-- passed over. Answers how many went, and the last row that was looked at, none at the end of the table.
CREATE FUNCTION prune(in_after bytea, in_rows bigint, in_most bigint, OUT gone bigint, OUT last bytea) LANGUAGE plpgsql
SET search_path FROM CURRENT
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off AS $$
DECLARE
    moment bigint := now_ms();
BEGIN
    SELECT r.name INTO last FROM idempotency r WHERE r.name > in_after ORDER BY r.name OFFSET in_rows - 1 LIMIT 1;
    WITH over_ AS MATERIALIZED (
        SELECT o.name FROM idempotency o
        WHERE o.name > in_after AND (last IS NULL OR o.name <= last)
            AND o.until <= moment AND is_readable(o) AND (o.state <> 0 OR NOT has_late(o, moment))
        ORDER BY o.name LIMIT in_most FOR UPDATE SKIP LOCKED
    )
    DELETE FROM idempotency r USING over_ WHERE r.name = over_.name;
    GET DIAGNOSTICS gone = ROW_COUNT;
END
$$;
