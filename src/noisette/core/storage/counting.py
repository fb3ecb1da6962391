"""What runs inside a PostgreSQL server: the one function through which a ledger is charged.

Whoever charges has SELECT on the two tables and EXECUTE on `FUNCTION`, which runs with the rights
of the tables' owner, and nothing else. It is given a record without its place, and computes by
itself number, digest and running totals. Whatever it is given:

- **Sums only grow, exactly.** A cost is two numbers with a point or an exponent and without a sign,
  so neither negative, nor NaN, nor infinite. The sums are lists of floats, to which a cost is added
  by Knuth's two-sum, without any rounding, as `records.Totals` adds up fractions.
- **Sums end at the limit** that the header names for its rule, the one that `Filter.accepts` uses
  plus half a unit in the last place, because that rounds the sum to a float first.
- **What may be drawn again never grows.** Whoever goes on with a run must show a secret whose
  digest its last record holds, and cannot go below the counts at which it took over ("floor");
  whoever takes over repeats the counts that are there.
- **A record can be read.** It has the keys of its kind, each once, of the types that `nodes`
  expects, in ASCII; it protects the unit of the charge before. So nobody can make a ledger
  unreadable.

Names are looked up in ``pg_catalog`` only, and the tables by their full names, so objects that a
caller has put into a schema of its own are never used.
"""

from typing import Any

FUNCTION = "noisette_add_3"
_ARGUMENTS = "text, text, text, text, text"
_DAY = "date_trunc('day', clock_timestamp(), 'UTC')"

ADD = f"SELECT place, added FROM {FUNCTION}(%s::text, %s::text, %s::text, %s::text, %s::text)"
STATE = f"""
WITH tables AS (SELECT oid, relowner, relnamespace FROM pg_class
    WHERE oid = to_regclass('noisette_records'))
SELECT current_setting('fsync'), EXISTS (SELECT FROM tables), (
    SELECT prosecdef AND proowner = relowner FROM pg_proc, tables
    WHERE pg_proc.oid = to_regprocedure('{FUNCTION}({_ARGUMENTS})')
), current_setting('transaction_read_only') = 'off' AND coalesce(
    (SELECT pg_has_role(relowner, 'USAGE') FROM tables), true)
"""
"""fsync; whether there are tables; whether the function is their owner's; if we may make it."""

_TABLES = f"""
CREATE TABLE IF NOT EXISTS noisette_ledgers (
    name text PRIMARY KEY, line text NOT NULL,
    started timestamptz NOT NULL DEFAULT {_DAY},
    started_by text NOT NULL DEFAULT session_user
);
CREATE TABLE IF NOT EXISTS noisette_records (
    ledger text NOT NULL REFERENCES noisette_ledgers, number bigint NOT NULL,
    charge bigint NOT NULL, token text NOT NULL UNIQUE, line text NOT NULL,
    booked timestamptz NOT NULL DEFAULT {_DAY},
    booked_by text NOT NULL DEFAULT session_user,
    PRIMARY KEY (ledger, number)
);
CREATE INDEX IF NOT EXISTS noisette_records_of_charge ON noisette_records (ledger, charge, number);
ALTER TABLE noisette_ledgers ALTER started SET DEFAULT {_DAY};
ALTER TABLE noisette_records ALTER booked SET DEFAULT {_DAY};
UPDATE noisette_ledgers SET started = date_trunc('day', started, 'UTC');
UPDATE noisette_records SET booked = date_trunc('day', booked, 'UTC')
"""

_SUM = """
CREATE OR REPLACE FUNCTION @.noisette_sum_3(pieces float8[], more float8) RETURNS float8[]
LANGUAGE plpgsql IMMUTABLE STRICT SET search_path = pg_catalog, pg_temp AS $body$
DECLARE piece float8; high float8; rest float8; low float8; kept float8[] := '{}';
BEGIN
    FOR piece IN SELECT p FROM unnest(pieces) p ORDER BY abs(p) LOOP
        high := more + piece;
        rest := high - more;
        low := (more - (high - rest)) + (piece - rest);
        IF low <> 0 THEN kept := kept || low; END IF;
        more := high;
    END LOOP;
    IF more <> 0 THEN kept := kept || more; END IF;
    RETURN kept;
END $body$
"""

