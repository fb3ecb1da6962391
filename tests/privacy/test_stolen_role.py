"""A stolen role of a ledger's server can spend, and nothing else."""

import hashlib
import json
import secrets
from collections.abc import Iterator

import pytest

from noisette.audit.receipts import check_charges
from noisette.core.ledger import Ledger
from noisette.core.mechanisms import Gaussian, Laplace
from noisette.core.plans import Declared, Repeat, Run
from noisette.core.storage import chain, postgres
from noisette.errors import BudgetExceeded, LedgerError

psycopg = pytest.importorskip("psycopg", reason="no driver here: pip install 'noisette[postgres]'")

TENTH = Laplace.calibrated(0.1)
PLAN = json.dumps({"plan": "anything"})
FREE = {"kind": "charge", "label": "x", "plan": PLAN, "cost": [0.0, 0.0], "seeded": False}
FREE["collected"] = ""
CALL = "SELECT place, added FROM noisette_add_3(%s::text, %s::text, %s::text, %s::text, %s::text)"


OPEN: dict[str, object] = {}


def sql(address: str, command: str, *given: object) -> list[tuple]:
    place = address.partition("#")[0]
    if place not in OPEN or OPEN[place].closed:
        OPEN[place] = psycopg.connect(place, autocommit=True)
    cursor = OPEN[place].execute(command, given or None)
    return cursor.fetchall() if cursor.description else []


class Scene:
    """A database of its own: its owner's address and the thief's."""

    def __init__(self, server: str) -> None:
        self.server, tag = server.partition("#")[0], secrets.token_hex(6)
        self.role, self.base = f"thief_{tag}", f"robbed_{tag}"
        sql(server, f"CREATE ROLE {self.role} LOGIN")
        sql(server, f"CREATE DATABASE {self.base}")
        head, _, rest = self.server.partition("?")
        self.owner = f"{head.rpartition('/')[0]}/{self.base}{'?' * bool(rest)}{rest}"
        self.thief = self.owner.replace("postgres:@", f"{self.role}@")
        if self.thief == self.owner:
            pytest.skip("this server's address names no user to replace")

    def grant(self) -> None:
        sql(self.owner, f"GRANT SELECT ON noisette_ledgers, noisette_records TO {self.role}")
        sql(self.owner, f"GRANT EXECUTE ON FUNCTION noisette_add_3 TO {self.role}")

    def start(self, name: str, *given: object, **options: object) -> Ledger:
        return Ledger.open(f"{self.owner}#{name}", *given, **options)

    def seen(self, name: str) -> str:
        rows = sql(
            self.thief,
            "SELECT left(line, 64) FROM (SELECT line, 0 AS number FROM noisette_ledgers WHERE name "
            "= %s UNION ALL SELECT line, number FROM noisette_records WHERE ledger = %s) a "
            "ORDER BY number DESC LIMIT 1", name, name,
        )  # fmt: skip
        return rows[0][0]

    def call(self, name: str, node: object, secret: str = "", **other: object) -> dict:
        """Call the function as the thief; `node` is a record, or any text."""
        text = node if isinstance(node, str) else json.dumps(node)
        given = {"book": name, "seen": self.seen(name), "token": secrets.token_hex(16)} | other
        order = given["book"], given["seen"], given["token"], text, secret
        rows = sql(self.thief, CALL, *order)
        return json.loads(rows[0][1][65:]) if rows else {}


@pytest.fixture(scope="module")
def scene(postgres) -> Iterator[Scene]:
    scene = Scene(postgres())
    scene.start("first", 1.0)
    scene.grant()
    yield scene
    sql(scene.server, f"DROP DATABASE {scene.base} WITH (FORCE)")
    sql(scene.server, f"DROP ROLE {scene.role}")


