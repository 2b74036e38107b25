-- What a row counts at a moment, by the rules of `hapax_core::limit::machine`, in whole numbers. Each function is called
-- by a decision, under its settings.

CREATE FUNCTION limit_ceil(x numeric, y bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT div(x + y - 1, y)::bigint
$$;

-- What the two counts of a sliding counter weigh together. A part is a whole one.
CREATE FUNCTION limit_estimate(start bigint, win bigint, a bigint, b bigint, moment bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE a WHEN 0 THEN b ELSE limit_ceil(a::numeric * (win - greatest(moment - start, 0)), win) + b END
$$;

-- A window is over under the quota that it was counted under, and under the one of now.
CREATE FUNCTION limit_seen_fixed(slot limit_slot, c limit_count, moment bigint) RETURNS limit_count LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF moment < slot.start + least(slot.win, c.win) THEN
        c.was_set := slot.start > moment + c.win;
        c.start := CASE WHEN c.was_set THEN moment ELSE slot.start END;
        c.a := slot.a;
    END IF;
    RETURN c;
END
$$;

-- The entries of one window; those of a clock that was set back by more than one are none.
CREATE FUNCTION limit_seen_log(slot limit_slot, c limit_count, moment bigint) RETURNS limit_count LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    n integer := cardinality(slot.ats);
BEGIN
    c.ats := '{}';
    c.weights := '{}';
    IF coalesce(n, 0) = 0 OR slot.ats[n] + slot.win <= moment THEN
        RETURN c;
    END IF;
    IF slot.ats[1] + c.win > moment AND slot.ats[n] <= moment + c.win THEN
        c.ats := slot.ats;
        c.weights := slot.weights;
        c.a := slot.a;
        RETURN c;
    END IF;
    SELECT coalesce(array_agg(x.at ORDER BY x.at), '{}'), coalesce(array_agg(x.weight ORDER BY x.at), '{}'),
        coalesce(sum(x.weight), 0)::bigint
    INTO c.ats, c.weights, c.a
    FROM unnest(slot.ats, slot.weights) AS x(at, weight) WHERE x.at + c.win > moment AND x.at <= moment + c.win;
    RETURN c;
END
$$;

-- Brought into the window of the moment; where the window's length changed, the estimate goes along.
CREATE FUNCTION limit_seen_counter(slot limit_slot, c limit_count, moment bigint) RETURNS limit_count LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    rolls bigint := greatest(moment - slot.start, 0) / slot.win;
BEGIN
    IF rolls > 1 THEN
        RETURN c;
    END IF;
    IF rolls = 1 THEN
        c.start := slot.start + slot.win;
        c.a := slot.b;
    ELSE
        c.start := slot.start;
        c.a := slot.a;
        c.b := slot.b;
    END IF;
    IF slot.win <> c.win THEN
        c.b := limit_estimate(c.start, slot.win, c.a, c.b, moment);
        c.a := 0;
        c.start := moment;
    END IF;
    IF c.start > moment + c.win THEN
        c.was_set := true;
        c.start := moment;
    END IF;
    RETURN c;
END
$$;

-- With what has come in since. A token is as many credits as the window has milliseconds: there are no fractions.
CREATE FUNCTION limit_seen_bucket(slot limit_slot, c limit_count, moment bigint) RETURNS limit_count LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    credits bigint := least(
        slot.a + least(greatest(moment - slot.start, 0), slot.win) * slot.lim, slot.lim * slot.win);
BEGIN
    IF credits >= slot.lim * slot.win THEN
        RETURN c;
    END IF;
    c.a := CASE WHEN slot.win = c.win THEN least(credits, c.lim * c.win)
        ELSE least(credits / slot.win, c.lim) * c.win END;
    c.start := greatest(slot.start, moment);
    IF c.start > moment + c.win THEN
        c.was_set := true;
        c.start := moment;
    END IF;
    RETURN c;
END
$$;

CREATE FUNCTION limit_seen(slot limit_slot, in_algorithm bigint, in_lim bigint, in_win bigint, moment bigint) RETURNS limit_count
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    -- A fresh one.
    c limit_count := (in_algorithm, in_lim, in_win, CASE WHEN in_algorithm > 1 THEN moment END,
        CASE in_algorithm WHEN 3 THEN in_lim * in_win ELSE 0 END, 0, '{}', '{}', false)::limit_count;
BEGIN
    IF coalesce(slot.lim, 0) = 0 THEN
        RETURN c;
    END IF;
    RETURN CASE in_algorithm
        WHEN 0 THEN limit_seen_fixed(slot, c, moment)
        WHEN 1 THEN limit_seen_log(slot, c, moment)
        WHEN 2 THEN limit_seen_counter(slot, c, moment)
        ELSE limit_seen_bucket(slot, c, moment) END;
END
$$;

-- How long until it equals a fresh one.
CREATE FUNCTION limit_reset(c limit_count, moment bigint) RETURNS bigint LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN CASE c.algorithm
        WHEN 0 THEN coalesce(c.start + c.win - moment, 0)
        WHEN 1 THEN coalesce(c.ats[cardinality(c.ats)] + c.win - moment, 0)
        WHEN 2 THEN CASE WHEN c.a = 0 AND c.b = 0 THEN 0
            ELSE c.start + CASE c.b WHEN 0 THEN 1 ELSE 2 END * c.win - moment END
        ELSE limit_until(c, c.lim * c.win, moment) END;
END
$$;

-- How long until a bucket has so many credits. Nothing comes in before the clock is where it was.
CREATE FUNCTION limit_until(c limit_count, credits bigint, moment bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN credits <= c.a THEN 0 ELSE c.start - moment + (credits - c.a + c.lim - 1) / c.lim END
$$;

-- How long until a window in which `weight` is the count before has so little of it left that it fits into `room`.
CREATE FUNCTION limit_until_fits(c limit_count, weight bigint, room bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT c.win - coalesce(least(room * c.win / nullif(weight, 0), c.win), c.win)
$$;

-- How long until `cost`, which is at most the limit, fits.
CREATE FUNCTION limit_wait(c limit_count, cost bigint, moment bigint) RETURNS bigint LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    over bigint;
    at_  bigint;
BEGIN
    CASE c.algorithm
    WHEN 0 THEN
        RETURN CASE WHEN c.a + cost <= c.lim THEN 0 ELSE limit_reset(c, moment) END;
    WHEN 1 THEN
        over := c.a + cost - c.lim;
        IF over <= 0 THEN
            RETURN 0;
        END IF;
        FOR i IN 1 .. cardinality(c.ats) LOOP
            over := over - c.weights[i];
            IF over <= 0 THEN
                RETURN c.ats[i] + c.win - moment;
            END IF;
        END LOOP;
        RETURN 0;
    WHEN 2 THEN
        IF limit_estimate(c.start, c.win, c.a, c.b, moment) + cost <= c.lim THEN
            RETURN 0;
        END IF;
        over := c.lim - c.b - cost;
        at_ := CASE WHEN over >= 0 THEN limit_until_fits(c, c.a, over)
            ELSE c.win + limit_until_fits(c, c.b, c.lim - cost) END;
        RETURN greatest(c.start + at_ - moment, 0);
    ELSE
        RETURN limit_until(c, cost * c.win, moment);
    END CASE;
END
$$;

-- How much fits.
CREATE FUNCTION limit_room(c limit_count, moment bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE c.algorithm
        WHEN 2 THEN greatest(c.lim - limit_estimate(c.start, c.win, c.a, c.b, moment), 0)
        WHEN 3 THEN c.a / c.win
        ELSE greatest(c.lim - c.a, 0) END
$$;

-- With a request that fits.
CREATE FUNCTION limit_take(c limit_count, cost bigint, moment bigint) RETURNS limit_count LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    n integer := cardinality(c.ats);
BEGIN
    CASE c.algorithm
    WHEN 0 THEN
        c.start := coalesce(c.start, moment);
        c.a := c.a + cost;
    WHEN 1 THEN
        c.a := c.a + cost;
        -- A clock that went back a little leaves later entries behind: it goes among them.
        WHILE n > 0 AND c.ats[n] > moment LOOP
            n := n - 1;
        END LOOP;
        IF n > 0 AND c.ats[n] = moment THEN
            c.weights[n] := c.weights[n] + cost;
        ELSE
            c.ats := c.ats[:n] || moment || c.ats[n + 1:];
            c.weights := c.weights[:n] || cost || c.weights[n + 1:];
        END IF;
    WHEN 2 THEN
        c.b := c.b + cost;
    ELSE
        c.a := c.a - cost * c.win;
    END CASE;
    RETURN c;
END
$$;

-- What it says once the verdict is given, and carried out where it was: `waits` is none where the cost is above the limit.
CREATE FUNCTION limit_says(c limit_count, waits bigint, moment bigint) RETURNS limit_answer LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    room bigint := limit_room(c, moment);
BEGIN
    RETURN (coalesce(waits = 0, false), waits IS NULL, room, coalesce(waits, 0), limit_reset(c, moment),
        CASE WHEN room < c.lim THEN limit_wait(c, room + 1, moment) ELSE 0 END)::limit_answer;
END
$$;
