"""A job: what a training or its forecast is asked to do, once, for commands and page.

The options of ``noisette train`` and ``noisette plan`` are made from the fields, the page fills the
same record, and the record shows itself as a command line and as Python.
"""

import inspect
import shlex
from collections.abc import Callable, Iterator
from dataclasses import Field, dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from noisette._validate import steers
from noisette.errors import NoisetteError

if TYPE_CHECKING:
    from noisette.tables import Schema

MODELS = {"logistic": "LogisticRegression", "svm": "LinearSVC", "sgd": "SGDClassifier"}
"""What ``--model`` says -> the class in `noisette.linear`."""
ADDITIVE = "additive"
CHOICES = (*MODELS, ADDITIVE)
Words = str | Callable[[], str]
"""The help of an option; a list from a registry is asked for when help is shown."""


def asked(default: Any, *flags: str, also: dict[str, Any] | None = None, **words: Words) -> Any:
    """Return the field of a record: its default, its flags, and its help by command (or `both`).

    Words for the `page` are a label: step 3 of the studio asks for the field, too. In `also`,
    `typer` is for Typer, `on` gives a command flags of its own, `needed` names the commands that
    cannot do without, and `argument` the word of an argument.
    """
    if "both" in words:
        words |= {"train": words["both"], "plan": words["both"]}
    return field(default=default, metadata={"flags": flags, "words": words, **(also or {})})


def taken(record: type, command: str) -> "Iterator[tuple[Field[Any], tuple[str, ...]]]":
    """Yield the fields that a command takes, with their flags; without its own, by their name."""
    for each in fields(record):
        if command in each.metadata["words"]:
            own = each.metadata.get("on", {}).get(command) or each.metadata["flags"]
            yield each, own or (f"--{each.name.replace('_', '-')}",)


def takes(record: type, work: Callable[[Any], None]) -> Callable[..., None]:
    """Make a command of a function of a record: Typer reads a parameter for each of its fields."""

    def run(**given: Any) -> None:
        work(record(**given))

    command, types, parameters = work.__name__, get_type_hints(record), []
    for each, flags in taken(record, command):
        known, words = each.metadata, each.metadata["words"][command]
        told = {"help": words if isinstance(words, str) else words(), **known.get("typer", {})}
        needed = command in known.get("needed", ())
        if "argument" in known:
            name = known["argument"] if needed else f"[{known['argument']}]"
            info = typer.Argument(metavar=name, show_default=False, **told)
        else:
            info = typer.Option(*flags, **told)
        kind = str if "parser" in told else types[each.name]
        default = known.get("defaults", {}).get(command, each.default)
        parameters.append(
            inspect.Parameter(
                each.name, inspect.Parameter.KEYWORD_ONLY, annotation=Annotated[kind, info],
                default=inspect.Parameter.empty if needed else default,
            )
        )  # fmt: skip
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__name__, run.__doc__ = command, work.__doc__
    return run


def numbers(text: str) -> tuple[float, ...]:
    """Return one number or several with commas between them."""
    return tuple(map(float, str(text).split(",")))


def _offered(option: str) -> str:
    """Return what the registries offer for an option."""
    from noisette.core.sampling import SAMPLERS
    from noisette.fitting.algorithms.recommend import mechanisms
    from noisette.fitting.losses import classifier_losses

    margins = ", ".join(classifier_losses(probabilities=False))
    return {
        "mechanism": f"One of: {', '.join(mechanisms())} (logistic and svm).",
        "sampling": f"sgd: auto, {', '.join(SAMPLERS)}.",
        "loss": f"svm: {margins}; sgd: {', '.join(classifier_losses())}.",
    }[option]