@pytest.fixture
def robbed(scene: Scene) -> Iterator[str]:
    """The name of a ledger with two charges, which must be as it was when the thief has gone."""
    name = secrets.token_hex(4)
    ledger = scene.start(name, 1.0, 1e-6)
    ledger.charge(TENTH, label="honest")
    ledger.charge(TENTH, label="honest too")
    before = ledger.charges
    yield name
    for each in (ledger, scene.start(name)):
        assert each.charges[:2] == before
        assert each.spent[0] >= 0.2
        each.charge(Declared(1e-9), label="still open")


def refused(scene: Scene, name: str, node: object, secret: str = "", **other: object) -> None:
    count = sql(scene.owner, "SELECT count(*) FROM noisette_records")
    with pytest.raises(psycopg.Error):
        raise AssertionError(f"accepted: {scene.call(name, node, secret, **other)}")
    assert sql(scene.owner, "SELECT count(*) FROM noisette_records") == count


# ---- rights ----

FORBIDDEN = [
    "INSERT INTO noisette_records VALUES ('first', 9, 9, 'a', 'b')",
    f"INSERT INTO noisette_records VALUES ('first', {2**62}, 1, 'a', 'b')",
    "INSERT INTO noisette_ledgers (name, line) VALUES ('mine', 'x')",
    "UPDATE noisette_records SET line = line",
    "UPDATE noisette_ledgers SET line = line",
    "DELETE FROM noisette_records",
    "TRUNCATE noisette_records",
    "DROP TABLE noisette_records CASCADE",
    "ALTER TABLE noisette_records DROP COLUMN line",
    "ALTER TABLE noisette_records ALTER number DROP NOT NULL",
    "ALTER TABLE noisette_records OWNER TO CURRENT_USER",
    "CREATE RULE r AS ON INSERT TO noisette_records DO INSTEAD NOTHING",
    "CREATE POLICY p ON noisette_records",
    "LOCK TABLE noisette_records IN ACCESS EXCLUSIVE MODE",
    "SELECT * FROM noisette_records FOR UPDATE",
    "COPY noisette_records FROM PROGRAM 'true'",
    "ALTER FUNCTION noisette_add_3 SECURITY INVOKER",
    "ALTER FUNCTION noisette_add_3 RESET ALL",
    "DROP FUNCTION noisette_add_3",
    "CREATE OR REPLACE FUNCTION public.noisette_add_3(book text, seen text, token text, node text, "
    "secret text) RETURNS TABLE (place bigint, added text) LANGUAGE sql AS 'SELECT 1::bigint, $1'",
    "SELECT public.noisette_sum_3('{}', 1)",
    "SET ROLE postgres",
    "SET SESSION AUTHORIZATION postgres",
    "SET session_replication_role = replica",
    "ALTER SYSTEM SET fsync = off",
]  # fmt: skip


def test_tables_and_function_are_out_of_reach(scene, robbed) -> None:
    for command in FORBIDDEN:
        with pytest.raises(psycopg.Error):
            raise AssertionError(f"allowed: {command} {sql(scene.thief, command)}")


def test_nobody_may_call_who_was_not_told(scene, robbed) -> None:
    sql(scene.server, f"CREATE ROLE no_{scene.role} LOGIN")
    try:
        other = scene.thief.replace(f"{scene.role}@", f"no_{scene.role}@")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            sql(other, CALL, robbed, "", "", "", "")
    finally:
        sql(scene.server, f"DROP ROLE no_{scene.role}")


def test_a_thief_can_start_no_ledger(scene, robbed) -> None:
    with pytest.raises(LedgerError, match="only their owner starts a ledger"):
        Ledger.open(f"{scene.thief}#second", 100.0)
    assert Ledger.open(f"{scene.thief}#{robbed}", 1.0).count == 2  # but open one that is there


