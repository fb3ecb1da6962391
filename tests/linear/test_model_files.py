"""Model files: whole or not at all, nothing executed, nothing edited."""

import io
import json
import os
import pickle
import struct
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression as Plain

from noisette.core.ledger import Ledger
from noisette.errors import InvalidData, InvalidParameter, NoisetteError
from noisette.models import LinearSVC, LogisticRegression, SGDClassifier, SGDRegressor
from noisette.models import files as model_files
from noisette.models.files import load, save

RNG = np.random.default_rng(2)
X = RNG.standard_normal((200, 3))


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    model = LogisticRegression(
        0.5, classes=["no", "yes"], ledger=Ledger(1.0), random_state=7, norm_bound=1.0
    )
    model.fit(pd.DataFrame(X, columns=["a", "b", "c"]), np.where(X[:, 0] > 0, "yes", "no"))
    save(model, tmp_path / "model.noisette")
    return tmp_path / "model.noisette"


MODELS = [
    (LogisticRegression(norm_bound=1.0), np.arange(200) % 2),
    (LogisticRegression(delta=1e-6, adjacency="zero-out", norm_bound=np.float64(2.0)), X[:, 0] > 0),
    (LogisticRegression(whiten=0.1, delta=1e-6, norm_bound=1.0), np.arange(200) % 2),
    (LogisticRegression(classes=np.array([3, 1, 2]), norm_bound=1.0), np.arange(200) % 3 + 1),
    (LogisticRegression(multi_class="ovr", norm_bound=1.0),
     np.array([*"abc"], dtype=object)[np.arange(200) % 3]),
    (LinearSVC(loss="hinge", norm_bound=1.0), (np.arange(200) % 2).astype(float)),
    (LinearSVC(adjacency="add-remove", population=300, norm_bound=1.0), np.arange(200) % 2),
]  # fmt: skip


@pytest.mark.parametrize(("model", "y"), MODELS, ids=lambda value: str(value)[:60])
def test_round_trip(model: Any, y: Any, tmp_path: Path) -> None:
    model.fit(X, y)
    save(model, tmp_path / "model")
    back = load(tmp_path / "model")
    assert type(back) is type(model)
    assert np.array_equal(back.coef_, model.coef_)
    assert np.array_equal(back.decision_function(X), model.decision_function(X))
    assert np.array_equal(back.predict(X), model.predict(X))
    assert back.classes_.dtype.kind == model.classes_.dtype.kind
    assert back.privacy_ == model.privacy_
    assert back.regularization_ == model.regularization_
    assert sorted(os.listdir(tmp_path)) == ["model"]
    back.fit(X, y)  # a full estimator, with a budget of its own
    assert vars(back).keys() == vars(model).keys()


def test_ledger_and_seed_stay_at_home(saved: Path) -> None:
    back = load(saved)
    assert back.ledger is None
    assert back.random_state is None
    assert back.privacy_.seeded
    assert list(back.feature_names_in_) == ["a", "b", "c"]
    content = zipfile.ZipFile(saved).read("model.json").decode()
    assert '"ledger"' not in content
    assert "random_state" not in content


@pytest.mark.parametrize("change", [{"epsilon": 3.0}, {"delta": 1e-7}, {"adjacency": "zero-out"}])
def test_a_model_whose_parameters_were_changed_is_not_saved(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(500, 40)), rng.integers(0, 2, 500)
    model = LogisticRegression(2.0, 1e-6, classes=[0, 1], norm_bound=1.0).fit(X, y)
    save(model, tmp_path / "good")
    model.set_params(**change)
    with pytest.raises(InvalidParameter, match="not those it was fitted with"):
        save(model, tmp_path / "bad")
    assert [path.name for path in tmp_path.iterdir()] == ["good"]


