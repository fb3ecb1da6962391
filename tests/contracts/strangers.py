"""A fuzzer for every reader of files, run in a process of its own under a limit on memory.

``python strangers.py COUNT SEED [READER ...]`` reads COUNT damaged files with each reader and
prints a line for each one that was answered otherwise than with a result or one short sentence.
"""

import copy
import io
import json
import random
import resource
import signal
import sys
import tempfile
import time
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from noisette import Ledger, LogisticRegression, TableClassifier, load, save
from noisette.app.commands.inspect import _guarantee_in
from noisette.audit.receipts import read_receipt
from noisette.core import accounting, mechanisms
from noisette.core.guarantee import Guarantee
from noisette.core.plans import Plan, Repeat, Run, Sampled, Selected, Together
from noisette.core.plans.laws import Logarithmic
from noisette.core.sampling import Poisson
from noisette.core.storage import chain
from noisette.errors import NoisetteError
from noisette.models import LinearRegression
from noisette.models import files as model_files
from noisette.tables import read_schema

MEMORY, SECONDS, LONGEST = 1 << 30, 20, 400
"""What one file may take beyond what the process has, how long, and how long its refusal is."""

BIG = (2**31, 2**53, 2**63 - 1, 2**70, -1, 0, 10**400, 1e-300, 1e300, 5e-324, 1e15, 0.5)
ODD = (None, True, "", "x" * 5000, [], {}, [[]], "infinite", "nan", [1, "a"], {"plan": "run"})
SCHEMA = """target = "ill"
classes = ["no", "yes"]
unit = "one row is one person"
missing = ["?", "NA"]
[file]
delimiter = ";"
[columns.age]
kind = "numeric"
low = 0
high = 100
[columns.job]
kind = "categorical"
categories = ["a", "b", "c"]
"""


class Reader(NamedTuple):
    """How good files are made, how one is read, and how one is damaged with its digests right."""

    made: Callable[[Path], list[bytes]]
    read: Callable[[Path], object]
    forged: Callable[[bytes, random.Random], bytes] | None = None


# --- damage ------------------------------------------------------------------------------------


def damaged(data: bytes, other: bytes, rng: random.Random) -> bytes:
    """Return bytes with flips, a cut, a piece of another file, or a piece many times."""
    text, how = bytearray(data), rng.randrange(5)
    at = rng.randrange(len(text) + 1)
    if how == 0:
        for _ in range(rng.choice((1, 1, 3, 30))):
            text[rng.randrange(len(text))] = rng.randrange(256)
    elif how == 1:
        del text[at:]
    elif how == 2:
        start = rng.randrange(len(other))
        text[at : at + rng.randrange(64)] = other[start : start + rng.randrange(256)]
    elif how == 3:
        text[at:at] = bytes(text[at : at + rng.randrange(1, 40)]) * rng.choice((2, 50, 5000))
    else:
        text[at:at] = rng.choice((b"[", b"{", b'{"a":', b"[[", b"\xff", b"9", b"-")) * 3000
    return bytes(text)


def changed(node: Any, rng: random.Random) -> Any:
    """Return JSON with one place inflated, of another type, gone, or nested."""
    node = copy.deepcopy(node)
    places = list(_places(node))
    if not places:
        return rng.choice(ODD)
    where, key = rng.choice(places)
    how = rng.randrange(5)
    if how <= 1 and isinstance(where[key], int | float):
        where[key] = rng.choice(BIG)
    elif how == 2:
        del where[key]
    elif how == 3:
        inner = where[key]
        for _ in range(rng.choice((2, 90, 400))):
            inner = rng.choice(({"plan": "together", "of": [inner]}, [inner]))
        where[key] = inner
    elif how == 4 and isinstance(where[key], list):
        where[key] *= rng.choice((2, 100))
    else:
        where[key] = rng.choice((*ODD, *BIG))
    return node


def _places(node: Any) -> Iterator[tuple[Any, Any]]:
    keys = node if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ()
    for key in keys:
        yield node, key
        yield from _places(node[key])


def forged_json(data: bytes, rng: random.Random) -> bytes:
    """Return a JSON text that is another JSON text."""
    return json.dumps(changed(json.loads(data), rng)).encode()


# --- models ------------------------------------------------------------------------------------