def test_what_shadows_a_name_is_not_used(scene, robbed) -> None:
    """Functions, operators and tables of the thief, in a schema that it looks through first."""
    sql(scene.owner, f"GRANT CREATE ON DATABASE {scene.base} TO {scene.role}")
    sql(scene.owner, f"GRANT CREATE ON SCHEMA public TO {scene.role}")  # as before PostgreSQL 15
    schema = f"mine_{secrets.token_hex(4)}"
    seen, token = scene.seen(robbed), secrets.token_hex(16)
    given = robbed, seen, token, json.dumps(FREE | {"cost": [0.125, 0.0]}), ""
    with psycopg.connect(scene.thief, autocommit=True) as connection:
        for place in (schema, "public", "pg_temp"):
            if place == schema:
                connection.execute(f"CREATE SCHEMA {schema}")
            for text in (
                "FUNCTION @.sha256(text) RETURNS bytea LANGUAGE sql AS 'SELECT ''x''::bytea'",
                "FUNCTION @.encode(bytea, text) RETURNS text LANGUAGE sql AS 'SELECT ''forged'''",
                "FUNCTION @.abs(float8) RETURNS float8 LANGUAGE sql AS 'SELECT -1::float8'",
                "FUNCTION @.coalesce_(bigint) RETURNS bigint LANGUAGE sql AS 'SELECT 0::bigint'",
                "FUNCTION @.noisette_sum_3(float8[], numeric) RETURNS float8[] LANGUAGE sql AS "
                "'SELECT ''{}''::float8[]'",
                "FUNCTION @.add0(float8, float8) RETURNS float8 LANGUAGE sql AS 'SELECT 0::float8'",
                "OPERATOR @.+ (FUNCTION = @.add0, LEFTARG = float8, RIGHTARG = float8)",
                "FUNCTION @.same(text, text) RETURNS text LANGUAGE sql AS 'SELECT ''forged'''",
                "OPERATOR @.|| (FUNCTION = @.same, LEFTARG = text, RIGHTARG = text)",
            ):
                with_place = text.replace("@.", f"{place}.")
                if place == "pg_temp" and "OPERATOR" in text:
                    continue
                connection.execute(f"CREATE {with_place}")
        connection.execute("CREATE TEMP TABLE noisette_records (LIKE public.noisette_records)")
        connection.execute("CREATE TEMP TABLE noisette_ledgers (LIKE public.noisette_ledgers)")
        connection.execute(f"SET search_path = pg_temp, {schema}, public, pg_catalog")
        rows = connection.execute(CALL.replace("noisette_add", "public.noisette_add"), given)
        line = rows.fetchone()[1]
        assert connection.execute("SELECT count(*) FROM noisette_records").fetchone() == (0,)
    sql(scene.owner, f"DROP OWNED BY {scene.role} CASCADE")
    scene.grant()
    digest, node = chain.unseal(line.encode())
    assert node["before"] == seen
    assert scene.seen(robbed) == digest
    assert scene.start(robbed).spent[0] == pytest.approx(0.325)


# ---- records ----

COSTS = [
    "[-0.1, 0.0]", "[0.1, -1e-9]", "[-0.0, 0.0]", "[NaN, 0.0]", "[Infinity, 0.0]",
    "[0.1, Infinity]",
    "[-Infinity, 0.0]", "[1e400, 0.0]", "[1e-400, 0.0]", '["0.1", 0.0]', "[[0.1], 0.0]", "[0.1]",
    "[0.1, 0.0, 0.0]", "[null, 0.0]", "[1, 0.0]", "[0.1, 0]", "[true, 0.0]", "0.1", "null", "{}",
    '["NaN", 0.0]', "[]", "[0.1, 0.0], \"cost\": [0.0, 0.0]", "[0x1p-3, 0.0]",
    "[1e-1000000000, 0.0]",     f"[0.{'1' * 60}, 0.0]",
]  # fmt: skip


def test_no_cost_takes_anything_back(scene, robbed) -> None:
    for cost in COSTS:
        refused(scene, robbed, json.dumps(FREE).replace("[0.0, 0.0]", cost))


