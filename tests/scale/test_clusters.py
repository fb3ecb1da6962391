"""A real scheduler: workers come, die and never come; the answer is the same, or one sentence."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dask
import dask.array as da
import dask.dataframe as dd
import distributed
import numpy as np
import pandas as pd
import pytest
from distributed import Client, LocalCluster

from noisette import Ledger, LogisticRegression, Persons, TableClassifier
from noisette.errors import ClusterFailed
from noisette.fitting.partitions import running

RNG = np.random.default_rng(0)
X = RNG.normal(size=(2000, 4)) / 3.0
Y = (X @ np.ones(4) + 0.3 * RNG.normal(size=2000) > 0.0).astype(int)

pytestmark = pytest.mark.filterwarnings("ignore")  # of distributed, about its own ends


@contextmanager
def cluster(**options: Any) -> Iterator[Client]:
    options = {"processes": False, "dashboard_address": None, "threads_per_worker": 1} | options
    with LocalCluster(**options) as made, Client(made) as client:
        yield client


def fitted(rows: Any, labels: Any, **more: Any) -> Any:
    model = LogisticRegression(1.0, norm_bound=1.0, random_state=1, **more).fit(rows, labels)
    return np.append(model.coef_.ravel(), model.intercept_)


def test_workers_give_the_model_of_one_machine() -> None:
    expected = fitted(X, Y)
    with cluster(n_workers=3):
        cut = da.from_array(X, chunks=(300, 4))
        assert np.abs(fitted(cut, Y) - expected).max() < 1e-8
        kept = cut.persist()
        assert np.abs(fitted(kept, da.from_array(Y, chunks=300).persist()) - expected).max() < 1e-8


@pytest.mark.slow
def test_processes_agree_on_persons_coins_and_answers() -> None:
    """Texts have another hash in every process, and a process may draw again what it lost."""
    table = pd.DataFrame(X, columns=list("abcd")).assign(y=Y)
    table["who"] = [f"p{k}" for k in RNG.integers(0, 900, len(X))]
    names, kinds = list("abcd"), dict.fromkeys("abcd", "numeric")
    whole = LogisticRegression(1.0, norm_bound=1.0, random_state=1)
    whole.fit(table[names], table["y"], persons=Persons.of(table["who"], max_rows=2))
    scored = TableClassifier(9.0, 1e-5, schema=kinds, test_share=0.3, random_state=1)
    parts = dd.from_pandas(table, npartitions=7)
    with dask.config.set(scheduler="sync"):
        scored.fit(parts[names], parts["y"])
        alone = str(scored.test_)
    with cluster(n_workers=2, processes=True):
        model = LogisticRegression(1.0, norm_bound=1.0, random_state=1)
        model.fit(parts[names], parts["y"], persons=Persons.of(parts["who"], max_rows=2))
        assert np.abs(model.coef_ - whole.coef_).max() < 1e-8
        scored.fit(parts[names], parts["y"])
        assert str(scored.test_) == alone
        found = model.predict(parts[names]).compute()
    assert np.array_equal(found, model.predict(table[names]))


class Waited:
    """A future whose wait is cancelled while it runs out, as it happens on a busy machine."""

    def __init__(self, status: str) -> None:
        self.status, self.asked = status, 0

    def result(self, timeout: float) -> int:
        self.asked += 1
        if self.asked < 3:
            raise UnboundLocalError
        return 7


@pytest.mark.parametrize("status", ["pending", "error"])
def test_a_wait_that_is_cancelled_is_waited_again(
    status: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    future = Waited(status)
    client = SimpleNamespace(compute=lambda root: future)
    monkeypatch.setattr(running, "_workers", lambda client: 1)
    monkeypatch.setattr(distributed, "default_client", lambda: client)
    if status == "pending":
        assert running.run(None) == 7
        return
    with pytest.raises(ClusterFailed, match="UnboundLocalError"):  # of a task, and only once
        running.run(None)
    assert future.asked == 1


def test_a_cluster_without_workers_is_given_up_before_the_charge(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(running, "PATIENCE", 0.5)
    monkeypatch.setattr(running, "_POLL", 0.1)
    ledger = Ledger(1.0)
    with (
        cluster(n_workers=0),
        pytest.raises(ClusterFailed, match="lost all its workers; start new ones"),
    ):
        LogisticRegression(1.0, norm_bound=1.0, ledger=ledger).fit(da.from_array(X, chunks=900), Y)
    assert ledger.spent == (0.0, 0.0)


def test_workers_lost_for_good_leave_the_charge_and_no_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(running, "PATIENCE", 0.5)
    monkeypatch.setattr(running, "_POLL", 0.1)
    ledger = Ledger(5.0)
    model = LogisticRegression(1.0, norm_bound=1.0, ledger=ledger)
    with cluster(n_workers=1) as client:
        real = ledger.charge

        def charge_and_lose(*given: Any, **more: Any) -> Any:
            permit = real(*given, **more)
            client.cluster.scale(0)
            while client.scheduler_info()["workers"]:
                time.sleep(0.05)
            return permit

        monkeypatch.setattr(ledger, "charge", charge_and_lose)
        with pytest.raises(ClusterFailed, match="stays booked"):
            model.fit(da.from_array(X, chunks=(900, 4)), Y)
    assert ledger.spent[0] == pytest.approx(1.0)
    assert not hasattr(model, "coef_")


@pytest.mark.slow
def test_killed_processes_change_nothing_but_time(tmp_path: Path) -> None:
    """Two processes read Parquet; one after the other is killed while they are at work."""
    n = 400_000
    big = np.random.default_rng(1).normal(size=(n, 8)).astype(np.float32) / 4.0
    labels = (big.sum(axis=1) > 0.0).astype(int)
    table = pd.DataFrame(big, columns=[f"c{j}" for j in range(8)]).assign(y=labels)
    for k in range(16):
        rows = slice(k * n // 16, (k + 1) * n // 16)
        table[rows].to_parquet(tmp_path / f"part-{k:02}.parquet")
    expected = fitted(big, labels)
    with cluster(n_workers=2, processes=True) as client:
        parts = dd.read_parquet(tmp_path / "part-*.parquet")
        stop, killed = threading.Event(), []

        def kill() -> None:
            while not stop.wait(1.0) and len(killed) < 3:
                workers = [w.pid for w in client.cluster.workers.values() if w.pid]
                if workers:
                    os.kill(workers[len(killed) % len(workers)], signal.SIGKILL)
                    killed.append(workers[0])

        thread = threading.Thread(target=kill)
        thread.start()
        try:
            found = fitted(parts[[f"c{j}" for j in range(8)]], parts["y"])
        finally:
            stop.set()
            thread.join()
    assert killed, "nobody was killed in time: make the table larger"
    assert np.abs(found - expected).max() < 1e-8
