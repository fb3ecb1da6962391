"""Make the certificate: ``python -m noisette.nn.gradients.certify`` tries torch's own operators.

Every function of torch's `op_db` is run under vmap on torch's own sample inputs, with its gradient;
what arrives at vmap's rules on the way is noted: ATen operators with their arguments. Then each of
those calls is made anew for three records, every set of its tensors with and without a record axis,
the axis at every place, and compared with a loop over the records: results, gradients, and whether
another record changes anything. An operator is certified if there was no difference, ever.
"""

import argparse
import hashlib
import itertools
import json
import sys
import unittest
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch._C import _functorch
from torch.utils._pytree import tree_flatten, tree_unflatten

from noisette import _files
from noisette.nn.gradients.operators import RELEASE, certificate_file, operator, reached, replace

RECORDS = 3
_CALLS = 16  # for each operator, with different shapes, types or settings
_ENTRIES = 1 << 14  # of all tensors of a call: larger ones take minutes
_SAMPLES = 16  # of each function and type of number
_CLOSE = {torch.float64: 1e-7, torch.complex128: 1e-7}
_UNSET = ("empty", "new_empty")  # what they return has no values yet
# They name memory, not entries; or, by lstsq's driver gelsy, give other last bits each time.
_NEVER = ("as_strided", "set_", "resize", "_resize", "linalg_lstsq")
_TYPES = (torch.float64, torch.float32, torch.int64, torch.bool, torch.complex128)


class Call(NamedTuple):
    """An operator's arguments for one record: leaves and how they are put together."""

    leaves: list[Any]
    spec: Any

    @property
    def places(self) -> list[int]:
        """Say which leaves are tensors."""
        return [i for i, x in enumerate(self.leaves) if isinstance(x, Tensor)]

    def run(self, op: Any, values: list[Any]) -> list[Tensor]:
        """Return the tensors that the operator returns for these leaves."""
        args, kwargs = tree_unflatten(values, self.spec)
        return [x for x in tree_flatten(op(*args, **kwargs))[0] if isinstance(x, Tensor)]


Notes = dict[str, dict[str, Call]]


# --- what arrives at vmap's rules ----------------------------------------------------------------


def _of_one(x: Tensor) -> Tensor:
    """Return the first record of what vmap hands out, in the layout that the rule sees."""
    if _functorch.is_batchedtensor(x):
        x = _functorch.get_unwrapped(x).select(_functorch.maybe_get_bdim(x), 0)
    return x.detach().clone()


@contextmanager
def _noting(notes: Notes) -> Iterator[None]:
    """Note every call that arrives at a rule of vmap inside the block."""

    def note(name: str, original: Any, args: Any, kwargs: Any) -> Any:
        calls = notes.setdefault(name, {})
        with suppress(Exception):
            given, spec = tree_flatten((args, kwargs))
            call = Call([_of_one(x) if isinstance(x, Tensor) else x for x in given], spec)
            told = [
                (tuple(x.shape), x.stride(), x.dtype) if isinstance(x, Tensor) else x
                for x in call.leaves
            ]
            if sum(call.leaves[i].numel() for i in call.places) <= _ENTRIES:
                calls.setdefault(repr(told), call)
            if len(calls) > 16 * _CALLS:
                calls.pop(next(iter(calls)))
        return original(*args, **kwargs)

    library = torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call]
    for name in reached():
        replace(name, partial(note, name), library)
    try:
        yield
    finally:
        library._destroy()  # type: ignore[no-untyped-call]


