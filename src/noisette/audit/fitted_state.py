"""Everything that a fitted model carries, as digests by path: what an attribute attack compares.

Public and private attributes, nested estimators, containers and arrays are opened; arrays are noted
as a whole and by entry, shape, type, zeros and missing entries, because a noisy array may have an
exact part. Skipped by rule: functions and classes, ledgers, permits and sources of randomness.

A label names the attribute for a reader and never shows a value or a key of a dictionary, which may
be somebody's word.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import types
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse

from noisette.core.door import NoiseStream
from noisette.core.ledger import Ledger
from noisette.core.permit import Permit
from noisette.core.randomness import Randomness

_FEW = 64
"""Arrays and lists up to this size are noted entry by entry as well."""

_SKIPPED = (
    types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.ModuleType, type,
    np.ufunc, Ledger, Permit, NoiseStream, Randomness, logging.Logger,
)  # fmt: skip
_SOURCES = ("random.", "numpy.random.")
"""Modules whose objects draw random numbers."""
_PLAIN = (type(None), bool, int, float, complex, str, bytes, np.generic)


class Note(NamedTuple):
    """A digest of one value, and the name that a reader knows it by."""

    label: str
    digest: bytes


State = dict[str, Note]


def fitted_state(model: Any) -> State:
    """Return the notes of a model by path."""
    walk = _Walk({})
    walk.visit(model, "", "", "")
    return walk.found


def _digest(*parts: Any) -> bytes:
    hashed = hashlib.blake2b(digest_size=16)
    for part in parts:
        raw = part if isinstance(part, bytes) else repr(part).encode("utf-8", "backslashreplace")
        hashed.update(len(raw).to_bytes(8, "little") + raw)
    return hashed.digest()


class _Walk:
    def __init__(self, opened: dict[int, Any]) -> None:
        self.found: State = {}
        self._open = dict(opened)  # keeps them alive, so that ids stay theirs

    def visit(self, value: Any, path: str, label: str, owner: str) -> None:
        """Note a value; `owner` is the label of the object that holds it."""
        if isinstance(value, np.ndarray) and value.dtype != object:
            self._array(value, path, label)
            return
        plain = isinstance(value, _PLAIN)
        drawing = f"{type(value).__module__}.".startswith(_SOURCES)
        if not plain and (isinstance(value, _SKIPPED) or drawing or id(value) in self._open):
            return
        self._note(f"{path}:kind", label, type(value).__qualname__)
        if plain:
            self._note(path, label, type(value).__name__, value)
        else:
            self._open[id(value)] = value
            self._opened(value, path, label, owner)

    def _note(self, path: str, label: str, *parts: Any) -> None:
        self.found[path] = Note(label or "the model itself", _digest(*parts))

    def _array(self, array: np.ndarray[Any, Any], path: str, label: str) -> None:
        self._note(f"{path}:shape", label, array.shape)
        self._note(f"{path}:dtype", label, str(array.dtype))
        if array.dtype.names:  # field by field: the bytes between them mean nothing
            for name in array.dtype.names:
                self._array(np.asarray(array[name]), f"{path}:{name}", label)
            return
        self._note(path, label, str(array.dtype), array.shape, array.tobytes())
        if array.dtype.kind in "fc":
            self._note(f"{path}:missing", label, np.isnan(array).tobytes())
        if array.dtype.kind in "biufc":
            self._note(f"{path}:zeros", label, (array == 0).tobytes())
        if array.size <= _FEW:
            for i, entry in enumerate(array.ravel()):
                self._note(f"{path}[{i}]", label, entry.tobytes())

    def _opened(self, value: Any, path: str, label: str, owner: str) -> None:
        if issparse(value):
            rows = value.tocsr(copy=True)
            rows.sum_duplicates()
            for name in ("data", "indices", "indptr"):
                self._array(getattr(rows, name), f"{path}:{name}", label)
            self._note(f"{path}:shape", label, value.shape)
        elif isinstance(value, np.ndarray):  # of objects
            self._note(f"{path}:shape", label, value.shape)
            self._items(list(value.ravel()), path, label, owner)
        elif hasattr(value, "detach") and hasattr(value, "numpy"):  # a tensor
            self._array(value.detach().cpu().numpy(), path, label)
        elif hasattr(value, "to_numpy"):  # a table, a column or an index of pandas
            self.visit(value.to_numpy(), f"{path}:values", label, owner)
            for name in ("index", "columns"):
                self.visit(np.asarray(getattr(value, name, ())), f"{path}:{name}", label, owner)
        elif isinstance(value, set | frozenset):
            self._note(path, label, *sorted(map(self._whole, value)))
        elif isinstance(value, Mapping):
            keys = {key: self._whole(key) for key in value}
            self._note(f"{path}:keys", label, *sorted(keys.values()))
            for key, inner in value.items():
                self.visit(inner, f"{path}[{keys[key].hex()}]", label, owner)
        elif isinstance(value, list | tuple):
            self._items(value, path, label, owner)
        else:
            self._object(value, path, label)

    def _items(self, items: Any, path: str, label: str, owner: str) -> None:
        self._note(f"{path}:length", label, len(items))
        if all(isinstance(each, _PLAIN) for each in items):
            self._note(path, label, *((type(each).__name__, each) for each in items))
            if len(items) > _FEW:
                return
        for i, item in enumerate(items):
            named = isinstance(item, tuple) and len(item) > 1 and isinstance(item[0], str)
            if named and (hasattr(item[1], "fit") or hasattr(item[1], "transform")):
                # a step of a pipeline, a part of a union: known by its name
                inner = f"{owner}.{item[0]}" if owner else item[0]
                self.visit(item[1], f"{path}[{i}]", inner, inner)
                self.visit(list(item[2:]), f"{path}[{i}]:more", inner, inner)
            else:
                plain = isinstance(item, _PLAIN)
                self.visit(item, f"{path}[{i}]", label if plain else f"{label}[{i}]", owner)

    def _whole(self, value: Any) -> bytes:
        """Return one digest of a value and everything in it that is not open already."""
        inner = _Walk(self._open)
        inner.visit(value, "", "", "")
        notes = inner.found
        return _digest(*(part for path in sorted(notes) for part in (path, notes[path].digest)))

    def _object(self, value: Any, path: str, label: str) -> None:
        if isinstance(value, functools.partial):
            self.visit([*value.args, *value.keywords.values()], f"{path}:given", label, label)
        state: Any = object.__getstate__(value)  # of slots as well, whatever its own class says
        own, slots = state if isinstance(state, tuple) else (state, None)
        held = {**(own or {}), **(slots or {})}
        for name, inner in held.items():
            self.visit(inner, f"{path}.{name}", f"{label}.{name}" if label else name, label)
        if not held:  # compiled classes keep their state where only a copy can see it
            try:
                _, *state = value.__reduce_ex__(2)
                parts = [list(x) if isinstance(x, Iterator) else x for x in state]
            except Exception:  # it cannot be copied, so nothing more can be seen
                return
            self.visit(parts, f"{path}:state", label, label)
