"""The frame of the reproductions: resumable, parallel, the same numbers every time."""

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from benchmarks.real import MissingData
from noisette.errors import InvalidParameter, MissingExtra
from reproductions import EXPERIMENTS, experiment, figures, page, runner
from reproductions.__main__ import main
from reproductions.base import Claim, Experiment, Figure, Table
from reproductions.runner import WorkerLost


def draw(points: Table) -> Any:
    canvas, axes = figures.canvas(1, 2)
    for number, panel in enumerate(axes[0]):
        figures.errorbars(panel, points, "x", "measured", number)
        figures.band(panel, points, "x", "band", 1)
    axes[0, 0].set_title("at: 0.00123; half")
    figures.log_axis(axes[0, 1], "y", (1.0, 5.0))
    figures.legend_below(canvas, axes)
    return canvas


class Squares(Experiment):
    name, title, source, version = "squares", "Squares", "Pythagoras", 1

    def tasks(self, quick: bool) -> list[dict[str, Any]]:
        return [{"x": x, "seed": s} for x in range(1, 3 if quick else 6) for s in range(2)]

    @staticmethod
    def run(task: dict[str, Any]) -> Any:
        log = os.environ.get("SQUARES_LOG")
        if log:
            with Path(log).open("a") as file:
                file.write(f"{task['x']},{task['seed']},{os.getpid()}\n")
        if os.environ.get("SQUARES_FAIL") == str(task["x"]):
            raise MissingData("no such data.")
        if os.environ.get("SQUARES_DIE") == str(task["x"]):
            os._exit(9)
        time.sleep(float(os.environ.get("SQUARES_SLEEP", "0")))
        return [
            {"y": float(task["x"] ** 2 + task["seed"]), "threads": os.environ["OMP_NUM_THREADS"]}
        ]

    def figures(self, table: Table) -> list[Figure]:
        return [Figure("growth", "**Growth.** By x.", table.summary("y", by=["x"]), draw)]

    def claims(self, table: Table) -> list[Claim]:
        mean = table.mean("y", x=2)
        return [
            Claim("p. 1", "squares | grow", f"{mean:g}", mean > 4.0, "above 4"),
            Claim("p. 2", "they fall", f"{mean:g}", mean < 4.0, "below 4", "they grow"),
        ]


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def test_a_rerun_skips_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, results = tmp_path / "log", tmp_path / "out" / "results.jsonl"
    monkeypatch.setenv("SQUARES_LOG", str(log))
    seen: list[tuple[int, int]] = []
    first, _ = runner.collect(
        Squares(), results, quick=True, jobs=1, progress=lambda *now: seen.append(now)
    )
    assert seen == [(k, 4) for k in range(5)]
    assert len(lines(log)) == 4
    again, _ = runner.collect(Squares(), results, quick=True, jobs=1)
    assert len(lines(log)) == 4
    assert again.rows == first.rows
    full, _ = runner.collect(Squares(), results, quick=False, jobs=1)
    assert len(lines(log)) == 10  # the quick run's tasks are not repeated
    assert full.column("y").tolist() == [x**2 + s for x in range(1, 6) for s in range(2)]


def test_another_version_is_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, results = tmp_path / "log", tmp_path / "results.jsonl"
    monkeypatch.setenv("SQUARES_LOG", str(log))
    runner.collect(Squares(), results, quick=True, jobs=1)
    monkeypatch.setattr(Squares, "version", 2)
    runner.collect(Squares(), results, quick=True, jobs=1)
    assert len(lines(log)) == 8


@pytest.mark.parametrize("cut", [1, 7, 60])
def test_a_line_cut_by_a_kill_is_repeated(tmp_path: Path, cut: int) -> None:
    results = tmp_path / "results.jsonl"
    whole, _ = runner.collect(Squares(), results, quick=True, jobs=1)
    text = results.read_bytes()
    results.write_bytes(text[:-cut])  # 1: only the end of the line is missing, the record is whole
    table, _ = runner.collect(Squares(), results, quick=True, jobs=1)
    assert table.rows == whole.rows
    parsed = [json.loads(line) for line in lines(results) if line.endswith("}")]
    assert {entry["key"] for entry in parsed} == {
        runner.key_of(Squares(), task) for task in Squares().tasks(True)
    }


