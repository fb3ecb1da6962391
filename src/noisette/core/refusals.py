"""The register of refusals: every error that can follow from what stands in the rows.

A refusal is seen, whatever epsilon is, so every guarantee says which ones its fit has. To add one:
a line here, its id in the ``_refuses`` of the estimators that have it, and where it is raised
(``module:function``; tests/architecture compares with all that raises InvalidData).
"""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Refusal:
    """What a statement says of it, and where it is raised; `fact` if it is among public facts."""

    words: str
    raised: tuple[str, ...]
    fact: bool = False


REFUSALS: dict[str, Refusal] = {
    "entries": Refusal(
        "an entry of X is no finite number",
        ("models/inputs:without_data", "fitting/clipping:clip_factors",
         "tables/pipeline/transformer:RowStep.check",
         "fitting/algorithms/records:Records.check", "nn/arrays:as_rows",
         "fitting/algorithms/streaming:_of_arrow"),
    ),
    "infinite": Refusal("an entry of X is no number, or infinite",
                        ("models/inputs:without_data",)),
    "not numbers": Refusal("an entry of X is no number", ("models/inputs:without_data",)),
    "tokens": Refusal(
        "an entry of X is no whole number in the range of a module that takes tokens",
        ("nn/arrays:as_tensor", "nn/arrays:_token", "nn/classifier:PrivateClassifier._try"),
    ),
    "labels": Refusal(
        "a label is missing, not among the classes, or a number with a point from 2^53 on",
        ("models/inputs:_check_told_apart", "models/inputs:without_data",
         "models/inputs:label_numbers", "tables/frame:Frame.labels", "nn/arrays:as_rows",
         "tables/pipeline/selector:LearnScores.check"),
    ),
    "label set": Refusal(
        "y holds a missing label, one label alone, fractions, several types or very many labels",
        ("models/inputs:sorted_classes", "models/inputs:_part_classes",
         "models/inputs:_all_classes", "tables/pipeline/table_classifier:TableClassifier._read",
         "nn/arrays:as_rows"),
    ),
    "target": Refusal(
        "a target is no finite number",
        ("models/inputs:finite_numbers", "tables/frame:Frame.labels",
         "tables/pipeline/table_regressor:TableRegressor._read",
         "scores/layouts:RegressionLayout.codes"),
    ),
    "truth": Refusal(
        "y holds a label that is neither a number nor a text, or none of the kind of the classes",
        ("scores/layouts:numbers_of", "scores/layouts:_called"),
    ),
    "weights": Refusal(
        "a weight lies outside its public range",
        ("models/inputs:vector", "fitting/algorithms/records:Records.check",
         "core/summaries:_weights",
         "tables/pipeline/step:Sample.check", "fitting/algorithms/levels:check_rows"),
    ),
    "identifiers": Refusal(
        "an identifier is missing, or identifiers cannot be told apart",
        ("fitting/units:Persons.of", "core/cells:Given.keys", "core/cells:_identity",
         "core/cells:_object_keys",
         "fitting/partitions/persons:_identified", "fitting/partitions/persons:_whole",
         "fitting/partitions/persons:_answered",
         "tables/person_facts:PersonFacts.identifiers"),
    ),
    "columns": Refusal(
        "the type of a column does not fit its kind, or a cell that is compared with others is a "
        "number with a point from 2^53 on (2^24 in float32)",
        ("tables/encoding:_checked_types", "tables/frame:_check_types", "core/cells:Given.check",
         "core/cells:_float_text"),
    ),
    "lines": Refusal(
        "a line of a file has another number of cells than its header",
        ("tables/reading:_slow_pieces",),
    ),
    "twice": Refusal(
        "rows are handed in twice",
        ("models/sgd_stream:_new", "models/sgd_stream:_refuse_same_files"),
    ),
    "rows of persons": Refusal(
        "that there are at most", ("fitting/algorithms/records:check_rows_each",), fact=True
    ),
    "nobody": Refusal(
        "that there is at least one",
        ("models/inputs:parted_rows", "models/inputs:columns",
         "tables/pipeline/table_estimator:TableEstimator._ready",
         "tables/pipeline/evaluation:_rows_and_truth",
         "tables/pipeline/encoder:SchemaEncoder.transform",
         "tables/pipeline/cell_counts:_states_of", "tables/frame:Frame.read",
         "tuning/search:PrivateSearch._won", "models/sgd_stream:StreamReader._streamed"),
        fact=True,
    ),
    # not from the rows: whether it stops is a function of released weights. proof: NN-CANARY
    "canary": Refusal(
        "Invented records were tried at secret steps; a run in which they are mixed is stopped, by "
        "them and the released weights alone.",
        ("nn/canary:RunCanary.step",), fact=True,
    ),
}  # fmt: skip


def stated(ids: Iterable[str]) -> tuple[str, ...]:
    """Return the sentence of a guarantee on the refusals that its fit has, none for none."""
    cases = "; or if ".join(REFUSALS[each].words for each in ids if not REFUSALS[each].fact)
    told = f"The program refuses, and shows that it did, if {cases}: epsilon does not cover that."
    return (told,) if cases else ()
