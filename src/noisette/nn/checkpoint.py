"""Checkpoints: the released state of a run in one file, written whole or not at all.

A checkpoint holds weights, the optimizer's state and public facts. It holds no noise, no batch,
no key and nothing that was computed from a record, not even a digest: a resumed run draws afresh,
under what is left of the charge it already paid.
"""

import copy
import pickletools
import zipfile
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from noisette import _validate
from noisette._files import opened, understood, written
from noisette.errors import InvalidParameter
from noisette.nn.clipping import Clipping

FORMAT = 3

_PARTS: dict[str, Any] = {
    "module": dict, "optimizer": dict, "average": dict | None, "clipping": dict, "charge": int,
    "steps": int, "seeded": bool, "facts": dict,
}  # fmt: skip


class Average:
    """Mean of the iterates: of the second half with "tail", exponential with a decay."""

    def __init__(self, kind: str | float, parameters: list[nn.Parameter], steps: int) -> None:
        if isinstance(kind, str):
            _validate.choice("averaging", kind, ("tail",))
        elif not 0.0 < _validate.real("averaging", kind) < 1.0:
            raise InvalidParameter(
                f"averaging must be None, 'tail' or a decay in (0, 1); got {kind!r}."
            )
        self._kind, self._parameters, self._steps = kind, parameters, steps
        self._values: list[Tensor] = [p.detach().clone() for p in parameters]
        self._count = 0

    def take(self, step: int) -> None:
        """Add the iterate after `step` steps."""
        if self._kind == "tail" and 2 * step <= self._steps:
            return
        self._count += 1
        # A plain mean until the window is full, so that the start does not linger.
        window = 0.0 if isinstance(self._kind, str) else 1.0 - self._kind
        weight = max(window, 1.0 / self._count)
        with torch.no_grad():
            for mean, parameter in zip(self._values, self._parameters, strict=True):
                mean.lerp_(parameter, weight)

    def load(self) -> None:
        """Put the average into the module."""
        if self._count:
            with torch.no_grad():
                for mean, parameter in zip(self._values, self._parameters, strict=True):
                    parameter.copy_(mean)

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint keeps."""
        return {"values": self._values, "count": self._count}

    def restore(self, state: dict[str, Any]) -> None:
        """Take up what `state` gave."""
        self._count = int(state["count"])
        for mean, value in zip(self._values, state["values"], strict=True):
            mean.copy_(value)


class Moving(NamedTuple):
    """The moving parts of a run: what its steps change, all of it released."""

    module: nn.Module
    optimizer: torch.optim.Optimizer
    average: Average | None
    clipping: Clipping

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint holds beside public facts."""
        return {
            "module": self.module.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "average": None if self.average is None else self.average.state(),
            "clipping": self.clipping._state(),
        }

    def check(self, path: Path, state: dict[str, Any]) -> None:
        """Raise unless `take_up` will succeed; nothing is changed."""
        with understood(f"{path} belongs to another module or optimizer.", InvalidParameter):
            sizes = [len(part["params"]) for part in state["optimizer"]["param_groups"]]
            if (
                _shapes(state["module"]) != _shapes(self.module.state_dict())
                or not isinstance(state["optimizer"]["state"], dict)
                or sizes != [len(part["params"]) for part in self.optimizer.param_groups]
            ):
                raise ValueError
        with understood(f"{path} belongs to another clipping rule or average.", InvalidParameter):
            copy.deepcopy(self.clipping)._restore(state["clipping"])
            if self.average is not None and state["average"] is not None:
                self.average.restore(state["average"])  # nobody has seen this average yet

    def take_up(self, path: Path | None, state: dict[str, Any]) -> None:
        """Put the weights, the optimizer and the clip norm to where they were in `state`."""
        with understood(f"{path} belongs to another module or optimizer.", InvalidParameter):
            self.module.load_state_dict(state["module"])
            self.optimizer.load_state_dict(state["optimizer"])
        self.clipping._restore(state["clipping"])


def _shapes(state: dict[str, Any]) -> dict[str, Any]:
    return {name: getattr(value, "shape", None) for name, value in state.items()}


def prepare(path: Path, state: dict[str, Any]) -> None:
    """Raise if such a checkpoint cannot be written there: to be known before a charge."""
    try:
        _write(path, state, stay=False)
    except OSError as error:
        raise InvalidParameter(
            f"the checkpoint {path} cannot be written: {error.strerror or error}."
        ) from None


def write(path: Path, state: dict[str, Any]) -> None:
    """Write `state`; a kill leaves the old file as it was."""
    _write(path, state, stay=True)


def _write(path: Path, state: dict[str, Any], *, stay: bool) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # NumPy's numbers (a learning rate, say) as Python's: `read` takes no others.
    plain = tree_map(lambda x: x.item() if isinstance(x, np.generic) else x, state)
    with written(path, stay=stay) as file:
        torch.save({"noisette_checkpoint": FORMAT, **plain}, file)


def read(path: Path) -> dict[str, Any]:
    """Return what `write` wrote; nothing in the file is executed."""
    wrong = f"{path} cannot be read as a checkpoint of noisette."
    with understood(wrong, InvalidParameter), opened(path) as file:
        with zipfile.ZipFile(file) as archive:  # as torch.save writes it: nothing swells
            if any(each.compress_type != zipfile.ZIP_STORED for each in archive.infolist()):
                raise ValueError
            pickles = [archive.read(n) for n in archive.namelist() if n.endswith("data.pkl")]
        for code, name, _ in chain.from_iterable(map(pickletools.genops, pickles)):
            # Endless names of classes: torch takes hours to say that it does not know one.
            if code.name in ("GLOBAL", "INST") and len(str(name)) > 200:
                raise ValueError
        file.seek(0)
        loaded = torch.load(file, weights_only=True)
    state: dict[str, Any] = loaded if isinstance(loaded, dict) else {}
    form = state.pop("noisette_checkpoint", None)
    _validate.refuse(
        (form == 2,
         f"{path} is of an earlier version, which kept no public facts to compare a resumed run "
         "with; finish it there, or begin again with another file."),
        (form != FORMAT, f"{path} is not a checkpoint of noisette, format {FORMAT}."),
        (not all(isinstance(state.get(name, ...), kind) for name, kind in _PARTS.items()),
         f"{path} is damaged; begin again with another file."),
    )  # fmt: skip
    return state


def same_run(path: Path, state: dict[str, Any], facts: dict[str, Any], *, seeded: bool) -> None:
    """Raise unless the checkpoint is that of a run with these public facts."""
    # proof: RESUME
    if state["seeded"] != seeded:
        raise InvalidParameter(
            "the run began with another kind of random_state; resume it with the same one."
        )
    for name in (*facts, *(state["facts"].keys() - facts.keys())):
        if name not in facts or state["facts"].get(name, ...) != facts[name]:
            raise InvalidParameter(
                f"{path} holds a run with other public facts ({name}) than this one, and was "
                "charged for those; resume it with the same, or begin a new run with another file."
            )
