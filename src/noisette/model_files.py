"""Model files: `save` and `load` without pickle.

A model file is a zip archive with three members: ``model.json`` (format, class, public parameters,
guarantee) and ``coef.npy``, ``intercept.npy`` (plain float64 arrays). Nothing in it is executed.
`load` accepts known classes only and checks the guarantee against its own plan and against the
parameters, so an edited epsilon is refused. The ledger and the random state are not stored.
"""

import contextlib
import importlib
import io
import json
import math
import os
import struct
import tempfile
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noisette._version import __version__
from noisette.adjacency import Adjacency
from noisette.errors import InvalidData, InvalidParameter, NoisetteError
from noisette.guarantee import Guarantee

__all__ = ["FORMAT", "MODELS", "load", "save"]

FORMAT = 1
MODELS = dict.fromkeys(("LinearSVC", "LogisticRegression", "SGDClassifier"), "noisette.linear")

_TEXT, _ARRAYS = "model.json", ("coef", "intercept")
_NOT_STORED = {"ledger", "random_state"}
_LARGEST_TEXT, _LARGEST_ARRAY = 1 << 24, 1 << 30  # bytes; a small archive may claim any size
# Not a zip, not JSON, not plain arrays, or damaged (OSError: a place outside of the file).
_DAMAGE = (
    zipfile.BadZipFile, zlib.error, struct.error, ValueError, EOFError, RuntimeError, OSError,
)  # fmt: skip
_PACKED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_KINDS = {"bool": np.bool_, "int": np.int64, "float": np.float64, "str": np.str_, "object": object}


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to `path`; the file appears whole or not at all."""
    name = type(model).__name__
    if MODELS.get(name) is None or not type(model).__module__.startswith(MODELS[name]):
        raise InvalidParameter(f"save stores {', '.join(MODELS)}; got an object of type {name}.")
    if not hasattr(model, "privacy_"):
        raise InvalidParameter(f"this {name} is not fitted; call fit before save.")
    if not _is_promise_of(model.privacy_, model):
        raise InvalidParameter(
            f"epsilon, delta or adjacency of this {name} was changed after fit, so its parameters "
            "contradict its guarantee; set them back, or fit again, before save."
        )
    parameters = {
        key: _plain(key, value)
        for key, value in model.get_params(deep=False).items()
        if key not in _NOT_STORED
    }
    text = {
        "noisette_model": FORMAT,
        "version": __version__,
        "class": name,
        "parameters": parameters,
        "classes": _described(np.asarray(model.classes_)),
        "features": int(model.n_features_in_),
        "feature_names": [str(each) for each in getattr(model, "feature_names_in_", [])],
        "regularization": getattr(model, "regularization_", None),
        "guarantee": model.privacy_.to_dict(),
    }
    _write(
        Path(path),
        json.dumps(text, indent=1, allow_nan=False),
        {"coef": model.coef_, "intercept": model.intercept_},
    )


def _write(path: Path, text: str, arrays: dict[str, NDArray[Any]]) -> None:
    """Write through a temporary file in the same folder and rename it."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
                archive.writestr(_TEXT, text)
                for name, array in arrays.items():
                    buffer = io.BytesIO()
                    np.lib.format.write_array(
                        buffer, np.asarray(array, dtype=np.float64), allow_pickle=False
                    )
                    archive.writestr(f"{name}.npy", buffer.getvalue())
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _plain(key: str, value: Any) -> Any:
    """Return a parameter as JSON can hold it."""
    if isinstance(value, Adjacency):
        return value.value
    if key == "classes" and value is not None:
        return _described(np.asarray(value))
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise InvalidParameter(f"the parameter {key} cannot be stored in a model file.")


def _described(labels: NDArray[Any]) -> dict[str, Any]:
    """Return labels as a list with their kind, so that they come back with the same type."""
    kind = {"b": "bool", "i": "int", "u": "int", "f": "float", "U": "str", "O": "object"}.get(
        labels.dtype.kind
    )
    values = labels.tolist()
    if kind is None or not all(isinstance(each, bool | int | float | str) for each in values):
        raise InvalidParameter("labels must be numbers or texts to be stored in a model file.")
    return {"kind": kind, "values": values}


def _labels(node: Any) -> NDArray[Any]:
    values = list(node["values"])
    if not all(isinstance(each, bool | int | float | str) for each in values):
        raise TypeError
    return np.array(values, dtype=_KINDS[node["kind"]])


