-- The secret of the store: the first that is given stays.
CREATE FUNCTION secret(in_fresh bytea) RETURNS text LANGUAGE plpgsql
SET search_path FROM CURRENT
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off AS $$
DECLARE
    kept text;
BEGIN
    SELECT m.value INTO kept FROM meta m WHERE m.name = 'secret';
    IF NOT FOUND THEN
        INSERT INTO meta (name, value) VALUES ('secret', encode(in_fresh, 'hex')) ON CONFLICT DO NOTHING;
        SELECT m.value INTO kept FROM meta m WHERE m.name = 'secret';
    END IF;
    RETURN kept;
END
$$;