LONGEST = 2_000_000
DEEP = "[" * 100_000 + "]" * 100_000
FORGED = {
    "totals": json.dumps(FREE | {"totals": [0, [], []]}),
    "before": json.dumps(FREE | {"before": "0" * 64}),
    "floor": json.dumps(FREE | {"floor": [0]}),
    "a date": json.dumps(FREE | {"booked": "1999-01-01"}),
    "a name": json.dumps(FREE | {"by": "somebody else"}),
    "collected already": json.dumps(FREE | {"collected": "0" * 64}),
    "a key twice": '{"kind": "draws", ' + json.dumps(FREE)[1:],
    "a key twice, escaped": '{"\\u006bind": "draws", ' + json.dumps(FREE)[1:],
    "half a charge": json.dumps({"kind": "charge"}),
    "half a run": json.dumps(FREE | {"counts": [0], "bounds": []}),
    "another unit": json.dumps(FREE | {"unit": "person"}),
    "no unit": json.dumps(FREE | {"unit": "nobody"}),
    "a seed": json.dumps(FREE | {"seeded": True}),
    "a label of another type": json.dumps(FREE | {"label": 7}),
    "a NUL": json.dumps(FREE | {"label": "\0"}),
    "half a sign": json.dumps(FREE | {"label": "\ud800"}),
    "a line of its own": json.dumps(FREE)[:-1] + "\n}",
    "beyond ASCII": json.dumps(FREE | {"label": "ä"}, ensure_ascii=False),
    "two records": json.dumps(FREE) + json.dumps(FREE),
    "cut": json.dumps(FREE)[:-1],
    "nothing": "",
    "an empty record": "{}",
    "a list": json.dumps([FREE]),
    "no kind": json.dumps({"label": "x"}),
    "another kind": json.dumps({"kind": "refund"}),
    "a huge line": json.dumps(FREE | {"label": "x" * LONGEST}),
    "a deep plan": json.dumps(FREE)[:-1] + f', "table": {DEEP}}}',
    "columns of another type": json.dumps({"kind": "table", "table": "t", "columns": ["a"]}),
    "deep columns": '{"kind": "table", "table": "t", "columns": [["a", ["b"]]]}',
    "people of no ledger": json.dumps({"kind": "people", "ledger": "x", "title": "", "same": True}),
}


def test_no_record_that_nobody_could_read(scene, robbed) -> None:
    for text in FORGED.values():
        refused(scene, robbed, text)


def test_the_largest_records_can_be_read_together(scene) -> None:
    """136 free ones of 8 MB each were once more than a server puts into one answer."""
    assert postgres._BATCH * LONGEST < 2**28
    ledger = scene.start("large", 1.0)
    for _ in range(3):
        scene.call("large", FREE | {"label": "x" * (LONGEST - 200)})
    assert scene.start("large").spent == ledger.spent == (0.0, 0.0)


NUMBERS = [2**62, 2**63, -1, 0, 3, 1.5, "1", True, None, 10**40]


def test_no_number_blocks_a_ledger(scene, robbed) -> None:
    secret = secrets.token_hex(16)
    holder = hashlib.sha256(secret.encode()).hexdigest()
    for number in NUMBERS:
        refused(scene, robbed, {"kind": "collected", "of": number, "digest": "0" * 64, "label": ""})
        node = {"kind": "draws", "charge": number, "holder": holder, "counts": [0], "bounds": []}
        refused(scene, robbed, node, secret)


def test_places_and_tokens_are_not_the_callers_to_choose(scene, robbed) -> None:
    other = scene.start("other", 1.0)
    other.charge(TENTH, label="theirs")
    token = sql(scene.thief, "SELECT token FROM noisette_records LIMIT 1")[0][0]
    for wrong in (
        {"book": "nowhere", "seen": ""},
        {"book": "other", "seen": scene.seen(robbed)},
        {"seen": "0" * 64},
        {"token": token},
        {"token": ""},
        {"token": "x" * 10_000},
    ):
        refused(scene, robbed, FREE, **wrong)
    for gone in ("book", "seen", "token"):
        assert scene.call(robbed, FREE, **{gone: None}) == {}
    assert other.count == 1
    assert scene.start(robbed).count == 2