def edited(path: Path, change: Callable[[dict[str, Any]], None], *, sealed: bool = False) -> Path:
    """Write a copy of the file in which `change` edited the JSON text; `sealed` forges the seal."""
    arrays = model_files._read(path)[1]
    out = path.with_suffix(".edited")
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(out, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name == "model.json":
                node = json.loads(content)
                change(node)
                if sealed:
                    node["seal"] = model_files._seal(node, arrays)
                content = json.dumps(node).encode()
            new.writestr(name, content)
    return out


def set_in(*keys: str, to: Any) -> Callable[[dict[str, Any]], None]:
    def change(node: dict[str, Any]) -> None:
        for key in keys[:-1]:
            node = node[key]
        node[keys[-1]] = to

    return change


def both_smaller(node: dict[str, Any]) -> None:
    node["guarantee"]["epsilon"] = node["parameters"]["epsilon"] = 0.05


def as_svc(node: dict[str, Any]) -> None:
    node["class"] = "LinearSVC"
    node["parameters"]["loss"] = "softplus"


def another_version_with_another_bound(node: dict[str, Any]) -> None:
    node["version"], node["parameters"]["norm_bound"] = "0.0.1", 2.0


def other_labels(node: dict[str, Any]) -> None:
    node["classes"]["values"] = node["parameters"]["classes"]["values"] = ["ja", "nein"]


EDITS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "smaller epsilon": set_in("guarantee", "epsilon", to=0.1),
    "larger epsilon": set_in("guarantee", "epsilon", to=2.0),
    "other epsilon asked": set_in("parameters", "epsilon", to=0.1),
    "both smaller": both_smaller,
    "delta": set_in("guarantee", "delta", to=1e-3),
    "relation": set_in("guarantee", "adjacency", to="zero-out"),
    "format": set_in("noisette_model", to=2),
    "format text": set_in("noisette_model", to="1"),
    "class": set_in("class", to="os.system"),
    "class type": set_in("class", to=["LogisticRegression"]),
    "parameter": set_in("parameters", "magic", to=1),
    "ledger": set_in("parameters", "ledger", to="file"),
    "no guarantee": set_in("guarantee", to=None),
    "plan": set_in("guarantee", "plan", to={"plan": "run"}),
    "features": set_in("features", to=4),
    "features type": set_in("features", to="many"),
    "classes": set_in("classes", "values", to=["no", "yes", "maybe"]),
    "nested classes": set_in("classes", "values", to=[["no"], ["yes"]]),
    "kind": set_in("classes", "kind", to="pickle"),
    "names": set_in("feature_names", to=["a"]),
    "names type": set_in("feature_names", to=[1, 2, 3]),
    "features as a fraction": set_in("features", to=3.0),
    "negative norm bound": set_in("parameters", "norm_bound", to=-1),
    "another norm bound": set_in("parameters", "norm_bound", to=2.0),
    "norm bound as a text": set_in("parameters", "norm_bound", to="1"),
    "mechanism": set_in("parameters", "mechanism", to="none"),
    "a list as a parameter": set_in("parameters", "whiten", to=[False]),
    "parameter left out": lambda node: node["parameters"].pop("mechanism"),
    "negative regularization": set_in("parameters", "regularization", to=-1.0),
    "negative lambda": set_in("regularization", to=-1.0),
    "lambda that is no number": set_in("regularization", to=float("nan")),
    "another class": set_in("class", to="LinearSVC"),
    "another class with its parameters": as_svc,
    "labels as numbers": set_in("classes", to={"kind": "int", "values": [0, 1]}),
    "numbers as texts": set_in("classes", "values", to=[0, 1]),
    "labels in another order": set_in("classes", "values", to=["yes", "no"]),
    "other labels": set_in("classes", "values", to=["false", "true"]),
    "other labels everywhere": other_labels,
    "another version and norm bound": another_version_with_another_bound,
    "a seed that is denied": set_in("guarantee", "seeded", to=False),
    "a note left out": lambda node: node["guarantee"]["notes"].pop(0),
    "a theorem left out": lambda node: node["guarantee"]["proofs"].pop(0),
    "another statement": set_in("guarantee", "statement", to="Nothing can be learned."),
    "another lambda": set_in("regularization", to=7.0),
    "no seal": lambda node: node.pop("seal"),
    "the same label twice": set_in("classes", "values", to=["yes", "yes"]),
}


@pytest.mark.parametrize("name", EDITS)
def test_an_edited_file_is_refused_in_one_sentence(saved: Path, name: str) -> None:
    with pytest.raises(NoisetteError) as error:
        load(edited(saved, EDITS[name]))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("values", [["0", "1"], [0.0, 1.0], [False, True], [0.5, 1.5]])
@pytest.mark.parametrize("kind", ["int", "str", "bool", "float"])
def test_labels_are_not_converted(saved: Path, kind: str, values: list[Any]) -> None:
    """Labels that stand in the file as another kind than the stated one are refused."""

    def change(node: dict[str, Any]) -> None:
        node["parameters"]["classes"] = None
        node["classes"] = {"kind": kind, "values": values}
        fact = f"the set of labels ({', '.join(map(str, values))}), as given"
        node["guarantee"]["public"].append(fact)

    path = edited(saved, change, sealed=True)
    if kind == {str: "str", float: "float", bool: "bool"}[type(values[0])]:
        assert load(path).classes_.tolist() == values
    else:
        with pytest.raises(InvalidData, match="wrong type"):
            load(path)