_ADD = """
CREATE OR REPLACE FUNCTION @.noisette_add_3(
    book text, seen text, token text, node text, secret text
) RETURNS TABLE (place bigint, added text)
LANGUAGE plpgsql STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET extra_float_digits = 3 AS $body$
#variable_conflict use_variable
DECLARE
    head text; final text; held text; before text; more text := ''; cost text;
    header json; last json; past jsonb; given json; entry jsonb;
    kind text; whose bigint; charges bigint; sum1 float8[]; sum2 float8[]; bound float8;
    excess float8[];
    words CONSTANT text[] := '{label,plan,table,unit,model,why,cohort,collected}';
BEGIN
    SELECT l.line INTO head FROM @.noisette_ledgers l WHERE l.name = book;
    IF head IS NULL THEN RAISE 'there is no such ledger'; END IF;
    PERFORM pg_advisory_xact_lock(('x' || left(encode(sha256(convert_to(left(head, 64), 'UTF8')),
        'hex'), 16))::bit(64)::bigint);
    SELECT r.number, r.line INTO place, final FROM @.noisette_records r
        WHERE r.ledger = book ORDER BY r.number DESC LIMIT 1;
    place := coalesce(place, 0) + 1;
    before := left(coalesce(final, head), 64);
    IF before IS DISTINCT FROM seen THEN RAISE unique_violation; END IF;
    header := substr(head, 66)::json;
    last := substr(final, 66)::json;
    charges := coalesce((last #>> '{totals,0}')::bigint, 0);
    sum1 := ARRAY(SELECT v::float8 FROM json_array_elements_text(last #> '{totals,1}') v);
    sum2 := ARRAY(SELECT v::float8 FROM json_array_elements_text(last #> '{totals,2}') v);

    IF length(node) > 2000000 OR node !~ '^[{][ -~]*[}]$' OR token !~ '^[0-9a-f]{32}$' THEN
        RAISE 'it is too long or no record';
    END IF;
    given := node::json;
    entry := node::jsonb;
    kind := coalesce(given ->> 'kind', '');
    IF (SELECT count(*) FROM json_object_keys(given)) <>
        (SELECT count(*) FROM jsonb_object_keys(entry)) THEN
        RAISE 'it says something twice';
    END IF;
    IF NOT ARRAY(SELECT jsonb_object_keys(entry)) <@ (CASE kind
        WHEN 'charge' THEN words || '{kind,cost,seeded,run,holder,counts,bounds}'::text[]
        WHEN 'draws' THEN '{kind,charge,holder,counts,bounds}'::text[]
        WHEN 'collected' THEN '{kind,of,digest,label}'::text[]
        WHEN 'table' THEN '{kind,table,columns}'::text[]
        WHEN 'people' THEN '{kind,ledger,title,same}'::text[]
        ELSE '{}' END) THEN
        RAISE 'it says what no record says';
    END IF;
    IF EXISTS (SELECT FROM jsonb_each(entry) e WHERE jsonb_typeof(e.value) <> CASE
        WHEN e.key IN ('seeded', 'same') THEN 'boolean'
        WHEN e.key IN ('of', 'charge') THEN 'number'
        WHEN e.key IN ('cost', 'run', 'counts', 'bounds', 'columns') THEN 'array'
        ELSE 'string' END) THEN
        RAISE 'it has a value of another type';
    END IF;

    IF kind = 'charge' THEN
        IF NOT entry ?& '{label,plan,cost,seeded}'::text[]
            OR (entry ->> 'unit') NOT IN ('record', 'person') OR entry ->> 'collected' <> ''
            OR (entry ->> 'seeded')::boolean AND header ->> 'experiment' = 'false' THEN
            RAISE 'it is no charge of this ledger';
        END IF;
        SELECT r.line INTO held FROM @.noisette_records r
            WHERE r.ledger = book AND r.charge = charges ORDER BY r.number LIMIT 1;
        IF charges > 0 AND coalesce(entry ->> 'unit', 'record')
            <> coalesce(substr(held, 66)::json ->> 'unit', 'record') THEN
            RAISE 'it protects another unit';
        END IF;
        FOR cost IN SELECT e::text FROM (VALUES (given -> 'cost'), (given -> 'run')) pairs (pair),
            json_array_elements(pair) e LOOP
            IF cost !~ '^[0-9]+([.][0-9]+)?([eE][-+]?[0-9]+)?$' OR cost !~ '[.eE]'
                OR length(cost) > 40 OR cost::float8 = 'Infinity' THEN
                RAISE 'it has a cost that no charge has';
            END IF;
        END LOOP;
        IF json_array_length(given -> 'cost') <> 2 OR json_array_length(given -> 'run') <> 2
            OR (entry ? 'run') <> (entry ?& '{holder,counts,bounds}'::text[])
            OR NOT entry ? 'run' AND entry ?| '{holder,counts,bounds}'::text[] THEN
            RAISE 'it is half a charge';
        END IF;
        charges := charges + 1;
        whose := charges;
        sum1 := @.noisette_sum_3(sum1, (given #>> '{cost,0}')::float8);
        sum2 := @.noisette_sum_3(sum2, (given #>> '{cost,1}')::float8);
        FOR k IN 0..1 LOOP
            bound := coalesce((header #>> ARRAY['limit', k::text])::float8, CASE
                WHEN header ->> 'rule' = 'sums' THEN (1 + 2::float8 ^ (-49))
                * (header ->> CASE k WHEN 0 THEN 'epsilon' ELSE 'delta' END)::float8
                ELSE 'Infinity' END);
            IF bound < 'Infinity' THEN
                excess := @.noisette_sum_3(CASE k WHEN 0 THEN sum1 ELSE sum2 END, -bound);
                IF excess[array_upper(excess, 1)] > 0 THEN
                    RAISE 'it goes over the total';
                END IF;
            END IF;
        END LOOP;
    END IF;

    IF entry ? 'counts' OR kind = 'draws' THEN
        IF NOT entry ?& '{holder,counts,bounds}'::text[]
            OR entry ->> 'holder' <> encode(sha256(convert_to(secret, 'UTF8')), 'hex')
            OR length(secret) < 32
            OR EXISTS (SELECT FROM jsonb_array_elements(entry -> 'bounds') b
                WHERE jsonb_typeof(b) <> 'string')
            OR EXISTS (SELECT FROM json_array_elements(given -> 'counts') c
                WHERE c::text !~ '^[0-9]{1,18}$') THEN
            RAISE 'it is no record of draws';
        END IF;
        more := ', "floor": ' || (entry -> 'counts')::text;
    END IF;
    IF kind = 'draws' THEN
        IF coalesce(given ->> 'charge', '') !~ '^[0-9]{1,18}$' THEN
            RAISE 'it has no charge';
        END IF;
        whose := (entry ->> 'charge')::bigint;
        SELECT substr(r.line, 66)::jsonb INTO past FROM @.noisette_records r
            WHERE r.ledger = book AND r.charge = whose AND whose > 0 ORDER BY r.number DESC LIMIT 1;
        IF past IS NULL OR NOT past ? 'counts' THEN RAISE 'there is no such run'; END IF;
        IF past ->> 'holder' = entry ->> 'holder' THEN
            past := jsonb_build_object('floor', past -> 'counts') || past;
            more := ', "floor": ' || (past -> 'floor')::text;
            IF NOT entry -> 'bounds' @> (past -> 'bounds')
                OR jsonb_array_length(entry -> 'counts') <> jsonb_array_length(past -> 'floor')
                OR EXISTS (SELECT FROM generate_series(0, jsonb_array_length(past -> 'floor') - 1) i
                    WHERE (entry -> 'counts' ->> i)::bigint < (past -> 'floor' ->> i)::bigint) THEN
                RAISE 'it forgets what may have been drawn';
            END IF;
        ELSIF entry -> 'counts' <> past -> 'counts' OR entry -> 'bounds' <> past -> 'bounds' THEN
            RAISE 'it forgets what may have been drawn';
        END IF;
    ELSIF kind = 'collected' THEN
        IF coalesce(given ->> 'of', '') !~ '^[0-9]{1,18}$' OR NOT entry ? 'label'
            OR coalesce(entry ->> 'digest', '') !~ '^[0-9a-f]{64}$' THEN
            RAISE 'it is no record of a result';
        END IF;
        whose := -(entry ->> 'of')::bigint;
        IF whose >= 0 OR -whose > charges THEN RAISE 'there is no such charge'; END IF;
        IF EXISTS (SELECT FROM @.noisette_records r WHERE r.ledger = book AND r.charge = whose) THEN
            RAISE 'its charge paid for another result';
        END IF;
    ELSIF kind IN ('table', 'people') THEN
        whose := 0;
        IF kind = 'people' AND (NOT entry ?& '{title,same}'::text[]
            OR coalesce(entry ->> 'ledger', '') !~ '^[0-9a-f]{64}$')
            OR kind = 'table' AND (NOT entry ?& '{table,columns}'::text[] OR EXISTS (
                SELECT FROM jsonb_array_elements(entry -> 'columns') c WHERE
                CASE jsonb_typeof(c) WHEN 'array' THEN jsonb_array_length(c) <> 2
                OR jsonb_typeof(c -> 0) <> 'string' OR jsonb_typeof(c -> 1) <> 'string'
                ELSE true END)) THEN
            RAISE 'it is no record of a table';
        END IF;
    ELSIF kind <> 'charge' THEN
        RAISE 'it is of no kind';
    END IF;

    added := left(node, -1) || more || ', "before": "' || before || '", "totals": ['
        || charges || ', ' || to_json(sum1) || ', ' || to_json(sum2) || ']}';
    added := encode(sha256(convert_to(added, 'UTF8')), 'hex') || ' ' || added || chr(10);
    INSERT INTO @.noisette_records (ledger, number, charge, token, line)
        VALUES (book, place, whose, token, added);
    RETURN NEXT;
END $body$
"""

