"""Model files: `save` and `load` without pickle.

A model file is a zip archive with three members: ``model.json`` (format, class, public parameters,
guarantee) and ``coef.npy``, ``intercept.npy`` (plain float64 arrays). Nothing in it is executed.
`load` accepts known classes only and checks the guarantee against its own plan, the parameters and
the labels, so an edited epsilon is refused; a digest of all that is stored shows any other edit.
The ledger and the random state are not stored.

A small archive may claim any size, so sizes are compared before anything is unpacked: noise does
not compress, and an honest member is at most a few times as large as its packed form.
"""

import hashlib
import importlib
import io
import json
import math
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noisette import _files, _validate
from noisette._package import __version__
from noisette.core.adjacency import Adjacency
from noisette.core.guarantee import Guarantee
from noisette.errors import InvalidData, InvalidParameter, NoisetteError
from noisette.scores.measure import restored, stored

__all__ = ["FORMAT", "IN_FOLDER", "MODELS", "RECEIPT", "load", "save"]

FORMAT = 1
REGRESSORS = (
    "AdditiveRegressor", "HuberRegressor", "LinearRegression", "PoissonRegressor", "SGDRegressor",
    "TableRegressor",
)  # fmt: skip
MODELS = dict.fromkeys(
    ("LinearSVC", "LogisticRegression", "SGDClassifier", *REGRESSORS), "noisette.models"
)
MODELS |= dict.fromkeys(
    ("AdditiveClassifier", "AdditiveRegressor", "TableClassifier", "TableRegressor"),
    "noisette.tables.pipeline",
)
IN_FOLDER, RECEIPT = "model.noisette", "receipt.json"
"""The names of the model file and its receipt in a folder that ``noisette train`` wrote."""