def test_workers_give_the_same_table_with_one_thread_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"
    monkeypatch.setenv("SQUARES_LOG", str(log))
    monkeypatch.setenv("SQUARES_SLEEP", "0.3")
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    many, _ = runner.collect(Squares(), tmp_path / "a.jsonl", jobs=2)
    pids = {line.split(",")[2] for line in lines(log)}
    assert len(pids) == 2
    assert str(os.getpid()) not in pids
    assert set(many.column("threads")) == {"1"}
    assert os.environ["OMP_NUM_THREADS"] == "7"
    monkeypatch.setenv("SQUARES_SLEEP", "0")
    one, _ = runner.collect(Squares(), tmp_path / "b.jsonl", jobs=1)
    assert one.rows == many.rows


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_error_in_a_task_keeps_what_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jobs: int
) -> None:
    results = tmp_path / "results.jsonl"
    monkeypatch.setenv("SQUARES_FAIL", "5")
    with pytest.raises(MissingData, match="no such data"):
        runner.collect(Squares(), results, jobs=jobs)
    assert len(lines(results)) >= (8 if jobs == 1 else 1)
    monkeypatch.delenv("SQUARES_FAIL")
    table, _ = runner.collect(Squares(), results, jobs=1)
    assert len(table) == 10


def test_a_killed_worker_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SQUARES_DIE", "5")
    with pytest.raises(WorkerLost, match="run the same command again"):
        runner.collect(Squares(), tmp_path / "results.jsonl", jobs=2)


