"""Step 5: one charge for one confirmation, a stop that says what it cost, nothing half-written."""

import html
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time

import pytest
from visitors import SECRET, Person, write_patients

from helpers import mistake, run
from noisette import Ledger
from noisette.app.studio import results as results_module
from noisette.app.studio import runs as runs_module
from noisette.app.studio.runs import Order, Runs, StartedTraining
from noisette.errors import InvalidParameter
from noisette.tables import read_model
from noisette.tables.drafts import draft_of

LINE = "noisette: progress: "


def pretend(monkeypatch, *lines, end="time.sleep(60)"):
    """Let a small program take the place of the training: it says `lines`, then does `end`."""
    said = "".join(f"print({line!r}, file=sys.stderr, flush=True)\n" for line in lines)
    code = f"import signal, sys, time\n{said}{end}"
    monkeypatch.setattr(
        runs_module, "noisette_command", lambda *arguments: [sys.executable, "-c", code]
    )


def until(condition, seconds=60.0):
    """Wait for what another process does."""
    stop = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < stop, "it did not come"
        time.sleep(0.02)


def order(folder, name="model"):
    return Order(("train",), folder / name, "p.ledger", "walk")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A real training, confirmed by eight requests at once."""
    folder = tmp_path_factory.mktemp("real")
    person = Person(folder).come_in()
    table = write_patients(folder / "سن patients.csv")
    person.walk_to_training(table, total_epsilon="100", total_delta="1e-3")  # room for a mistake
    walk, key = person.walk, person.order
    answers, start = [], threading.Barrier(8)

    def confirm():
        other = Person.__new__(Person)
        other.__dict__ = {**person.__dict__, "seen": []}
        start.wait()
        answers.append(other.post(f"w/{walk}/train", order=key).text)

    threads = [threading.Thread(target=confirm) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert person.runs.get(key).wait(300)
    yield person, walk, key, answers
    person.runs.close()


def test_eight_confirmations_at_once_are_one_charge(trained):
    person, _, key, answers = trained
    assert len(answers) == 8
    assert person.runs.get(key).state == "done", person.runs.get(key).sentence
    ledger = Ledger.open(person.folder / "p.ledger")
    assert ledger.count == 1
    assert ledger.spent == (2.0, 1e-6)
    assert [path.name for path in person.folder.iterdir() if path.is_dir()] == ["سن-patients-model"]
    assert all("The training is under way" in t or "A private model" in t for t in answers)


def test_reload_back_and_a_late_second_click_spend_nothing(trained):
    person, walk, key, _ = trained
    for page in (person.get(f"w/{walk}/train"), person.get(f"r/{key}"),
                 person.post(f"w/{walk}/train", order=key)):  # fmt: skip
        assert "A private model that predicts" in page.text
    assert Ledger.open(person.folder / "p.ledger").count == 1
    assert person.runs.running is None


def test_another_model_is_another_order_that_must_be_confirmed(trained, monkeypatch):
    person, walk, key, _ = trained
    refusal = "the ledger has too little left; nothing was charged."
    pretend(monkeypatch, f"{LINE}charging", f"{LINE}refused", f"noisette: {refusal}",
            end="sys.exit(2)")  # fmt: skip
    person.post(f"w/{walk}/again")
    assert "Train the model" in person.page.text
    assert "spends again" in person.page.text
    assert person.order != key
    assert Ledger.open(person.folder / "p.ledger").count == 1  # looking at it is free
    person.train()
    again = person.runs.of_walk(walk)[-1]
    assert again.wait(120)
    assert again.state == "failed"
    assert again.sentence == refusal
    assert again.charged is False
    assert "Nothing was charged, and nothing was written" in person.get(f"r/{again.order.key}").text
    assert Ledger.open(person.folder / "p.ledger").count == 1
    assert not (person.folder / "سن-patients-model-2").exists()


def test_the_result_has_everything_to_hand_over(trained):
    person, _, key, _ = trained
    text = person.get(f"r/{key}").text
    assert "ε = 2" in text
    for name in ("model.noisette", "guarantee.json", "report.html", "schema.toml", "card.json"):
        answer = person.get(f"r/{key}/files/{name}")
        assert answer.status_code == 200
        assert "attachment" in answer.headers["content-disposition"]
        assert len(answer.content) > 200
    report = person.get(f"r/{key}/report")
    assert "script-src" not in report.headers["content-security-policy"]
    assert "default-src 'none'" in report.headers["content-security-policy"]
    assert report.text == (person.folder / "سن-patients-model" / "report.html").read_text()
    for name in ("p.ledger", "..%2fp.ledger", "patients.csv"):
        assert person.get(f"r/{key}/files/{name}").status_code != 200
    fitted = read_model(person.folder / "سن-patients-model")
    assert fitted.guarantee.epsilon == 2.0


def test_a_new_table_is_predicted(trained):
    person, _, key, _ = trained
    write_patients(person.folder / "new.csv", n=40, seed=1)
    person.post(f"r/{key}/predict", path="new.csv")
    assert "new-predictions.csv" in person.page.text
    lines = person.get(f"r/{key}/files/new-predictions.csv").text.splitlines()
    assert lines[0].split(",")[0] == "predicted ill"
    assert "yes" in lines[0]  # and the probability of each label: a rare one is never the likelier
    assert len(lines) == 41
    assert SECRET not in "".join(lines)


def test_a_table_that_cannot_be_predicted_is_one_sentence(trained, monkeypatch):
    person, _, key, _ = trained
    person.post(f"r/{key}/predict", path="gone.csv")
    assert "there is no table" in person.error
    said = "print('noisette: the table has no column', file=sys.stderr); sys.exit(2)"
    monkeypatch.setattr(
        results_module, "noisette_command", lambda *_: [sys.executable, "-c", f"import sys; {said}"]
    )
    person.post(f"r/{key}/predict", path="سن patients.csv")
    assert person.error == "the table has no column"
    assert "A private model that predicts" in person.page.text
    crash = f"raise ValueError('{SECRET}')"
    monkeypatch.setattr(
        results_module, "noisette_command", lambda *_: [sys.executable, "-c", crash]
    )
    person.post(f"r/{key}/predict", path="سن patients.csv")
    assert person.error == "nothing was predicted."
    assert SECRET not in person.page.text


def test_a_model_of_an_earlier_studio_is_opened_again(trained):
    folder, name = trained[0].folder, "سن-patients-model"
    later = Person(folder).come_in()
    assert "Or look at a model again" in later.page.text
    later.post("model", model=name)
    assert "A private model that predicts" in later.page.text
    key = later.page.url.path.rsplit("/", 1)[1]
    assert later.get(f"r/{key}/report").text == (folder / name / "report.html").read_text()
    assert later.get(f"r/{key}/files/guarantee.json").status_code == 200
    write_patients(folder / "later.csv", n=20, seed=1)
    later.post(f"r/{key}/predict", path="later.csv")
    assert "later-predictions.csv" in later.page.text
    assert later.post(f"r/{key}/stop").status_code == 422  # there is nothing to stop
    assert Ledger.open(folder / "p.ledger").count == 1
    for other in ("..", "../elsewhere", "/etc", "", f"{name}/../{name}"):
        later.post("model", model=other)
        assert "no such model" in later.error


def test_a_folder_with_a_broken_model_is_one_sentence(person, tmp_path):
    (tmp_path / "m").mkdir()
    for name in ("model.noisette", "report.html", "schema.toml"):
        (tmp_path / "m" / name).write_bytes(b"no model")
    person.post("model", model="m")
    assert "That is not possible" in person.page.text


def test_what_is_shown_is_what_is_run(trained):
    person, _, key, _ = trained
    arguments = person.runs.get(key).order.arguments
    shown = next(text for text in person.seen if "Train the model" in text)
    assert arguments[:2] == ("train", str(person.folder / "سن patients.csv"))
    assert shlex.join(["noisette", *arguments]) in html.unescape(shown)


def test_a_page_that_is_out_of_date_starts_nothing(person, patients, monkeypatch):
    pretend(monkeypatch)
    person.walk_to_training(patients)
    walk, old = person.walk, person.order
    person.post(f"w/{walk}/budget", epsilon="1", delta="1e-6", rows="2500", test="no")
    person.take_ledger(choice="open", open="p.ledger")
    assert person.order != old
    person.post(f"w/{walk}/train", order=old)
    assert "nothing was started and nothing was charged" in person.error
    assert person.runs.running is None


def test_an_order_is_carried_out_once_and_found_again_after_its_end(tmp_path, monkeypatch):
    book = tmp_path / "starts"
    pretend(monkeypatch, end=f"open({str(book)!r}, 'a').write('started ')")
    found, wanted, got = Runs(), order(tmp_path), []
    threads = [threading.Thread(target=lambda: got.append(found.start(wanted))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got[0].wait(30)
    got.append(found.start(wanted))
    assert len(got) == 9
    assert len(set(map(id, got))) == 1
    assert book.read_text() == "started "


def test_two_trainings_at_once_are_refused(tmp_path, monkeypatch):
    pretend(monkeypatch, f"{LINE}reading")
    found = Runs()
    first = found.start(order(tmp_path))
    with pytest.raises(InvalidParameter, match="another training is under way"):
        found.start(order(tmp_path, "other"))
    found.close()
    assert first.wait(30)
    second = found.start(order(tmp_path, "other"))
    assert second is not first
    found.close()


@pytest.mark.parametrize(
    ("lines", "charged", "said"),
    [
        ((), False, "nothing was written and nothing was charged"),
        ((f"{LINE}reading",), False, "nothing was written and nothing was charged"),
        ((f"{LINE}reading", f"{LINE}charging"), None, "p.ledger may have been charged"),
        ((f"{LINE}charging", f"{LINE}charged"), True, "p.ledger was charged and a charge is never"),
        ((f"{LINE}charging", f"{LINE}refused"), False, "nothing was charged"),
    ],
)
def test_a_stop_says_what_it_cost(tmp_path, monkeypatch, lines, charged, said):
    """Also where the process ends without a word."""
    pretend(monkeypatch, *lines, f"{LINE}4711", "Traceback: somebody's cell")
    found = Runs()
    one = found.start(order(tmp_path))
    last = lines[-1].removeprefix(LINE) if lines else "starting"
    until(lambda: last in (one.step, "refused") and (not lines or one.step != "starting"))
    until(lambda: one.charged is charged)
    one.stop()
    assert one.wait(30)
    assert one.state == "stopped"
    assert one.charged is charged
    assert said in one.sentence
    assert "4711" not in one.sentence + one.step + one.warning
    assert "cell" not in one.sentence


def test_a_training_that_does_not_react_is_ended_hard(tmp_path, monkeypatch):
    deaf = "signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    said = "print('noisette: progress: writing', file=sys.stderr, flush=True)"
    pretend(monkeypatch, f"{LINE}charged", end=f"{deaf}\n{said}\ntime.sleep(60)")
    monkeypatch.setattr(runs_module, "_HARD_AFTER", 0.2)
    one = Runs().start(order(tmp_path))
    until(lambda: one.step == "writing")
    one.stop()
    assert one.wait(30)
    assert "was charged" in one.sentence


def test_a_model_that_a_killed_training_left_is_shown(tmp_path, monkeypatch, trained):
    """It was forgotten, and the next training deleted it."""
    person, _, key, _ = trained
    with draft_of(tmp_path / "model") as draft:
        shutil.copytree(person.runs.get(key).order.out, draft.new)
        left = draft.path.rename(tmp_path / "elsewhere")
    left.rename(draft.path)
    pretend(monkeypatch, f"{LINE}charged", f"{LINE}writing", end="sys.exit(9)")
    one = StartedTraining(order(tmp_path), ends_with_page=False)
    assert one.wait(30)
    assert (one.state, one.charged) == ("done", True)
    assert "ended early" in one.warning
    assert read_model(tmp_path / "model").guarantee.epsilon > 0.0


@pytest.mark.parametrize(("place", "state"), [("model", "done"), ("model-2", "failed")])
def test_a_training_that_ended_when_its_model_stood(tmp_path, monkeypatch, place, state):
    said = f"noisette: stopped; the result is whole, in {tmp_path / place}, and p was charged."
    pretend(monkeypatch, f"{LINE}charged", said, end="sys.exit(3)")
    one = StartedTraining(order(tmp_path), ends_with_page=False)
    assert one.wait(30)
    assert one.state == state
    assert str(tmp_path / place) in one.warning + one.sentence


@pytest.mark.parametrize("ends", [True, False])
def test_a_closed_page_ends_the_training_only_if_chosen(tmp_path, monkeypatch, ends):
    pretend(monkeypatch, f"{LINE}reading")
    monkeypatch.setattr(runs_module, "_CLOSED_AFTER", 0.1)
    found = Runs()
    one = found.start(order(tmp_path), ends_with_page=ends)
    assert one.wait(4.0 if not ends else 30.0) is ends
    found.close()
    assert one.state == "stopped"


def test_a_folder_that_is_taken_or_gone_is_one_sentence(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "thesis.txt").write_text("mine")
    with pytest.raises(InvalidParameter, match="not empty"):
        Runs().start(order(tmp_path))
    with pytest.raises(InvalidParameter, match="does not exist"):
        Runs().start(order(tmp_path / "nowhere"))


def test_the_page_of_a_training_shows_steps_and_can_stop_it(person, patients, monkeypatch):
    pretend(
        monkeypatch, f"{LINE}reading", f"{LINE}training", "noisette: warning: From public facts"
    )
    person.walk_to_training(patients)
    person.train(closed="stop")
    one = person.runs.running
    until(lambda: one.step == "training" and one.warning)
    part = person.get(f"r/{one.order.key}/progress")
    assert "preparing the plan" in part.text
    assert "Nothing is charged yet" in part.text
    assert "HX-Refresh" not in part.headers
    assert "no model" in person.get(f"r/{one.order.key}/report").text
    person.post(f"r/{one.order.key}/stop")
    assert "The training was stopped" in person.page.text
    assert person.get(f"r/{one.order.key}/progress").headers["HX-Refresh"] == "true"
    assert Ledger.open(person.folder / "p.ledger").count == 0


def test_progress_lines_of_train_name_steps_only(tmp_path):
    table = write_patients(tmp_path / "t.csv", n=1500)
    facts = tmp_path / "f.toml"
    facts.write_text('target = "ill"\nclasses = ["no", "yes"]\nunit = "one row is one person"\n'
                     '[columns.patient_id]\nkind = "ignore"\n[columns.ward]\nkind = "ignore"\n'
                     '[columns.age]\nkind = "numeric"\nlow = 0\nhigh = 110\n')  # fmt: skip
    common = ("train", table, "--schema", facts, "--epsilon", 2, "--progress")
    _, err = run(*common, "--out", tmp_path / "m")
    steps = [line.removeprefix(LINE) for line in err.splitlines() if line.startswith(LINE)]
    assert steps == ["reading", "training", "charging", "charged", "writing"]
    Ledger.open(tmp_path / "small.ledger", 1.0)
    said = run(*common, "--out", tmp_path / "n", "--ledger", tmp_path / "small.ledger", code=2)[1]
    assert f"{LINE}refused" in said
    assert "--class-weight is for labels" in mistake(
        "train", table, "--epsilon", 1, "--class-weight", "balanced", "--out", tmp_path / "k",
        "--schema", _number_schema(tmp_path),
    )  # fmt: skip


def _number_schema(folder):
    path = folder / "number.toml"
    path.write_text('target = { name = "age", kind = "numeric", low = 0, high = 110 }\n'
                    'unit = "one row is one person"\n[columns.ward]\nkind = "categorical"\n'
                    'categories = ["a", "b"]\n')  # fmt: skip
    return path


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_real_training_is_stopped(tmp_path, when):
    """Before the charge nothing is spent; after it the charge stays; nothing is half-written."""
    person = Person(tmp_path).come_in()
    rows = 400_000 if when == "after" else 2500
    person.walk_to_training(write_patients(tmp_path / "patients.csv", n=rows))
    person.train()
    one = person.runs.running
    if when == "after":
        until(lambda: one.charged, 120.0)
    person.post(f"r/{one.order.key}/stop")
    assert one.wait(60)
    assert one.state == "stopped"
    charged = when == "after"
    assert Ledger.open(tmp_path / "p.ledger").count == charged
    assert one.charged is charged
    assert ("was charged and a charge is never returned" in one.sentence) is charged
    assert ("nothing was charged" in one.sentence) is not charged
    assert not any(path.is_dir() for path in tmp_path.iterdir())  # no model, no draft


def test_a_killed_studio_ends_its_training_politely(tmp_path):
    """The whole program: SIGTERM to the studio while a (pretended) training runs."""
    code = (
        "import sys, threading, time, pathlib\n"
        "from noisette.app.studio import runs, server, app\n"
        "runs.noisette_command = lambda *a: [sys.executable, '-c', 'import time; time.sleep(60)']\n"
        "real = app.application\n"
        "def with_training(folder, keys, host):\n"
        "    found = real(folder, keys, host)\n"
        "    order = runs.Order(('train',), folder / 'm', 'p.ledger', 'w')\n"
        "    one = found[1].start(order)\n"
        "    print('pid', one._process.pid, flush=True)\n"
        "    return found\n"
        "app.application = with_training\n"
        f"server.serve(pathlib.Path({str(tmp_path)!r}), browser=False,\n"
        "             say=lambda words: print(words, flush=True))\n"
    )
    studio = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    try:
        assert studio.stdout.readline().startswith("http://127.0.0.1:")
        child = int(studio.stdout.readline().split()[1])
        time.sleep(1.0)
        studio.send_signal(signal.SIGTERM)
        rest = studio.communicate(timeout=60)[0]
    finally:
        studio.kill()
    assert "nothing was written and nothing was charged" in rest
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)