def load(path: str | os.PathLike[str]) -> Any:
    """Return the model that `save` wrote to `path`, with its guarantee in ``privacy_``."""
    node, arrays = _read(Path(path))
    if node.get("noisette_model") != FORMAT:
        raise InvalidData(
            f"this model file is not of format {FORMAT}; "
            "read it with the version of noisette that wrote it."
        )
    name = node.get("class")
    if not isinstance(name, str) or name not in MODELS:
        raise InvalidData(f"this model file holds no model of the kinds {', '.join(MODELS)}.")
    try:
        model, guarantee = _rebuilt(name, node)
    except NoisetteError:
        raise
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError):
        model = None
    if model is None:
        raise InvalidData("this model file lacks a field, or a field has the wrong type.")
    _check(model, guarantee, arrays)
    model.coef_, model.intercept_ = arrays["coef"], arrays["intercept"]
    model.privacy_ = guarantee
    return model


def _rebuilt(name: str, node: dict[str, Any]) -> tuple[Any, Guarantee]:
    parameters = dict(node["parameters"])
    if _NOT_STORED & parameters.keys():
        raise TypeError
    if parameters["classes"] is not None:
        parameters["classes"] = _labels(parameters["classes"]).tolist()
    model = getattr(importlib.import_module(MODELS[name]), name)(**parameters)
    model.classes_ = _labels(node["classes"])
    model.n_features_in_ = int(node["features"])
    names = list(node["feature_names"])
    if names:
        model.feature_names_in_ = np.array([str(each) for each in names], dtype=object)
    if name != "SGDClassifier":  # whose lambda is a parameter
        known = node["regularization"]
        model.regularization_ = None if known is None else float(known)
    return model, Guarantee.from_dict(node["guarantee"])


def _read(path: Path) -> tuple[dict[str, Any], dict[str, NDArray[np.float64]]]:
    """Return the JSON text and the arrays; every other content is refused."""
    content: tuple[Any, dict[str, NDArray[np.float64]]] | None = None
    with path.open("rb") as file, contextlib.suppress(*_DAMAGE), zipfile.ZipFile(file) as archive:
        wanted = {_TEXT, *(f"{name}.npy" for name in _ARRAYS)}
        listed = archive.namelist()
        usual = all(info.compress_type in _PACKED for info in archive.infolist())
        if set(listed) == wanted and len(listed) == len(wanted) and usual:
            small = archive.getinfo(_TEXT).file_size <= _LARGEST_TEXT
            text = json.loads(archive.read(_TEXT)) if small else None
            content = text, {name: _array(archive, f"{name}.npy") for name in _ARRAYS}
    if content is None or not isinstance(content[0], dict):
        raise InvalidData(f"{path} is not a model file of noisette, or it is damaged.")
    return content


def _array(archive: zipfile.ZipFile, member: str) -> NDArray[np.float64]:
    """Return an array of numbers whose stated shape is that of its bytes; else ValueError."""
    if archive.getinfo(member).file_size > _LARGEST_ARRAY:
        raise ValueError
    data = archive.read(member)
    buffer = io.BytesIO(data)
    if np.lib.format.read_magic(buffer) != (1, 0):
        raise ValueError
    # Compared before anything is allocated: a header of a few bytes may claim terabytes.
    shape, _, kind = np.lib.format.read_array_header_1_0(buffer)
    if kind != np.float64 or 8 * math.prod(shape) != len(data) - buffer.tell():
        raise ValueError
    found: NDArray[np.float64] = np.lib.format.read_array(io.BytesIO(data), allow_pickle=False)
    return found


def _is_promise_of(guarantee: Guarantee, model: Any) -> bool:
    """Whether the guarantee is for the epsilon, delta and adjacency of the model's parameters."""
    return (
        guarantee.epsilon == model.epsilon
        and guarantee.delta in (0.0, model.delta)
        and guarantee.adjacency is Adjacency.of(model.adjacency)
    )


def _check(model: Any, guarantee: Guarantee, arrays: dict[str, NDArray[np.float64]]) -> None:
    """Refuse parts that contradict each other."""
    if not _is_promise_of(guarantee, model):
        raise InvalidData(
            "the guarantee in this model file is not the one of its parameters; it was changed."
        )
    classes = len(model.classes_)
    outputs = 1 if classes == 2 else classes
    fits = (
        classes >= 2
        and arrays["coef"].shape == (outputs, model.n_features_in_)
        and arrays["intercept"].shape == (outputs,)
        and all(array.dtype == np.float64 for array in arrays.values())
        and all(bool(np.isfinite(array).all()) for array in arrays.values())
        and len(getattr(model, "feature_names_in_", range(model.n_features_in_)))
        == model.n_features_in_
    )
    if not fits:
        raise InvalidData("the weights in this model file do not fit its classes and features.")