_SCRIPT = """
import sys
sys.path[:0] = [{folder!r}, {root!r}]
from pathlib import Path
from test_framework import Squares
from reproductions import runner
if __name__ == "__main__":
    try:
        runner.collect(Squares(), Path({results!r}), jobs=2)
    except KeyboardInterrupt:
        print("stopped")
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_stopped_run_goes_on_and_leaves_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: signal.Signals
) -> None:
    log, results = tmp_path / "log", tmp_path / "results.jsonl"
    script = tmp_path / "go.py"
    folder, root = str(Path(__file__).parent), str(Path(__file__).parents[2])
    script.write_text(_SCRIPT.format(folder=folder, root=root, results=str(results)))
    environment = {**os.environ, "SQUARES_LOG": str(log), "SQUARES_SLEEP": "1.5"}
    child = subprocess.Popen(
        [sys.executable, str(script)], env=environment, stdout=subprocess.PIPE, text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    deadline = time.monotonic() + 60
    while len(lines(results)) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    child.send_signal(how)
    shown, _ = child.communicate(timeout=30)
    assert ("stopped" in shown) == (how is signal.SIGINT)
    done = len(lines(results))
    assert 2 <= done < 10
    workers = {int(line.split(",")[2]) for line in lines(log)}
    assert workers
    deadline = time.monotonic() + 20
    while any(_alive(pid) for pid in workers) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(_alive(pid) for pid in workers)
    log.unlink()
    monkeypatch.setenv("SQUARES_LOG", str(log))
    table, _ = runner.collect(Squares(), results, jobs=1)
    assert len(lines(log)) == 10 - done
    assert len(table) == 10


def _alive(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rsplit(")", 1)[1].split()[0] != "Z"  # a zombie has ended


def test_tasks_must_be_plain(tmp_path: Path) -> None:
    class Odd(Squares):
        def tasks(self, quick: bool) -> list[dict[str, Any]]:
            return [{"x": object()}]

    with pytest.raises(InvalidParameter, match="strings, numbers"):
        runner.collect(Odd(), tmp_path / "r.jsonl", jobs=1)
    with pytest.raises(InvalidParameter, match="jobs must be a whole number >= 1; got 0"):
        runner.collect(Squares(), tmp_path / "r.jsonl", jobs=0)


def test_missing_data_are_told_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Squares, "needs", ("mnist",))
    with pytest.raises(MissingData, match="mnist"):
        runner.collect(Squares(), tmp_path / "out" / "r.jsonl", jobs=1, data_home=tmp_path)
    assert not (tmp_path / "out").exists()


def test_the_page_has_every_number_claim_and_figure(tmp_path: Path) -> None:
    chosen = Squares()
    table, seconds = runner.collect(chosen, tmp_path / "squares" / "results.jsonl", jobs=1)
    written = page.publish(chosen, table, tmp_path, quick=False, tasks=10, seconds=seconds)
    text = written.read_text()
    assert "1 of 2 claims hold" in text
    assert "| p. 1 | squares \\| grow | 4.5 | above 4 | **holds** |" in text
    assert "| **does not hold**, because they grow |" in text
    assert "(squares/growth.png)" in text
    with (tmp_path / "squares" / "growth.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["mean"]) for row in rows] == [x**2 + 0.5 for x in range(1, 6)]
    assert (tmp_path / "squares" / "growth.png").read_bytes()[:4] == b"\x89PNG"
    svg = (tmp_path / "squares" / "growth.svg").read_text()
    texts = [part.text for part in ElementTree.fromstring(svg).iter() if part.tag.endswith("text")]
    assert "at: 0.00123; half" in texts  # letters, not outlines, and only coordinates are rounded
    assert {"1", "5", "10"} <= set(texts)
    assert not re.search(r'(?: d|x|y)="[^"]*\.\d{3}', svg)
    page.publish(chosen, table, tmp_path, quick=False, tasks=10, seconds=seconds)
    assert (tmp_path / "squares" / "growth.svg").read_text() == svg


def test_without_matplotlib_it_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtra, match=r"pip install 'noisette\[plot\]'"):
        figures.require_matplotlib()


def test_tables_answer() -> None:
    table = Table([{"a": k % 2, "b": float(k)} for k in range(6)])
    assert table.where(a=1).column("b").tolist() == [1.0, 3.0, 5.0]
    assert table.where(a=[0, 1], b=(2.0, 3.0)).column("b").tolist() == [2.0, 3.0]
    assert len(table.where(missing=1)) == 0
    assert table.distinct("a") == [0, 1]
    assert table.mean("b", a=1) == 3.0
    assert table.sd("b", a=1) == 2.0
    assert table.mean("b", a=7) != table.mean("b", a=7)  # nobody there: NaN
    grouped = table.summary("b", by=["a"]).rows
    assert grouped[1] == {"a": 1, "mean": 3.0, "sd": 2.0, "median": 3.0, "count": 3}


def test_looks_differ_without_colour() -> None:
    looks = [figures.look(number) for number in range(7)]
    assert len({look["color"] for look in looks}) == 7
    assert len({look["marker"] for look in looks}) == 7


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_registered_experiment_is_whole(name: str) -> None:
    chosen = experiment(name)
    assert chosen.name == name
    assert chosen.title
    assert chosen.source
    for quick in (True, False):
        tasks = chosen.tasks(quick)
        keys = [runner.key_of(chosen, task) for task in tasks]
        assert len(set(keys)) == len(keys) > 0
        assert json.loads(json.dumps(tasks)) == tasks
    assert len(chosen.tasks(True)) <= len(chosen.tasks(False))


def test_the_command_line_lists_and_explains() -> None:
    for option, told in (("--list", list(EXPERIMENTS)), ("--help", ["Example"])):
        shown = subprocess.run(
            [sys.executable, "-m", "reproductions", option],
            capture_output=True, text=True, check=True, timeout=60,
        )  # fmt: skip
        assert all(word in shown.stdout for word in told)


def test_the_command_line_refuses_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    home, out = str(tmp_path), str(tmp_path / "o")
    for arguments, told in (
        ([], "name a paper: song2013"),
        (["nonsense"], "NAME must be one of"),
        (["song2013", "--jobs", "0"], "--jobs must be a whole number >= 1; got 0"),
        (["song2013", "--out", str(tmp_path / "file")], "--out must be a folder"),
        (["song2013", "--data-home", str(tmp_path / "no")], "there is no folder"),
        (["song2013", "--data-home", home, "--out", out], "mnist"),
    ):
        monkeypatch.setattr(sys, "argv", ["reproductions", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 2, arguments
        shown = capsys.readouterr().err
        assert shown.startswith("reproductions: ")
        assert told in shown
    assert not (tmp_path / "o").exists()


def test_ctrl_c_says_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*arguments: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "collect", interrupted)
    monkeypatch.setattr(sys, "argv", ["reproductions", "song2013", "--out", str(tmp_path / "o")])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130
    assert "run the same command again to go on." in capsys.readouterr().err