def noted(only: Callable[[str], bool] = lambda name: True) -> Notes:
    """Return what arrives at the rules of vmap while torch's sample inputs run."""
    torch._C._functorch._set_vmap_fallback_warning_enabled(False)  # type: ignore[attr-defined]
    notes: Notes = {}
    stub = SimpleNamespace(TestCase=unittest.TestCase, ACCEPT=False)
    sys.modules.setdefault("expecttest", stub)  # type: ignore[arg-type]  # not for samples
    from torch.testing._internal.common_methods_invocations import op_db

    functions: list[Any] = [op for op in op_db if only(op.name)]
    with _noting(notes):
        for function, dtype in itertools.product(functions, _TYPES):
            torch.manual_seed(0)
            with suppress(Exception):
                if dtype not in function.supported_dtypes("cpu"):
                    continue
                samples = list(function.sample_inputs("cpu", dtype))
                for sample in samples[:: -(-len(samples) // _SAMPLES) or 1]:
                    call = Call(*tree_flatten(((sample.input, *sample.args), sample.kwargs)))
                    for run in (function.op, function.inplace_variant):
                        if run is not None:
                            _mapped(run, call, dtype.is_floating_point)
        for run in (torch._is_all_true, torch._is_any_true):  # torch.distributions asks them
            _mapped(run, Call(*tree_flatten(((torch.tensor([True, False]),), {}))), False)
    notes = {name: calls for name, calls in notes.items() if calls}
    for name in set(reached()) - set(notes):  # some that write in place, as nobody's sample did
        packet, dot, overload = name.partition(".")
        like = packet.removesuffix("_") + dot + overload
        if packet.endswith("_") and like in notes:
            notes[name] = notes[like]
    return notes


def _mapped(run: Any, call: Call, differentiable: bool) -> None:
    """Run a function under vmap, with all tensors mapped, each one mapped, and its gradient."""
    leaves, tensors = call.leaves, call.places
    chosen = [tensors, *([i] for i in tensors)] if len(tensors) > 1 else [tensors]

    def value(*given: Any) -> list[Tensor]:
        return call.run(run, list(given))

    def loss(*given: Any) -> Tensor:
        real = [x.square().sum() for x in value(*given) if x.is_floating_point()]
        return torch.stack(real).sum()

    for mapped in chosen:
        axes = tuple(0 if i in mapped else None for i in range(len(leaves)))
        rows = list(leaves)
        for i in mapped:
            rows[i] = torch.stack([leaves[i].detach()] * RECORDS)
        for made in (value, torch.func.grad(loss)):
            if made is value or (differentiable and 0 in mapped):
                with suppress(Exception):
                    torch.vmap(made, in_dims=axes, randomness="different")(*rows)


# --- one call, compared with a loop --------------------------------------------------------------


def _others(x: Tensor, number: int, shuffled: bool, integers: bool) -> Tensor:
    """Return other values for one more record, of the kind that the operator takes."""
    real = _differentiable(x)
    x = x * (1.0 + number / 8.0) if real else x
    shift = number if (shuffled if real else integers) else 0
    return x.flatten().roll(shift).view(x.shape) if shift and x.dim() else x.clone()


def _differentiable(x: Tensor) -> bool:
    return x.is_floating_point() or x.is_complex()


def _cloned(values: list[Any]) -> list[Any]:
    return [x.clone() if isinstance(x, Tensor) else x for x in values]


def _records(op: Any, call: Call) -> list[list[Any]]:
    """Return leaves for the records, and one more, with which the operator runs."""
    for shuffled, integers in ((True, True), (False, True), (False, False)):
        records = [
            [_others(x, n, shuffled, integers) if isinstance(x, Tensor) else x for x in call.leaves]
            for n in range(RECORDS + 1)
        ]
        with suppress(Exception):
            for values in records:
                call.run(op, _cloned(values))
            return records
    return []


def _layouts(call: Call, mapped: tuple[int, ...]) -> Iterator[dict[int, int]]:
    """Yield where the record axis is in each mapped tensor: in front first, then every place."""
    yield dict.fromkeys(mapped, 0)
    dims = {i: call.leaves[i].dim() for i in mapped}
    for place in range(1, max(dims.values()) + 1):
        yield {i: min(place, dims[i]) for i in mapped}
        if len(mapped) > 1:
            for i in mapped:
                if place <= dims[i]:
                    yield {j: place if i == j else 0 for j in mapped}


def compared(op: Any, call: Call) -> Iterator[tuple[bool, bool]]:
    """Yield for each layout whether the axis is in front, and whether all was as in a loop."""
    records = _records(op, call)
    if not records:
        return
    sizes = range(1, len(call.places) + 1)
    chosen = (itertools.islice(itertools.combinations(call.places, n), 8) for n in sizes)
    for mapped in itertools.chain.from_iterable(chosen):
        if op._schema.is_mutable and 0 not in mapped:
            continue
        given = [
            [x if i in mapped else records[0][i] for i, x in enumerate(values)]
            for values in records
        ]
        try:
            alone = [_alone(op, call, values, mapped) for values in given[:RECORDS]]
        except Exception:
            continue
        for number, layout in enumerate(_layouts(call, mapped)):
            right = _same(op, call, given, layout, alone)
            if number == 0 and right is None:
                break  # vmap refuses these arguments
            yield number == 0, bool(right)  # what fails elsewhere does not know the axis


def _alone(op: Any, call: Call, values: list[Any], mapped: tuple[int, ...]) -> list[Tensor]:
    """Return results of one record, and the gradients of the mapped tensors."""
    results, leaves = _called(op, call, [values], dict.fromkeys(mapped, 0), vmapped=False)
    return [*(x.detach() for x in results), *_gradients(results, leaves)]


def _gradients(results: Sequence[Tensor], leaves: list[Tensor]) -> list[Tensor]:
    total, wanted = [], [x for x in leaves if x.requires_grad]
    for x in results:
        if x.requires_grad:  # a sum in which every entry counts otherwise
            weights = torch.linspace(0.5, 1.5, max(x.numel(), 1), dtype=torch.float64)[: x.numel()]
            real = (torch.view_as_real(x.resolve_conj()).sum(-1) if x.is_complex() else x).double()
            total.append((real * weights.view(x.shape)).sum())
    if not total or not wanted:
        return []
    try:
        found = torch.autograd.grad(sum(total), wanted, retain_graph=True, allow_unused=True)  # type: ignore[arg-type]
    except (RuntimeError, NotImplementedError):
        return []
    return [torch.zeros_like(p) if x is None else x for x, p in zip(found, wanted, strict=True)]


def _same(op: Any, call: Call, given: Any, layout: dict[int, int], alone: Any) -> bool | None:
    """Compare vmap with the loop, and with itself when the last record is another one."""
    found = []
    for records in (given[:RECORDS], [*given[: RECORDS - 1], given[RECORDS]]):
        torch.manual_seed(0)
        try:
            results, leaves = _called(op, call, records, layout)
        except Exception as error:
            return True if any(layout.values()) and "view size is not" in str(error) else None
        try:
            found.append(_per_record(results, leaves, layout))
        except Exception:  # a wrong shape
            return False
    together, changed = found
    if op._schema.name.removeprefix("aten::").startswith(_UNSET):
        alone = [[x.shape for x in row] for row in alone]
        return bool(alone == [[x.shape for x in row] for row in together])
    # A loop would draw other numbers, and round whole ones times 0.2 otherwise.
    whole = not any(call.leaves[i].is_floating_point() for i in call.places)
    rounds = whole and any(isinstance(x, float) for x in call.leaves)
    unlike = torch.Tag.nondeterministic_seeded in op.tags or rounds
    return (unlike or all(map(_close, together, alone))) and all(
        map(partial(_close, exact=True), together[:-1], changed[:-1])
    )


def _called(
    op: Any, call: Call, given: Any, layout: dict[int, int], *, vmapped: bool = True
) -> tuple[tuple[Tensor, ...], list[Tensor]]:
    """Return the results of a call, for all records or the first one, and what went in."""
    leaves = []
    for i, place in layout.items():
        x = torch.stack([values[i] for values in given], place) if vmapped else given[0][i].clone()
        leaves.append(x.detach().requires_grad_(_differentiable(x)))
    fixed = _cloned(given[0])

    def one(*rows: Tensor) -> Any:
        values = list(fixed)
        for i, row in zip(layout, rows, strict=True):
            values[i] = row
        results = call.run(op, values)
        return (*results, *(values[i] for i in layout if op._schema.is_mutable))

    used = [x.clone() if x.requires_grad else x for x in leaves]
    run = torch.vmap(one, tuple(layout.values()), randomness="different") if vmapped else one
    return run(*used), leaves


def _per_record(
    results: tuple[Tensor, ...], leaves: list[Tensor], layout: dict[int, int]
) -> list[list[Tensor]]:
    """Return what `_alone` does, for every record; raise if a gradient reaches another one."""
    found = []
    places = [place for x, place in zip(leaves, layout.values(), strict=True) if x.requires_grad]
    for n in range(RECORDS):
        row = [x[n] for x in results]
        found.append([x.detach() for x in row])
        for g, place in zip(_gradients(row, leaves), places, strict=False):
            rows = g.movedim(place, 0)
            found[n].append(rows[n])
            if torch.cat([rows[:n], rows[n + 1 :]]).nan_to_num().any():
                raise ValueError("a record moves with another one's result")
    return found


def _close(found: list[Tensor], expected: list[Tensor], exact: bool = False) -> bool:
    if [(x.shape, x.dtype) for x in found] != [(x.shape, x.dtype) for x in expected]:
        return False
    for x, y in zip(found, expected, strict=True):
        rtol = _CLOSE.get(x.dtype, 1e-3) * (1e-4 if exact else 1.0)
        with suppress(RuntimeError):
            if not torch.allclose(x, y, rtol=rtol, atol=rtol, equal_nan=True):
                return False
    return True


# --- all of them ---------------------------------------------------------------------------------


def certify(notes: Notes, calls_each: int = _CALLS) -> dict[str, Any]:
    """Return the certificate: what keeps records apart, and what with the axis in front only."""
    verdicts: dict[str, list[str]] = {"certified": [], "in_front": [], "not": []}
    checks = 0
    for name in sorted(notes):
        op, calls, seen = operator(name), notes[name], list[tuple[bool, bool]]()
        # Some of them, half in double precision, in an order of no meaning.
        mixed = sorted(calls, key=lambda key: hashlib.sha256(key.encode()).digest())
        double = [key for key in mixed if "float64" in key][: calls_each // 2]
        for key in [*double, *(key for key in mixed if key not in double)][:calls_each]:
            torch.manual_seed(0)
            seen += compared(op, calls[key])
        checks += len(seen)
        front = {right for first, right in seen if first}
        if front != {True} or name.removeprefix("aten::").startswith(_NEVER):
            verdicts["not"].append(name)
        else:
            apart = all(right for _, right in seen)
            verdicts["certified" if apart else "in_front"].append(name)
    return {"torch": RELEASE, "checks": checks, **verdicts}


def main(arguments: list[str] | None = None) -> None:
    """Make the certificate of this release of torch, and write it."""
    parser = argparse.ArgumentParser(prog="noisette.nn.gradients.certify", description=__doc__)
    parser.add_argument("--file", help="where to write it; the user's cache folder if not given")
    file = Path(parser.parse_args(arguments).file or certificate_file(made=True))
    torch.set_num_threads(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = certify(noted())
    file.parent.mkdir(parents=True, exist_ok=True)
    _files.write(file, json.dumps(found, indent=0) + "\n")
    print(f"{len(found['certified'])} operators of torch {RELEASE} are certified: {file}")


if __name__ == "__main__":
    main()
