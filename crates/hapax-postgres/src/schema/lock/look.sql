-- Looking at locks, and forgetting them.

-- Who holds it, and its last fence: `held`, `free`, or `none`.
CREATE FUNCTION lock_show(
    in_namespace bytea, in_scope bytea, in_key bytea,
    OUT said text, OUT last bigint, OUT fence bigint, OUT until bigint, OUT holder bytea, OUT since bigint
) LANGUAGE plpgsql
SET search_path FROM CURRENT
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off AS $$
DECLARE
    slot lock_slot;
BEGIN
    SELECT * INTO slot FROM lock_slot r
    WHERE r.namespace = in_namespace AND r.scope = in_scope AND r.key = in_key;
    last := slot.fence;
    IF lock_is_held(slot, now_ms()) THEN
        said := 'held';
        fence := slot.held_fence;
        until := slot.until;
        holder := slot.holder;
        since := slot.since;
    ELSE
        said := 'free';
    END IF;
END
$$;

-- In how many milliseconds the lock is free unless somebody gives it back before: none where it is. Its release is told
-- to whoever listens, for so long.
CREATE FUNCTION lock_look(in_namespace bytea, in_scope bytea, in_key bytea, in_listens bigint, OUT rest bigint)
LANGUAGE plpgsql
SET search_path FROM CURRENT
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off AS $$
DECLARE
    slot   lock_slot;
    moment bigint := now_ms();
BEGIN
    SELECT * INTO slot FROM lock_slot r
    WHERE r.namespace = in_namespace AND r.scope = in_scope AND r.key = in_key;
    IF NOT lock_is_held(slot, moment) THEN
        RETURN;
    END IF;
    -- The first of many who wait writes for all of them.
    IF slot.awaited_until < moment + in_listens / 2 THEN
        UPDATE lock_slot r SET awaited_until = moment + in_listens
        WHERE r.namespace = in_namespace AND r.scope = in_scope AND r.key = in_key
            AND r.token = slot.token AND r.held_fence = slot.held_fence;
        IF NOT FOUND THEN
            -- It has passed to another meanwhile, or is free: whoever waits asks again.
            RETURN;
        END IF;
    END IF;
    rest := slot.until - moment;
END
$$;

-- A page of the locks that are held, in the order of their keys. Keys that start so are those between two.
CREATE FUNCTION lock_list(
    in_namespace bytea, in_prefix bytea, in_after bytea, in_limit bigint
) RETURNS TABLE (scope bytea, key bytea, fence bigint, until bigint, holder bytea, since bigint) LANGUAGE sql
SET search_path FROM CURRENT
SET enable_seqscan = off AS $$
    SELECT r.scope, r.key, r.held_fence, r.until, r.holder, r.since FROM lock_slot r
    WHERE r.namespace = in_namespace AND r.key >= in_prefix AND substring(r.key FOR octet_length(in_prefix)) = in_prefix
        AND (in_after IS NULL OR r.key > in_after) AND r.token IS NOT NULL AND r.until > now_ms()
    ORDER BY r.key LIMIT in_limit
$$;

-- Forgets locks that nobody holds, when the clock is past their fence and their last use for a week: the next fence is
-- larger without them.
CREATE FUNCTION lock_prune(in_limit bigint, OUT gone bigint) LANGUAGE plpgsql
SET search_path FROM CURRENT AS $$
DECLARE
    moment bigint := now_ms();
BEGIN
    DELETE FROM lock_slot d
    WHERE d.ctid = ANY (ARRAY(
        SELECT r.ctid FROM lock_slot r
        WHERE greatest(r.fence / 1000, r.used_at) + 604800000 < moment AND NOT lock_is_held(r, moment)
        LIMIT in_limit FOR UPDATE SKIP LOCKED
    ));
    GET DIAGNOSTICS gone = ROW_COUNT;
END
$$;