# Who could insert records in an earlier version can charge in this one.
_RIGHTS = f"""
DO $body$
DECLARE who text; name text; owner text;
BEGIN
    SELECT relowner::regrole::text INTO owner FROM pg_class
        WHERE oid = '@.noisette_records'::regclass;
    FOREACH name IN ARRAY ARRAY['@.noisette_sum_3(float8[], float8)', '@.{FUNCTION}({_ARGUMENTS})']
    LOOP
        EXECUTE 'ALTER FUNCTION ' || name || ' OWNER TO ' || owner;
        EXECUTE 'REVOKE ALL ON FUNCTION ' || name || ' FROM PUBLIC';
    END LOOP;
    FOR who IN SELECT DISTINCT CASE grantee WHEN 0 THEN 'PUBLIC' ELSE grantee::regrole::text END
        FROM pg_class, aclexplode(relacl) WHERE relowner <> grantee AND privilege_type = 'INSERT'
        AND oid IN ('@.noisette_records'::regclass, '@.noisette_ledgers'::regclass)
    LOOP
        EXECUTE 'REVOKE ALL ON @.noisette_records, @.noisette_ledgers FROM ' || who;
        EXECUTE 'GRANT SELECT ON @.noisette_records, @.noisette_ledgers TO ' || who;
        EXECUTE 'GRANT EXECUTE ON FUNCTION @.{FUNCTION}({_ARGUMENTS}) TO ' || who;
    END LOOP;
END $body$
"""


def prepare(server: Any) -> None:
    """Make the tables, or those of an earlier version new, and the function; once."""
    server.execute("SELECT pg_advisory_xact_lock(hashtext('noisette tables'))")
    if server.execute(STATE).fetchone()[2]:
        return  # somebody else was faster
    for table in _TABLES.split(";"):
        server.execute(table)
    (schema,) = server.execute(
        "SELECT quote_ident(nspname) FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace "
        "WHERE c.oid = 'noisette_records'::regclass"
    ).fetchone()
    for text in (_SUM, _ADD, _RIGHTS):
        server.execute(text.replace("@.", f"{schema}."))
