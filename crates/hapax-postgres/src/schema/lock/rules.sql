-- What several steps on locks need. Each is called by a step, under the settings of that step.

CREATE FUNCTION now_us() RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint
$$;

-- Above all fences before, also where the last is forgotten; every language can hold it.
CREATE FUNCTION lock_next_fence(last bigint) RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT least(greatest(coalesce(last, 0) + 1, now_us()), 9007199254740991)
$$;

CREATE FUNCTION lock_is_held(slot lock_slot, moment bigint) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT slot.token IS NOT NULL AND slot.until > moment
$$;

CREATE FUNCTION lock_said(word text) RETURNS lock_answer LANGUAGE sql IMMUTABLE AS $$
    SELECT (word, NULL, NULL, NULL, NULL, NULL)::lock_answer
$$;

-- Who holds it.
CREATE FUNCTION lock_shown(word text, slot lock_slot) RETURNS lock_answer LANGUAGE sql IMMUTABLE AS $$
    SELECT (word, slot.held_fence, slot.until, NULL, slot.holder, slot.since)::lock_answer
$$;

-- Nobody holds a locked row any more; `in_released` gave it back. Wakes whoever waits and listens: a hint, sent only
-- where somebody does, since all commits that send one take turns.
CREATE FUNCTION lock_freed(slot lock_slot, in_released bytea, moment bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE lock_slot r
    SET token = NULL, held_fence = NULL, holder = NULL, since = NULL, until = NULL, released = in_released,
        used_at = moment, awaited_until = 0
    WHERE r.namespace = slot.namespace AND r.scope = slot.scope AND r.key = slot.key;
    IF slot.awaited_until > moment THEN
        PERFORM pg_notify('hapax', current_schema() || ' lock');
    END IF;
END
$$;