_TEXT, _ARRAYS = "model.json", ("coef", "intercept")
_NOT_STORED = {"ledger", "random_state"}
_APART = {"schema", "pairs"}  # stored as what was learnt, not as it was handed in
_LATER = {"mechanism"}  # of a table, which files before 0.2 do not know
_INFINITE = "infinite"  # a radius may be; JSON has no such number
_RELEASED = ("residual_scale_", "clipped_share_")
_PAIRS = ("learning_rate", "regularization", "released")  # where they are pairs
_LARGEST, _LARGEST_HEADER = 1 << 32, 1 << 10  # bytes
_SMALL, _TIMES = 1 << 20, 20  # a member above _SMALL may be _TIMES as large as its packed form
_KINDS: dict[str, tuple[type[Any], tuple[type, ...]]] = {
    "bool": (np.bool_, (bool,)),
    "int": (np.int64, (int,)),
    "float": (np.float64, (float,)),
    "str": (np.str_, (str,)),
    "object": (object, (bool, int, float, str)),
}


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to `path`; the file appears whole or not at all.

    The ledger and the random state are not stored; the guarantee is.

    Parameters
    ----------
    model : classifier or regressor
        A fitted estimator of `noisette.linear`, or of `noisette.pipeline` for raw tables.
    path : str or path-like
        The file to write.

    Raises
    ------
    InvalidParameter
        If the model is of another class, not fitted, or changed since ``fit``.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn.datasets import make_classification
    >>> from noisette import LogisticRegression, load, save
    >>> X, y = make_classification(1000, 5, random_state=0)
    >>> path = Path(tempfile.mkdtemp()) / "risk.noisette"
    >>> save(LogisticRegression(epsilon=1.0, norm_bound=3.0, classes=[0, 1]).fit(X, y), path)
    >>> load(path).privacy_.epsilon
    1.0

    """
    name = type(model).__name__
    if name not in MODELS or not type(model).__module__.startswith(MODELS[name]):
        raise InvalidParameter(f"save stores {', '.join(MODELS)}; got an object of type {name}.")
    if not hasattr(model, "privacy_"):
        raise InvalidParameter(f"this {name} is not fitted; call fit before save.")
    arrays = {"coef": np.asarray(model.coef_), "intercept": np.asarray(model.intercept_)}
    given = {k: v for k, v in model.get_params(deep=False).items() if k not in _NOT_STORED}
    try:
        type(model)(**given)._check_public()
        _check(model, model.privacy_, arrays, facts=True)
    except NoisetteError:  # what `load` would refuse, in words about a file
        raise InvalidParameter(
            "the parameters of this model are not those it was fitted with, so its guarantee does "
            "not speak of them; fit it again, or set them back, before save."
        ) from None
    text = {
        "noisette_model": FORMAT,
        "version": __version__,
        "class": name,
        "parameters": {k: _plain(k, v) for k, v in given.items() if k not in _APART},
        "features": int(model.n_features_in_),
        "feature_names": list(map(str, getattr(model, "feature_names_in_", []))),
        "regularization": getattr(model, "regularization_", None),
        "weight_noise": getattr(model, "weight_noise_", None),
        "noise": model._bars.to_dict() if hasattr(model, "_bars") else None,
        "guarantee": model.privacy_.to_dict(),
    }
    if name in REGRESSORS:  # its limits, and what intervals need
        text["bounds"] = list(map(float, getattr(model, "target_bounds_", model.target_bounds)))
        held = getattr(model, "_covariance", None)
        text["spread"] = (
            None if held is None else {"covariance": held.tolist(), "variance": model._variance}
        )
        text["released"] = {k: float(getattr(model, k)) for k in _RELEASED if hasattr(model, k)}
    else:
        text["classes"] = _described(np.asarray(model.classes_))
    if hasattr(model, "schema_"):
        text["schema"] = model.schema_.source
        text["bars"] = {k: each.to_dict() for k, each in (model.bars_ or {}).items()} or None
        text["pairs"] = [pair.to_dict() for pair in model.pairs_]
    if hasattr(model, "test_"):
        text["test"] = stored(model.test_)
    text["seal"] = _seal(text, arrays)
    members = {_TEXT: json.dumps(text, indent=1, allow_nan=False).encode()}
    for key, array in arrays.items():
        buffer = io.BytesIO()
        np.lib.format.write_array(buffer, np.asarray(array, dtype=np.float64), allow_pickle=False)
        members[f"{key}.npy"] = buffer.getvalue()
    whole = io.BytesIO()  # a fault cannot leave an archive half-closed, and the disk waits once
    with zipfile.ZipFile(whole, "w") as archive:
        for member, content in members.items():
            # what is small is packed, the rest as it is: `_fits` never refuses an honest file
            packing = zipfile.ZIP_DEFLATED if len(content) <= _SMALL else zipfile.ZIP_STORED
            # the date of zip's first day: the hour would tell how long a search or training took
            archive.writestr(zipfile.ZipInfo(member), content, packing)
    _files.write(Path(path), whole.getvalue())


def _seal(text: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> str:
    """Return a digest of all that is stored: a note left out, or a seed denied, is an edit too.

    It has no secret, so it does not stop somebody who forges a file on purpose.
    """
    unsealed = {key: value for key, value in text.items() if key != "seal"}
    sealed = hashlib.sha256(json.dumps(unsealed, sort_keys=True).encode())
    for name in _ARRAYS:
        sealed.update(np.ascontiguousarray(arrays[name], dtype="<f8").tobytes())
    return sealed.hexdigest()


def _plain(key: str, value: Any) -> Any:
    """Return a parameter as JSON can hold it."""
    if isinstance(value, Adjacency):
        return value.value
    if key == "classes" and value is not None:
        return _described(np.asarray(value))
    if key == "target_bounds" and value is not None and not isinstance(value, str):
        return list(map(float, value))
    if key == "class_weight" and isinstance(value, Mapping):
        weights = [float(each) for each in value.values()]
        return {"labels": _described(np.asarray(list(value))), "weights": weights}
    if isinstance(value, np.generic):
        value = value.item()
    if key in _PAIRS and isinstance(value, tuple | list):
        return [_INFINITE if part == math.inf else _plain("", part) for part in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise InvalidParameter(f"the parameter {key} cannot be stored in a model file.")


def _described(labels: NDArray[Any]) -> dict[str, Any]:
    """Return labels as a list with their kind, so that they come back with the same type."""
    kinds = {"b": "bool", "i": "int", "u": "int", "f": "float", "U": "str", "O": "object"}
    kind, values = kinds.get(labels.dtype.kind), labels.tolist()
    if kind is None or not all(isinstance(each, bool | int | float | str) for each in values):
        raise InvalidParameter("labels must be numbers or texts to be stored in a model file.")
    return {"kind": kind, "values": values}


def _labels(node: Any) -> NDArray[Any]:
    """Return labels of the stated kind; a label of another kind is not converted but refused."""
    values = list(node["values"])
    kind, types = _KINDS[node["kind"]]
    _need({*map(type, values)} <= {*types})
    return np.array(values, dtype=kind)


def load(path: str | os.PathLike[str]) -> Any:
    """Return the model that `save` wrote to `path`, with its guarantee in ``privacy_``.

    `path` may also be a folder that ``noisette train`` wrote.

    Parameters
    ----------
    path : str or path-like
        The file or folder; nothing in it is executed.

    Returns
    -------
    estimator
        The fitted estimator, without a ledger.

    Raises
    ------
    InvalidData
        If it is no model file, is damaged, or was changed after it was saved.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn.datasets import make_classification
    >>> from noisette import LinearSVC, load, save
    >>> X, y = make_classification(1000, 5, random_state=0)
    >>> path = Path(tempfile.mkdtemp()) / "risk.noisette"
    >>> save(LinearSVC(epsilon=1.0, norm_bound=3.0, classes=[0, 1]).fit(X, y), path)
    >>> load(path).predict(X).shape
    (1000,)

    """
    place = Path(path)
    if place.is_dir():
        place = place / IN_FOLDER
        if not place.exists():
            raise InvalidData(f"{path} is not a model folder: it has no {IN_FOLDER}.")
    node, arrays = _read(place)
    with _files.understood("this model file lacks a field, or a field has the wrong type."):
        return _made(node, arrays)


def _made(node: dict[str, Any], arrays: dict[str, NDArray[np.float64]]) -> Any:
    """Return the model of a file, each part checked by itself and with the others."""
    if node.get("noisette_model") != FORMAT:
        raise InvalidData(
            f"this model file is not of format {FORMAT}; "
            "read it with the version of noisette that wrote it."
        )
    name = node.get("class")
    if not isinstance(name, str) or name not in MODELS:
        raise InvalidData(f"this model file holds no model of the kinds {', '.join(MODELS)}.")
    model, guarantee = _filled(name, node), Guarantee.from_dict(node["guarantee"])
    # another version may say the same in other words
    _check(model, guarantee, arrays, facts=node.get("version") == __version__)
    if node.get("seal") != _seal(node, arrays):
        raise InvalidData("this model file was changed after it was saved; use the original.")
    numbers, model.coef_, model.privacy_ = name in REGRESSORS, arrays["coef"], guarantee
    model.intercept_ = float(arrays["intercept"]) if numbers else arrays["intercept"]
    changed = "the {} in this model file do not fit its {}; it was changed."
    if node.get("noise") is not None:
        from noisette.models.noise_bars import read_noise_bars

        with _files.understood(changed.format("noise bars", "weights")):
            model._bars = read_noise_bars(node["noise"], model)
    if "test" in node:
        with _files.understood(changed.format("test scores", "model")):
            classes = None if numbers else model.classes_.tolist()
            model.test_ = restored(node["test"], classes, guarantee)
    return model


def _filled(name: str, node: dict[str, Any]) -> Any:
    """Return the estimator without its weights."""
    parameters = dict(node["parameters"])
    if name in ("PoissonRegressor", "SGDClassifier", "SGDRegressor"):
        parameters = _renamed(parameters)
    if isinstance(parameters.get("target_bounds"), list):
        parameters["target_bounds"] = tuple(parameters["target_bounds"])
    if parameters.get("classes") is not None:
        parameters["classes"] = _labels(parameters["classes"]).tolist()
    if isinstance(parameters.get("class_weight"), dict):
        weighed = parameters["class_weight"]
        labels, weights = _labels(weighed["labels"]).tolist(), weighed["weights"]
        parameters["class_weight"] = dict(zip(labels, weights, strict=True))
    kind = getattr(importlib.import_module(MODELS[name]), name)
    takes = kind().get_params(deep=False)
    of_table = "schema" in takes
    # Every one: of a parameter that is left out, the default would be taken for what was used. Only
    # tables get options over time, and None stands for what was done before there was the option.
    known = takes.keys() - _NOT_STORED - _APART
    later = {key for key in takes if takes[key] is None} | _LATER if of_table else set()
    _need(known - later <= parameters.keys() <= known)
    if of_table:
        parameters["schema"] = dict(node["schema"])
    for key in ("regularization", "clip_norm"):
        if isinstance(parameters.get(key), int | float):
            _positive(parameters[key], zero=key == "regularization")
    model = kind(**parameters)
    model._check_public()
    if name in REGRESSORS:
        _fill_numbers(model, node)
    else:
        model.classes_ = _labels(node["classes"])
    model.n_features_in_ = node["features"]
    names = list(node["feature_names"])
    _need({*map(type, names)} <= {str} and type(node["features"]) is int and node["features"] >= 1)
    if of_table:
        model._restore(parameters["schema"], node.get("bars"), node.get("pairs"))
        if "pairs" in takes and model.pairs_:
            model.pairs = [pair.columns for pair in model.pairs_]
    if names:
        model.feature_names_in_ = np.array(names, dtype=object)
    if name in ("LinearSVC", "LogisticRegression"):  # elsewhere lambda is a parameter, or private
        used, noise = node["regularization"], node.get("weight_noise")
        model.regularization_ = None if used is None else _positive(used)
        model.weight_noise_ = None if noise is None else _positive(noise)
    return model


def _renamed(parameters: dict[str, Any]) -> dict[str, Any]:
    """Return parameters in which what files of 0.1 have apart is one, as pairs."""
    apart = ("eta0", "radius", "averaging", "grouping", "verbose")
    old = {key: parameters.pop(key) for key in apart if key in parameters}
    if "eta0" in old:
        others = {
            "learning_rate": old["eta0"], "regularization": old["radius"],
            "released": {True: "mean", False: "last", "auto": "auto"}[old["averaging"]],
        }  # fmt: skip
        for key, other in others.items():
            if other != "auto":
                parameters[key] = [parameters[key], other]
    if old.get("grouping") == "batches":
        parameters["sampling"] = "levels"
    for key in _PAIRS:
        if isinstance(parameters.get(key), list):
            parameters[key] = tuple(math.inf if p == _INFINITE else p for p in parameters[key])
    return parameters


def _fill_numbers(model: Any, node: dict[str, Any]) -> None:
    """Give a regressor its limits, and what intervals need."""
    low, high = node["bounds"]
    _need(type(low) is type(high) is float and -math.inf < low < high < math.inf)
    if hasattr(model, "schema") or isinstance(model.target_bounds, str):
        model.target_bounds_ = (low, high)
    elif tuple(map(float, model.target_bounds)) != (low, high):
        raise InvalidData("the limits in this model file are not those of its parameters.")
    for key, value in dict(node["released"]).items():
        _need(key in _RELEASED and type(value) is float and math.isfinite(value))
        setattr(model, key, value)
    if node["spread"] is not None:
        covariance = np.array(node["spread"]["covariance"], dtype=np.float64)
        _need(covariance.ndim == 2 and covariance.shape[0] == covariance.shape[1])
        _need(bool(np.isfinite(covariance).all()))
        model._covariance, model._variance = covariance, _positive(node["spread"]["variance"])


def _positive(value: Any, *, zero: bool = False) -> float:
    _need(type(value) in (int, float) and 0.0 <= value < math.inf and (zero or value != 0.0))
    return float(value)


def _need(right: bool) -> None:
    """Refuse a file, which `_files.understood` says in a sentence."""
    if not right:
        raise TypeError


def _read(path: Path) -> tuple[dict[str, Any], dict[str, NDArray[np.float64]]]:
    """Return the JSON text and the arrays; every other content is refused."""
    with (
        _files.opened(path, most=_LARGEST) as file,
        _files.understood(f"{path} is not a model file of noisette, or it is damaged."),
        zipfile.ZipFile(file) as archive,
    ):
        wanted = [_TEXT, *(f"{name}.npy" for name in _ARRAYS)]
        _need(sorted(archive.namelist()) == sorted(wanted) and all(map(_fits, archive.infolist())))
        # with a number: `read()` alone unpacks all there is and only then looks at the claimed size
        with archive.open(_TEXT) as packed:
            text = _files.from_json(packed.read(archive.getinfo(_TEXT).file_size))
        _need(isinstance(text, dict))
        return text, {name: _array(archive, f"{name}.npy") for name in _ARRAYS}


def _fits(info: zipfile.ZipInfo) -> bool:
    """Whether a member is packed as `save` packs and claims no more than such a file can hold."""
    claimed = info.file_size
    small = claimed <= max(_SMALL, _TIMES * info.compress_size)
    readable = info.filename != _TEXT or claimed <= _files.LARGEST_TEXT
    known = info.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
    return known and small and readable


def _array(archive: zipfile.ZipFile, member: str) -> Any:
    """Return an array of numbers whose stated shape is that of its bytes; else TypeError."""
    with archive.open(member) as file:
        _need(np.lib.format.read_magic(file) == (1, 0))
        # Compared before anything is allocated: a header of a few bytes may claim terabytes.
        shape, _, kind = np.lib.format.read_array_header_1_0(file, _LARGEST_HEADER)
        payload = archive.getinfo(member).file_size - file.tell()
        _need(kind == np.float64 and 8 * math.prod(shape) == payload)
        file.seek(0)
        return np.lib.format.read_array(file, allow_pickle=False)


def _check(
    model: Any, guarantee: Guarantee, arrays: dict[str, NDArray[np.float64]], *, facts: bool
) -> None:
    """Refuse parts that contradict each other; with `facts`, also in their words."""
    numbers = type(model).__name__ in REGRESSORS
    labels, asked = getattr(model, "classes_", np.empty(0)), getattr(model, "classes", None)
    outputs = () if numbers else (1 if len(labels) == 2 else len(labels),)
    names = getattr(model, "feature_names_in_", range(model.n_features_in_))
    _validate.refuse(
        (
            guarantee.epsilon != model.epsilon
            or guarantee.delta not in (0.0, model.delta)
            or guarantee.adjacency is not Adjacency.of(model.adjacency),
            "the guarantee in this model file is not the one of its parameters; it was changed.",
        ),
        (
            _in_order(labels if asked is None else asked) != list(map(repr, labels.tolist())),
            "the labels in this model file are not those of its parameters.",
        ),
        (
            (not numbers and len(labels) < 2)
            or arrays["coef"].shape != (*outputs, getattr(model, "width_", model.n_features_in_))
            or arrays["intercept"].shape != outputs
            or any(a.dtype != np.float64 or not np.isfinite(a).all() for a in arrays.values())
            or len(names) != model.n_features_in_,
            "the weights in this model file do not fit its "
            f"{'features' if numbers else 'classes and features'}.",
        ),
        kind=InvalidData,
    )
    if not facts:
        return
    # Here, not above: whoever saves or loads needs scikit-learn, whoever imports this does not.
    from noisette.models.outputs import BOUGHT_TARGET, labels_fact, rows_fact, target_fact

    if numbers:
        bounds = getattr(model, "target_bounds_", model.target_bounds)
        told = [{target_fact(*map(float, bounds)), BOUGHT_TARGET}]
    else:
        told = [{labels_fact(model.classes_, given=given) for given in (True, False)}]
    if getattr(model, "norm_bound", None) is not None:
        told.append({rows_fact(model.norm_bound, model._intercept())})
    if guarantee.released != model._released or any(map(set(guarantee.public).isdisjoint, told)):
        raise InvalidData(
            "the guarantee in this model file speaks of another kind of model, of other labels or "
            "of another norm bound; it was changed."
        )


def _in_order(labels: Any) -> list[str]:
    """Return the labels as `fit` orders them, written so that 1, 1.0, True and "1" differ."""
    try:
        return list(map(repr, np.unique(np.asarray(labels)).tolist()))
    except TypeError:  # labels that cannot be compared
        return []