@dataclass(frozen=True, kw_only=True)
class Job:
    """What is trained on what, under which budget, and where it goes; `out` of a plan is a figure.

    `rows` is the number of rows (persons), or a guess of it where it is private.
    """

    table: Path | None = asked(
        None, train="A CSV file (.gz too) or a Parquet file.",
        plan="A table: its header is checked, and its rows are counted where that is public.",
        also={"argument": "TABLE", "needed": ("train",)},
    )  # fmt: skip
    epsilons: tuple[float, ...] = asked(
        (), "--epsilon", train="The budget of this model; smaller: safer.",
        plan="The budget; smaller: safer. With --public several: 0.1,1,10.",
        also={
            "typer": {"parser": numbers, "metavar": "<float>"}, "needed": ("train", "plan"),
        },
    )  # fmt: skip
    target: str | None = asked(None, both="The column to predict.")
    schema: Path | None = asked(
        None, train="The filled schema; `noisette schema TABLE` starts one.",
        plan="The schema; facts may be left open.",
    )  # fmt: skip
    learn: bool = asked(False, "--learn", train='Learn facts that the schema leaves open ("?").')
    features: int | None = asked(
        None, plan="The number of features after encoding, without --schema."
    )
    delta: float = asked(0.0, both="0 is pure privacy; else far below 1/n, such as 1e-6.")
    model: str = asked("logistic", both="One of: " + ", ".join(CHOICES) + ".")
    pairs: str | None = asked(
        None, train="For additive: columns to look at together, such as day:month,lat:long."
    )
    mechanism: str = asked("auto", both=partial(_offered, "mechanism"))
    loss: str | None = asked(None, both=partial(_offered, "loss"))
    sampling: str | None = asked(None, both=partial(_offered, "sampling"))
    classes: int = asked(2, plan="How many labels there are, without --schema.")
    persons: bool = asked(
        False, "--persons", plan="Protect persons with all their rows, without --schema."
    )
    adjacency: str = asked("replace-one", both="replace-one, zero-out or add-remove.")
    rows: int | None = asked(
        None, train="A guess of the number of rows (persons), for add-remove.",
        plan="The number of rows (persons), or a guess of it.",
        also={"on": {"train": ("--population",), "plan": ("--rows", "--population")}},
    )  # fmt: skip
    class_weight: str | None = asked(None, train='"balanced", or weights by label: no=1,yes=5.')
    test_share: float | None = asked(
        None, both="Score on this part of the people instead; 0.2 is common."
    )
    no_header: bool = asked(
        False, "--no-header", both="The CSV file has no header line; names from the schema."
    )
    counts: float | None = asked(
        None, plan="Spend this part of epsilon (and delta) on noisy counts of odd cells."
    )
    public: bool = asked(
        False, "--public", plan="Everybody may see this table: train on it at each epsilon."
    )
    repeats: int = asked(5, plan="With --public: how often, with other rows and noise.")
    ledger: str | None = asked(
        None, train="Charge this ledger; `noisette ledger` starts one.",
        plan="Charge the counts to this ledger.",
    )  # fmt: skip
    same_people: bool | None = asked(
        None, "--same-people/--other-people",
        train="Whether another ledger for such a table is about the same people.",
    )  # fmt: skip
    out: Path | None = asked(
        None, train="The folder for the model.",
        plan="With --public: write the figure here: .svg, .png or .pdf.",
        also={"defaults": {"train": Path("noisette-model")}},
    )  # fmt: skip
    force: bool = asked(False, "--force", both="Replace what is already there.")
    cluster: str | None = asked(None, train="Let this Dask cluster read parts: tcp://HOST:8786.")
    workers: int | None = asked(None, train="Let so many processes of this machine read parts.")
    seed: int | None = asked(None, train="Repeatable noise, for experiments: NOT PRIVATE.")
    progress: bool = asked(
        False, "--progress", train="Say each step in a line on stderr, for programs."
    )
    json: bool = asked(False, "--json", both="Print one JSON object for machines.")

    @property
    def epsilon(self) -> float:
        """The one epsilon of one model; a list of them hears what it would cost."""
        if len(self.epsilons) == 1:
            return self.epsilons[0]
        # Not an InvalidParameter: typer would put its own words in the place of a ValueError's.
        raise NoisetteError(
            f"--epsilon {','.join(f'{each:g}' for each in self.epsilons)} asks for "
            f"{len(self.epsilons)} models of the same people, which together cost epsilon = "
            f"{sum(self.epsilons):.6g} and {len(self.epsilons)} times delta; take one, and compare "
            "epsilons with `noisette plan --public`, on a table that everybody may see."
        )

    @property
    def counted(self) -> bool:
        """Whether the number of rows (persons) is public, so that it may be counted."""
        from noisette.core.adjacency import Adjacency

        return Adjacency.of(self.adjacency).size_is_public

    @property
    def population(self) -> int | None:
        """The guess of the number of rows, where it is private."""
        return None if self.counted else self.rows

    def to_words(self, command: str) -> list[str]:
        """Return the arguments of the very command that does it."""
        words = [command]
        for each, flags in taken(Job, command):
            of_train = each.name == "rows" and command == "train"
            value: Any = self.population if of_train else getattr(self, each.name)
            yes, _, no = flags[0].partition("/")
            if isinstance(value, bool) and value != each.default:
                words.append(yes if value else no)
            elif value != each.default:
                values = value if each.name == "epsilons" else (value,)
                words += [yes] * ("argument" not in each.metadata)
                words.append(",".join(map(written, values)))
        return words

    def to_command(self, command: str) -> str:
        """Return a command line of bash, to copy."""
        return command_line("noisette", *self.to_words(command))

    def to_python(self, command: str, facts: "Schema") -> str:
        """Return Python that does the same, to copy; `facts` say what kind of target it is."""
        name = "Additive" if self.model == ADDITIVE else "Table"
        name += "Classifier" if facts.target_bounds is None else "Regressor"
        given = {
            "epsilon": self.epsilon, "delta": self.delta, "adjacency": self.adjacency,
            "population": self.population, "test_share": self.test_share,
            "target_bounds": "learn" if None in (facts.target_bounds or ()) else None,
        }  # fmt: skip
        usual: dict[str, Any] = {"adjacency": "replace-one"}
        for each, _ in taken(Job, "page"):
            given[each.name], usual[each.name] = getattr(self, each.name), each.default
        more = [f", {key}={value!r}" for key, value in given.items() if value != usual.get(key)]
        shown = "schema=facts" + "".join(more)
        header = ", header=False" if self.no_header else ""
        ledger, model = ("Ledger, ", "TableModel, ") if command == "train" else ("", "")
        head = (
            f"from noisette import {ledger}{name}\nfrom noisette.tables import {model}read_schema\n"
            f"\nfacts = read_schema({str(self.schema)!r}, learn=True)\n"
        )
        if command == "plan":
            return f"{head}print({name}({shown}).plan({self.rows}))"
        assert self.table is not None
        return (
            f"{head}budget = Ledger.open({self.ledger!r}, table={self.table.name!r})\n"
            f"model = {name}({shown}, ledger=budget)\n"
            f"rows = TableModel(model, facts).read({str(self.table)!r}, target=True{header})\n"
            "model.fit(rows.X, rows.y)\nprint(model.privacy_.statement())"
        )


def written(value: object) -> str:
    """Return a value as a command and a form have it."""
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def command_line(*words: object) -> str:
    """Return a command line of bash."""
    return " ".join(quoted(str(word)) for word in words)


def quoted(text: str) -> str:
    r"""Return a word of a command line; signs that turn the eye are written out, as \u202e."""
    odd = {sign for sign in text if steers(sign) or sign == "\n"}
    if not odd:
        return shlex.quote(text)
    written = {"\\": "\\\\", "'": "\\'"} | {sign: f"\\u{ord(sign):04x}" for sign in odd}
    written |= {sign: f"\\U{ord(sign):08x}" for sign in odd if ord(sign) > 0xFFFF}
    return "$'" + "".join(written.get(sign, sign) for sign in text) + "'"