@pytest.mark.parametrize("rule", ["sums", "renyi", "gdp"])
def test_the_server_refuses_what_goes_over_the_total(scene, rule: str) -> None:
    """Also from a client that does not ask its own rule."""
    name = f"{rule}_{secrets.token_hex(4)}"
    ledger = scene.start(name, 1.0, 1e-6, rule=rule)
    ledger.charge(Gaussian(100.0), label="fits", delta=1e-7)
    left = ledger.remaining[0]
    refused(scene, name, FREE | {"cost": [left * (1 + 1e-9), 0.0]})
    refused(scene, name, FREE | {"cost": [0.0, 1.1e-6]})
    assert scene.call(name, FREE | {"cost": [left * (1 - 1e-9), 0.0]})["totals"][0] == 2
    with pytest.raises(BudgetExceeded):
        ledger.charge(Gaussian(100.0), label="too much", delta=1e-7)


def test_ten_tenths_fit_on_the_server_too(scene) -> None:
    name = secrets.token_hex(4)
    ledger = scene.start(name, 1.0)
    for _ in range(10):
        ledger.charge(Declared(0.1), label="x")
    refused(scene, name, FREE | {"cost": [1e-12, 0.0]})
    assert ledger.spent == (1.0, 0.0)


def test_the_server_adds_up_exactly(scene, rng) -> None:
    name = secrets.token_hex(4)
    ledger = scene.start(name, 1e17, 0.5)
    costs = [1e16, 1.0, 1e-300, 0.1, 5e-324, 3.0, 2.0**53, 1e-17]
    costs += [float(cost) for cost in 10.0 ** rng.uniform(-20, 10, size=20)]
    for cost in costs:
        scene.call(name, FREE | {"cost": [cost, 0.0]})
    totals = ledger._store.totals()  # whoever reads compares with sums of its own
    for cost in costs:
        totals = totals.plus((-cost, 0.0))
    assert totals.first == 0


def test_nothing_that_was_drawn_is_forgotten(scene, robbed) -> None:
    run = Repeat(Run(Gaussian(50.0)), 1000)
    owner = scene.start("runs", 6.0, 1e-5)
    permit = owner.charge(run, label="run", delta=1e-5, resumable=True)
    permit._journal(permit_drawn([300]))
    (line,) = sql(
        scene.thief, "SELECT line FROM noisette_records WHERE ledger = 'runs' AND number = 2"
    )[0]
    last = json.loads(line[65:])
    secret = secrets.token_hex(16)
    mine = hashlib.sha256(secret.encode()).hexdigest()
    node = {"kind": "draws", "charge": 1, "holder": mine, "counts": [300], "bounds": last["bounds"]}
    for wrong, told in (
        (node | {"counts": [0]}, secret),  # takes over with less
        (node | {"counts": [301]}, secret),
        (node | {"counts": []}, secret),
        (node | {"counts": [300.0]}, secret),
        (node | {"counts": ["300"]}, secret),
        (node | {"bounds": []}, secret),
        (node | {"holder": last["holder"], "counts": [0]}, last["holder"]),  # as the holder
        (node | {"holder": last["holder"], "counts": [0]}, secret),
        (node, ""),
        (node | {"holder": hashlib.sha256(b"").hexdigest()}, ""),
    ):
        refused(scene, "runs", wrong, told)
    assert scene.call("runs", node, secret)["floor"] == [300]
    refused(scene, "runs", node | {"counts": [299]}, secret)  # has taken over, and forgets
    assert scene.call("runs", node | {"counts": [310]}, secret)["floor"] == [300]
    assert scene.call("runs", node | {"counts": [305]}, secret)["counts"] == [305]  # settled
    assert owner.resume(1).drawn() == 305


def permit_drawn(counts: list[int]):
    from noisette.core.storage import Drawn

    return Drawn(tuple(counts), ("CLIP",))