@pytest.mark.parametrize(
    "changed",
    [
        {"epsilon": 0.1},
        {"norm_bound": 2.0},
        {"norm_bound": -1.0},
        {"adjacency": "zero-out"},
        {"classes": ["a", "b"]},
    ],
)
def test_nothing_is_saved_that_would_not_load(tmp_path: Path, changed: dict[str, Any]) -> None:
    model = (
        LogisticRegression(classes=[0, 1], norm_bound=1.0)
        .fit(X, np.arange(200) % 2)
        .set_params(**changed)
    )
    with pytest.raises(InvalidParameter, match="not those it was fitted with"):
        save(model, tmp_path / "model")
    assert not os.listdir(tmp_path)


def test_a_pickled_model_has_no_ledger_and_is_saved(tmp_path: Path) -> None:
    model = LogisticRegression(ledger=Ledger(1.0), norm_bound=1.0).fit(X, np.arange(200) % 2)
    save(pickle.loads(pickle.dumps(model)), tmp_path / "model")
    assert load(tmp_path / "model").privacy_ == model.privacy_


def test_a_folder_of_the_command_line_is_loaded(saved: Path, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(InvalidData, match=r"is not a model folder: it has no model\.noisette"):
        load(folder)
    saved.rename(folder / "model.noisette")
    assert np.array_equal(load(folder).coef_, load(folder / "model.noisette").coef_)
    assert load(str(folder)).epsilon == 0.5


def test_unedited_copies_load(saved: Path) -> None:
    assert load(edited(saved, lambda node: None)).epsilon == 0.5


def test_other_files_are_refused(saved: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    content = saved.read_bytes()
    buffer = io.BytesIO()
    np.save(buffer, np.array([{}], dtype=object), allow_pickle=True)
    for wrong in (b"", b"text", pickle.dumps({"a": 1}), content[: len(content) // 2]):
        other.write_bytes(wrong)
        with pytest.raises(InvalidData, match="not a model file"):
            load(other)
    with zipfile.ZipFile(saved) as old, zipfile.ZipFile(other, "w") as new:
        for name in old.namelist():
            new.writestr(name, buffer.getvalue() if name == "coef.npy" else old.read(name))
    with pytest.raises(InvalidData, match="not a model file"):
        load(other)
    with zipfile.ZipFile(other, "w") as new:
        new.writestr("model.json", "{}")
        new.writestr("run.py", "print()")
    with pytest.raises(InvalidData, match="not a model file"):
        load(other)
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "absent")


def exchanged(path: Path, name: str, content: bytes) -> Path:
    """Write a copy of the file with another member `name`."""
    out = path.with_suffix(".exchanged")
    with (
        zipfile.ZipFile(path) as old,
        zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for each in old.namelist():
            new.writestr(each, content if each == name else old.read(each))
    return out


def test_claims_of_terabytes_are_not_believed(saved: Path) -> None:
    buffer = io.BytesIO()
    header = {"descr": "<f8", "fortran_order": False, "shape": (10**13,)}
    np.lib.format.write_array_header_1_0(buffer, header)
    with pytest.raises(InvalidData, match="not a model file"):
        load(exchanged(saved, "coef.npy", buffer.getvalue()))


def bomb(path: Path, member: str, size: int, claimed: int | None = None) -> Path:
    """Write a copy whose `member` is packed zeros behind a true header; it may claim fewer."""
    buffer = io.BytesIO()
    shape = (1, size // 8)
    header = {"descr": "<f8", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(buffer, header)
    content = buffer.getvalue() + bytes(8 * shape[1])
    if member == "model.json":
        content = b" " * size + zipfile.ZipFile(path).read(member)
    out = exchanged(path, member, content)
    if claimed is not None:  # in the member's own head and in the directory at the end
        data = out.read_bytes()
        told, lie = struct.pack("<L", len(content)), struct.pack("<L", claimed)
        assert data.count(told) >= 2
        out.write_bytes(data.replace(told, lie))
    return out


def peak_of(path: Path) -> int:
    """Return the most memory that Python held while a file was refused."""
    tracemalloc.start()
    try:
        with pytest.raises(InvalidData, match="not a model file"):
            load(path)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("claimed", [None, 152])
@pytest.mark.parametrize("member", ["coef.npy", "intercept.npy", "model.json"])
def test_a_small_file_does_not_take_much_memory(
    saved: Path, member: str, claimed: int | None
) -> None:
    """64 MB of zeros in 64 kB, stated truly or as a few bytes, are not unpacked."""
    small = bomb(saved, member, 1 << 26, claimed)
    assert small.stat().st_size < 1 << 17
    assert peak_of(small) < 1 << 22


def test_what_compresses_well_is_still_a_model(tmp_path: Path) -> None:
    """Honest weights may repeat and names may be alike: what `save` wrote, `load` takes."""
    names = [f"column={j:06d}" for j in range(150_000)]
    model = LogisticRegression(classes=[0, 1], fit_intercept=False, norm_bound=1.0)
    few = pd.DataFrame(np.zeros((20, 2)), columns=names[:2])
    model.fit(few, np.arange(20) % 2)
    model.coef_ = np.zeros((1, len(names)))
    model.n_features_in_, model.feature_names_in_ = len(names), np.array(names, dtype=object)
    save(model, tmp_path / "model")
    assert list(load(tmp_path / "model").feature_names_in_) == names


def test_a_damaged_file_is_one_sentence_wherever_the_damage_is(saved: Path, tmp_path: Path) -> None:
    content, other = saved.read_bytes(), tmp_path / "other"
    refused = 0
    for place in range(0, len(content), 7):
        other.write_bytes(content[:place] + bytes([content[place] ^ 0x5A]) + content[place + 1 :])
        try:
            load(other)  # a byte that nobody reads, such as a date, may change
        except NoisetteError:
            refused += 1
    assert refused > len(content) // 7 // 2


def test_a_failed_save_leaves_the_old_file(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = saved.read_bytes()

    def fail(*_: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(model_files.os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        save(load(saved), saved)
    assert saved.read_bytes() == before
    assert os.listdir(saved.parent) == [saved.name]


def test_only_fitted_models_of_noisette_are_saved(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match="not fitted"):
        save(LogisticRegression(norm_bound=1.0), tmp_path / "model")
    with pytest.raises(InvalidParameter, match="save stores"):
        save(Plain().fit(X, np.arange(200) % 2), tmp_path / "model")
    with pytest.raises(InvalidParameter, match="save stores"):
        save({"coef_": 1}, tmp_path / "model")
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_sgd_models_are_stored_too(tmp_path: Path, delta: float) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 3))
    y = (X[:, 0] > 0).astype(int)
    model = SGDClassifier(epsilon=2.0, delta=delta, norm_bound=2.0, classes=[0, 1]).fit(X, y)
    save(model, tmp_path / "model.npz")
    again = load(tmp_path / "model.npz")
    assert isinstance(again, SGDClassifier)
    assert np.array_equal(again.predict(X), model.predict(X))
    assert again.privacy_ == model.privacy_


def test_a_radius_without_end_is_stored(tmp_path: Path) -> None:
    model = SGDClassifier(
        2.0, regularization=(1e-4, np.inf), learning_rate=("constant", 0.1), classes=[0, 1],
        norm_bound=1.0, released=("all", "last"),
    ).fit(X, np.arange(200) % 2)  # fmt: skip
    save(model, tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.get_params() == model.get_params()
    assert again.regularization == (1e-4, np.inf)


@pytest.mark.parametrize("key", ["learning_rate", "clip_norm", "regularization", "epochs"])
def test_numbers_of_sgd_are_checked(tmp_path: Path, key: str) -> None:
    save(
        SGDClassifier(2.0, classes=[0, 1], norm_bound=1.0).fit(X, np.arange(200) % 2),
        tmp_path / "model",
    )
    with pytest.raises(NoisetteError):
        load(edited(tmp_path / "model", set_in("parameters", key, to=-1.0)))


OLD = {"eta0": "auto", "radius": "auto", "averaging": "auto", "grouping": "scale", "verbose": 0}


@pytest.mark.parametrize(
    ("old", "now"),
    [
        ({}, {}),
        ({"eta0": 0.5}, {"learning_rate": ("auto", 0.5)}),
        ({"radius": "infinite"}, {"regularization": (1e-4, np.inf)}),
        ({"averaging": False, "verbose": 1}, {"released": ("all", "last")}),
        ({"averaging": True}, {"released": ("all", "mean")}),
        ({"grouping": "batches"}, {"sampling": "levels"}),
    ],
)
def test_parameters_that_older_files_have_apart(
    tmp_path: Path, old: dict[str, object], now: dict[str, object]
) -> None:
    model = SGDClassifier(2.0, classes=[0, 1], norm_bound=1.0).fit(X, np.arange(200) % 2)
    save(model, tmp_path / "model")

    def older(node: dict[str, Any]) -> None:
        node["parameters"] |= OLD | old

    again = load(edited(tmp_path / "model", older, sealed=True))
    assert again.get_params() == model.get_params() | now
    assert np.array_equal(again.coef_, model.coef_)


@pytest.mark.parametrize("name", OLD)
def test_a_name_that_is_gone_says_what_stands_in_its_place(name: str) -> None:
    for kind in (SGDClassifier, SGDRegressor):
        with pytest.raises(InvalidParameter, match=f"{name} is no parameter; .*[(=]"):
            kind(1.0, **{name: 1})
        with pytest.raises(InvalidParameter, match=f"{name} is no parameter; .*[(=]"):
            kind(1.0).set_params(**{name: 1})
