"""The page for a reviewer of a model that was trained on a table."""

import time
from dataclasses import replace

from noisette.core.ledger import Ledger
from noisette.report import Subject, model_page
from noisette.report.effects import UNDRAWN
from noisette.tables import Schema
from noisette.tables.folders import TableModel, takes_tables
from noisette.tables.kinds.categorical import named
from noisette.tables.pipeline.effects import (
    column_weights_in,
    effects_in,
    note_for,
    pair_effects_in,
)
from noisette.tables.pipeline.table_words import cost_rows

_BOUGHT = "; with facts that were released privately"


def page_of(
    fitted: TableModel, table: str, records: int | None, ledger: Ledger | None = None,
    folder: str = "FOLDER", date: str = "",
) -> str:  # fmt: skip
    """Return the report of a model whose guarantee speaks of the rows of its table."""
    schema, model = fitted.schema, fitted.model
    rows, bought = facts_of(schema), schema.learnt
    stated = [
        (name, kind, "see what was learnt, above" if name in bought else text)
        for name, kind, text in rows
    ]
    learnt = [
        (name, kind, text.removesuffix(_BOUGHT)) for name, kind, text in rows if name in bought
    ]
    subject = Subject(
        title=f"A model that predicts “{schema.target}”", unit=schema.protected, facts=stated,
        steps=cost_rows(model) if takes_tables(model) else (), learnt=learnt,
        scores=getattr(model, "test_", None), schema=schema.fingerprint, table=table,
        records=records, check=f"noisette inspect {folder}", effects_note=UNDRAWN,
        date=date or time.strftime("%Y-%m-%d", time.gmtime()),
    )  # fmt: skip
    try:
        # (column, cell, what it adds, two deviations of its noise) in words; not of pairs, which
        # may have a thousand cells: `noisette explain` lists them
        weights = []
        for row in column_weights_in(fitted):
            values = row["weight"] if isinstance(row["weight"], list) else [row["weight"]]
            noise = "unknown" if row["deviation"] is None else f"± {2.0 * row['deviation']:.2g}"
            weights.append(
                (row["column"], row["at"], ", ".join(map("{:+.3g}".format, values)), noise)
            )
        drawn = replace(
            subject, effects=effects_in(fitted), effects_note=note_for(fitted),
            pair_effects=pair_effects_in(fitted), weights=weights,
        )  # fmt: skip
        return model_page(fitted.guarantee, drawn, ledger)
    except Exception:
        return model_page(fitted.guarantee, subject, ledger)


def facts_of(schema: Schema) -> list[tuple[str, str, str]]:
    """Return (column, kind, public facts), the target first."""
    target = ", ".join(named(schema.labels))
    if schema.target_bounds is not None:
        ends = ("a bought limit" if end is None else f"{end:g}" for end in schema.target_bounds)
        target = f"a number, from {' to '.join(ends)}"
    rows = [(schema.target, "target", target)]
    rows += [(column.name, column.kind, column.describe()) for column in schema.columns]
    return [(name, kind, text + _BOUGHT * (name in schema.learnt)) for name, kind, text in rows]