def test_what_is_booked_below_its_plan_is_found(scene) -> None:
    name = secrets.token_hex(4)
    ledger = scene.start(name, 1.0)
    ledger.charge(TENTH, label="honest")
    check_charges(ledger)
    scene.call(name, FREE | {"plan": ledger.charges[0].plan, "cost": [0.09, 0.0]})
    with pytest.raises(LedgerError, match=r"charge 2 costs less than its plan.*damaged"):
        check_charges(ledger)


def test_whatever_is_accepted_can_be_read_and_only_spends(scene, rng) -> None:
    """Records that are changed at random; most are refused, and none is worse than a charge."""
    name = secrets.token_hex(4)
    ledger = scene.start(name, 1000.0, 1e-5)
    run = Repeat(Run(Gaussian(50.0)), 10)
    ledger.charge(run, label="run", delta=1e-6, resumable=True)
    secret = secrets.token_hex(16)
    holder = hashlib.sha256(secret.encode()).hexdigest()
    drawn = {"holder": holder, "counts": [0], "bounds": []}
    nodes = [
        FREE | {"cost": [0.5, 1e-9], "unit": "record", "table": "t", "why": "x"},
        FREE | {"run": [0.5, 0.0]} | drawn,
        {"kind": "draws", "charge": 1} | drawn,
        {"kind": "collected", "of": 1, "digest": "0" * 64, "label": "x"},
        {"kind": "table", "table": "t", "columns": [["age", "number"]]},
        {"kind": "people", "ledger": "0" * 64, "title": "t", "same": True},
    ]
    values = [
        None,
        True,
        0,
        -1,
        1.5,
        2**62,
        "",
        "x",
        [],
        [0],
        [0.0, 0.0],
        ["a"],
        {},
        [[]],
        "0" * 64,
    ]
    accepted, spent = 0, ledger._store.totals()
    for _ in range(200):
        node = dict(nodes[rng.integers(len(nodes))])
        for _ in range(int(rng.integers(0, 2))):
            keys = [*node, "totals", "booked", "unit"]
            node[keys[rng.integers(len(keys))]] = values[rng.integers(len(values))]
        try:
            accepted += bool(scene.call(name, node, secret))
        except psycopg.Error:
            continue
        now = ledger._store.totals()
        assert now.first >= spent.first
        assert now.second >= spent.second
        spent = now
    assert 30 < accepted < 180
    fresh = scene.start(name)
    assert fresh._store.totals() == spent
    assert len(fresh.charges) == fresh.count
    assert len(fresh._store.notes()) > 5
    fresh.charge(TENTH, label="still open")


# ---- what others than the function wrote ----


def forge(scene: Scene, name: str, totals: list[object], cost: float = 0.0) -> None:
    """Insert, as the owner, a sealed record with other totals, as any client could once."""
    number = sql(
        scene.owner, "SELECT coalesce(max(number), 0) FROM noisette_records WHERE ledger = %s", name
    )[0][0]
    node = {"before": scene.seen(name), **FREE, "cost": [cost, 0.0], "totals": totals}
    sql(
        scene.owner,
        "INSERT INTO noisette_records VALUES (%s, %s, %s, %s, %s)",
        name, number + 1, totals[0], secrets.token_hex(16), chain.seal(node).decode(),
    )  # fmt: skip


@pytest.mark.parametrize("records", [1, 2])
def test_a_sealed_record_with_lower_totals_is_seen(scene, records: int) -> None:
    """By those who had the ledger open and by others, also behind a second record that fits it."""
    name = secrets.token_hex(4)
    ledger = scene.start(name, 1.0)
    for _ in range(9):
        ledger.charge(TENTH, label="x")
    for k in range(records):
        forge(scene, name, [10 + k, [], []])
    for each in (ledger, scene.start(name), Ledger.open(f"{scene.thief}#{name}")):
        for use in (
            lambda each=each: each.spent,
            lambda each=each: each.charges,
            lambda each=each: each.charge(TENTH, label="more"),
        ):
            with pytest.raises(LedgerError, match=r"damaged.*charge by hand"):
                use()


# ---- tables of the version before ----

