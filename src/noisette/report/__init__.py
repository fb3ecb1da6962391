"""The page for a reviewer: one self-contained HTML file about a guarantee or a ledger.

No script, no font, no picture is fetched: the page says the same without a network, on paper and
on a telephone. Everything that comes from a file is escaped.
"""

from noisette.report.effects import Effect, effect_svg, effects_page
from noisette.report.heat import PairEffect, pair_svg
from noisette.report.ledgers import ledger_page
from noisette.report.numbers import attack_power, curve_of
from noisette.report.page import Subject, model_page
from noisette.report.proofs import meaning

__all__ = [
    "Effect", "PairEffect", "Subject", "attack_power", "curve_of", "effect_svg", "effects_page",
    "ledger_page", "meaning", "model_page", "pair_svg",
]  # fmt: skip