def models(folder: Path) -> list[bytes]:
    """Return model files, one of them with scores on test people."""
    X, made = np.random.default_rng(0).uniform(-0.5, 0.5, (2000, 3)), []
    ages, ill = {"age": X[:, 0] * 80.0 + 40.0}, (X[:, 0] > 0) * 1
    facts: dict[str, Any] = {"schema": {"age": "numeric"}, "test_share": 0.25}
    for model, rows, y in (
        (TableClassifier(2.0, 1e-4, **facts), ages, ill),
        (LogisticRegression(1.0, norm_bound=1.0), X, ill),
        (LinearRegression(1.0, 1e-6, norm_bound=1.0, target_bounds=(0, 1)), X, X[:, 0] + 0.5),
    ):
        save(model.set_params(random_state=0).fit(rows, y), folder / "good")
        made.append((folder / "good").read_bytes())
    return made


def forged_model(data: bytes, rng: random.Random) -> bytes:
    """Return a model file with another text and its right seal, or with other arrays."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    if rng.random() < 0.3:
        name = rng.choice(["coef.npy", "intercept.npy"])
        head, body = parts[name][:128], parts[name][128:]
        parts[name] = damaged(head, head, rng) + body
    else:
        text = changed(json.loads(parts["model.json"]), rng)
        arrays = {name: np.load(io.BytesIO(parts[f"{name}.npy"])) for name in ("coef", "intercept")}
        if isinstance(text, dict):
            text["seal"] = model_files._seal(text, arrays)
        parts["model.json"] = json.dumps(text).encode()
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", rng.choice((0, 8))) as archive:
        for name, part in parts.items():
            archive.writestr(name, part)
    return made.getvalue()


# --- guarantees, plans, schemas ------------------------------------------------------------------


def plans(folder: Path) -> list[bytes]:
    """Return plans in JSON."""
    step = Sampled(mechanisms.Gaussian(2.0), Poisson(0.1))
    spherical = mechanisms.SphericalLaplace(9.0, 5)
    return [
        plan.under("replace-one").to_json().encode()
        for plan in (
            Together(Repeat(step, 20), spherical),
            Selected(spherical, Run(mechanisms.Laplace(30.0)), law=Logarithmic(4.0)),
            Together(mechanisms.ObjectiveNoise(2.0, 3, "spherical-laplace", 0.3)),
        )
    ]


def guarantees(folder: Path) -> list[bytes]:
    """Return guarantees in JSON."""
    return [
        Guarantee(30.0, 1e-6, Plan.from_json(text.decode()), "a count").to_json().encode()
        for text in plans(folder)
    ]


def read_guarantee(path: Path) -> None:
    """Do what ``noisette inspect`` does."""
    found = _guarantee_in(path)
    accounting.delta(found.plan, epsilon=found.epsilon, adjacency=found.adjacency)


# --- ledgers -------------------------------------------------------------------------------------


def ledgers(folder: Path) -> list[bytes]:
    """Return the bytes of a ledger with three charges."""
    ledger = Ledger.open(folder / "good.ledger", epsilon=9.0, delta=1e-5)
    for k in range(3):
        ledger.charge(mechanisms.Laplace(20.0), label=f"sum {k}")
    return [(folder / "good.ledger").read_bytes()]


def forged_ledger(data: bytes, rng: random.Random) -> bytes:
    """Return a ledger of which one part is another, with all digests right."""
    rest = data.partition(b"\n")[2]
    header = json.loads(rest[65 : rest.index(b"\n")])
    records = [json.loads(line[65:]) for line in data[3 * 4096 :].splitlines()]
    kept = [{key: each[key] for key in each if key not in ("before", "at")} for each in records]
    new = changed([header, *kept], rng)
    header, *kept = new if isinstance(new, list) and new else [header]
    with tempfile.TemporaryFile(buffering=0) as file:
        file.write(chain.first_pages(header if isinstance(header, dict) else {}))
        for each in kept:
            chain.append(file, chain.read_mark(file), each if isinstance(each, dict) else {})
        file.seek(0)
        return file.read()


def read_ledger(path: Path) -> None:
    """Read all of a ledger."""
    ledger = Ledger.open(path)
    str(ledger)
    list(ledger.charges)


# --- receipts ------------------------------------------------------------------------------------


def receipts(folder: Path) -> list[bytes]:
    """Return a receipt."""
    ledger = Ledger.open(folder / "paid.ledger", epsilon=9.0)
    ledger.charge(mechanisms.Laplace(20.0), label="x")
    return [json.dumps(ledger.receipt(1)).encode()]


def read_receipts(path: Path) -> None:
    """Do what ``noisette ledger --against`` does, with a receipt and with scores."""
    whole = path.read_bytes()
    for file, content in (
        (path.with_name(model_files.RECEIPT), whole),
        (path.with_name("scores.json"), b'{"receipt": ' + whole + b"}"),
    ):
        file.write_bytes(content)
        found = read_receipt(file)
        if found is not None:
            Ledger.open(path.with_name("paid.ledger")).receipt(found["charge"])


# --- checkpoints ---------------------------------------------------------------------------------


def _network() -> Any:
    import torch

    from noisette.nn.checkpoint import Average, Moving
    from noisette.nn.clipping import Flat

    torch.manual_seed(0)
    module = torch.nn.Linear(3, 2)
    optimizer = torch.optim.Adam(module.parameters())
    return Moving(module, optimizer, Average("tail", list(module.parameters()), 10), Flat())


def checkpoints(folder: Path) -> list[bytes]:
    """Return a checkpoint."""
    from noisette.nn import checkpoint

    facts = {"epsilon": 1.0, "steps": 10}
    known = {"charge": 1, "steps": 3, "seeded": False, "facts": facts}
    checkpoint.write(folder / "good.pt", _network().state() | known)
    return [(folder / "good.pt").read_bytes()]


def read_checkpoint(path: Path) -> None:
    """Read a checkpoint and take it up."""
    from noisette.nn import checkpoint

    trained = _network()
    state = checkpoint.read(path)
    checkpoint.same_run(path, state, {"epsilon": 1.0, "steps": 10}, seeded=False)
    trained.check(path, state)
    trained.take_up(path, state)


def forged_checkpoint(data: bytes, rng: random.Random) -> bytes:
    """Return a checkpoint with another pickle in an archive that is whole."""
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as archive, zipfile.ZipFile(made, "w") as new:
        for name in archive.namelist():
            part = archive.read(name)
            hit = name.endswith("data.pkl") or (rng.random() < 0.1 and part)
            new.writestr(name, damaged(part, part, rng) if hit else part)
    return made.getvalue()


READERS = {
    "model": Reader(models, load, forged_model),
    "guarantee": Reader(guarantees, read_guarantee, forged_json),
    "plan": Reader(plans, lambda path: Plan.from_json(path.read_bytes()), forged_json),
    "schema": Reader(lambda _: [SCHEMA.encode()], read_schema),
    "ledger": Reader(ledgers, read_ledger, forged_ledger),
    "receipt": Reader(receipts, read_receipts, forged_json),
    "checkpoint": Reader(checkpoints, read_checkpoint, forged_checkpoint),
}
"""Every reader of files from elsewhere."""


# --- the run -------------------------------------------------------------------------------------


class _TooLong(BaseException):
    pass


def _ring(*_: object) -> None:
    raise _TooLong


def answer(read: Callable[[Path], object], path: Path) -> str | None:
    """Return what is wrong with how a file is answered, None if nothing is."""
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        read(path)
    except NoisetteError as error:
        said = str(error).replace(str(path), "FILE")
        if len(said) > LONGEST or "\n" in said or not said.endswith("."):
            return f"{len(said)} signs: {said[:200]!r}"
    except (Exception, _TooLong) as error:
        return f"{type(error).__name__}: {str(error)[:100]!r}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return None


def limit_memory() -> None:
    """Let this process have no more than `MEMORY` beyond what it has now."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def main(count: int, seed: int, names: list[str]) -> None:
    """Fuzz the readers; print what is wrong."""
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, _ring)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made = {each: READERS[each].made(folder) for each in names}
        for each in names:  # what is loaded lazily is there before memory is counted
            for good in made[each]:
                (folder / "file").write_bytes(good)
                READERS[each].read(folder / "file")
        limit_memory()
        for each in names:
            rng, reader, path = random.Random(f"{each} {seed}"), READERS[each], folder / "file"
            for k in range(count):
                good, other = rng.choice(made[each]), rng.choice(made[each])
                try:
                    bad = reader.forged(good, rng) if reader.forged and k % 2 else None
                except (ValueError, RecursionError, chain.Damaged):  # not to be written at all
                    bad = None
                path.write_bytes(damaged(good, other, rng) if bad is None else bad)
                started = time.process_time()
                wrong = answer(reader.read, path)
                if wrong:
                    taken = time.process_time() - started
                    print(f"{each} {seed}:{k} after {taken:.1f} s: {wrong}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:] or list(READERS))