OLD = """
CREATE TABLE noisette_ledgers (
    name text PRIMARY KEY, line text NOT NULL,
    started timestamptz NOT NULL DEFAULT clock_timestamp(),
    started_by text NOT NULL DEFAULT session_user
);
CREATE TABLE noisette_records (
    ledger text NOT NULL REFERENCES noisette_ledgers, number bigint NOT NULL,
    charge bigint NOT NULL, token text NOT NULL UNIQUE, line text NOT NULL,
    booked timestamptz NOT NULL DEFAULT clock_timestamp(),
    booked_by text NOT NULL DEFAULT session_user,
    PRIMARY KEY (ledger, number)
);
CREATE INDEX noisette_records_of_charge ON noisette_records (ledger, charge, number)
"""


def test_tables_of_the_version_before_are_read_and_made_new_by_their_owner(postgres) -> None:
    scene = Scene(postgres())
    for table in OLD.split(";"):
        sql(scene.owner, table)
    header = {"format": 1, "id": "0" * 32, "epsilon": 1.0, "delta": 1e-6}
    header |= {"adjacency": "replace-one", "rule": "sums", "experiment": False}
    sql(scene.owner, "INSERT INTO noisette_ledgers VALUES ('old', %s)", chain.seal(header).decode())
    sql(scene.owner, f"GRANT SELECT, INSERT ON noisette_ledgers, noisette_records TO {scene.role}")
    plan = Run(TENTH).under("replace-one").to_json()
    first = {"before": scene.seen("old"), "kind": "charge", "label": "x", "plan": plan}
    first |= {"cost": [0.1, 0.0], "seeded": False, "run": [0.1, 0.0], "holder": "plain"}
    first |= {"counts": [0], "bounds": [], "totals": [1, [0.1], []]}
    sql(
        scene.thief,
        "INSERT INTO noisette_records VALUES ('old', 1, 1, 'a', %s, '2025-03-04 05:06:07+00')",
        chain.seal(first).decode(),
    )
    clerk = Ledger.open(f"{scene.thief}#old")
    assert clerk.spent == (0.1, 0.0)
    with pytest.raises(
        LedgerError, match=r"can only be read; let their owner open it once.*Nothing"
    ):
        clerk.charge(TENTH, label="too early")
    owner = Ledger.open(f"{scene.owner}#old")
    clerk.charge(TENTH, label="now")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        sql(scene.thief, FORBIDDEN[0])
    assert [charge.by for charge in owner.charges] == [scene.role] * 2
    assert owner.charges[0].booked == "2025-03-04"
    times = (
        "SELECT booked::text FROM noisette_records UNION SELECT started::text FROM noisette_ledgers"
    )
    sql(scene.owner, f"ALTER DATABASE {scene.base} SET timezone = 'UTC'")
    assert all(moment.endswith("00:00:00+00") for (moment,) in sql(scene.owner, times))
    assert owner.uncollected() == []
    owner.collect(1, "1" * 64)
    assert owner.resume(1).drawn() == 0
    assert owner.charges[0].collected == "1" * 64
    refused(scene, "old", FREE | {"cost": [0.81, 0.0]})  # over the total
    assert Ledger.open(f"{scene.owner}#old").spent == (0.2, 0.0)
    sql(scene.server, f"DROP DATABASE {scene.base} WITH (FORCE)")


def test_a_function_of_somebody_else_is_not_called(postgres) -> None:
    scene = Scene(postgres())
    scene.start("first", 1.0)
    sql(scene.owner, "DROP FUNCTION noisette_add_3")
    sql(scene.owner, f"GRANT CREATE ON SCHEMA public TO {scene.role}")
    sql(
        scene.thief,
        "CREATE FUNCTION public.noisette_add_3(text, text, text, text, text) RETURNS TABLE "
        "(place bigint, added text) LANGUAGE sql AS 'SELECT 1::bigint, $1'",
    )
    with pytest.raises(LedgerError, match="does not belong to the owner of the tables"):
        scene.start("first")
    sql(scene.server, f"DROP DATABASE {scene.base} WITH (FORCE)")
