"""`TableRecipe`: how a table's budget is spent, from public facts alone.

What was tuned on what: parts and scales were chosen on Adult and Bank; knots in the tails, and
fewer of them for many columns or few rows, on Credit and Telco besides; `_PERSONS` on the invented
visits of `datasets.visits`. docs/tables.md says which tables had no part in it, and
docs/benchmarks.md has their figures.
"""

from bisect import bisect_right
from dataclasses import dataclass, replace

from noisette.core.mechanisms import Gaussian
from noisette.fitting.algorithms.public import PublicBudget

_WITHOUT_SIZE = 3
# Rows times mu for each numeric column: from there on there is one more level of knots. The noise
# in the scores grows with all features together, so many columns leave room for fewer knots each.
_ROWS = (240, 1_300, 6_700)
_FEW = 5  # numeric columns: fewer get no more knots than so many would
_TAILS, _TAIL_ROWS = 2, 120  # fewer rows than that, and a knot in the tail may lie anywhere
_PURE_ROWS = 5_000  # times epsilon
_PERSONS = 3  # least depth for persons: what first rows have in common takes knots away
_PUBLIC_KNOTS = 8
_MANY, _ENOUGH = 16, 2_000  # knots for numbers to predict, from so many rows times mu on
# Additive models, from so many rows times mu for each numeric column on: the part for single
# numbers, and how much is left of that for knots.
_FINE_FROM, _SPIKES, _FEWER = 800, 0.2, 0.6
_FINE_KNOTS = 32
# Pairs of columns, from so many rows times mu for all of them and for each on; the most knots of a
# number in a pair whose knots are bought, and with knots for free, shared by the pairs.
_PAIRS_FROM, _EACH_PAIR, _BOUGHT_CELLS, _FREE_CELLS = 1_500, 1_000, 9, 32
_KNOTS, _COUNTS, _PURE_COUNTS = 0.08, 0.10, 0.07  # of the budget
# Scores are counted by label from so many rows times mu (or epsilon) on: below, noise would drown
# what is known of their slope already.
_CALIBRATION, _CALIBRATED_FROM, _PURE_CALIBRATED_FROM = 0.04, 300, 10_000


@dataclass(frozen=True)
class TableRecipe:
    """Public choices of one table's training.

    Parts of the budget are parts of mu squared, and of epsilon where delta = 0; what is left is for
    the model.
    """

    depth: int  # numbers get up to 2^depth - 1 knots
    knots: float  # part of the budget
    levels: float  # part of the budget, for levels that nobody listed
    shares: float  # part of the budget
    tails: int = 0  # how often the outer parts are halved besides, for one knot in each tail
    atoms: float = 0.1  # part of delta for levels that one person alone holds
    floor: float = 1.0  # ridge of the whitener, in units of the mean variance of a feature
    room: float = 1.5  # regularisation, in units of the least at which the determinant is free
    intercept: float = 1.5  # the constant column, in units of a typical feature after whitening
    signal: float = 0.35  # typical variance of scores: how strongly noisy weights are shrunk
    slack: float = 0.9  # the norm bound of whitened rows, in units of their root mean square
    rare: float = 0.005  # levels are told apart above this share,
    sure: float = 2.0  # and above so many deviations of its noise
    public_knots: int = 0  # so many between public bounds instead of bought ones; 0 buys
    truncated: bool = False  # leave out what noise would drown: pure noise grows with directions
    tail: float = 0.01  # of a number to predict: the share beyond each limit that is bought,
    bent: float = 0.1  # and the part of epsilon that the determinant may cost
    spikes: float = 0.0  # part of the budget for numbers that many share, where knots are few
    calibration: float = 0.0  # part of the budget for counts of scores by label
    cells: int = 0  # how many knots a number has in a pair of columns; 0 leaves pairs out
    together: float = 1.0  # the prior variance of a pair's cell, in units of a feature's
    rare_cells: float = 0.002  # the share below which a cell is left out

    @property
    def model(self) -> float:
        """The part of the budget that is left for the model."""
        bought = self.knots + self.levels + self.shares + self.spikes + self.calibration
        return 1.0 - bought


def recipe_for(
    public: PublicBudget, *, numeric: int, counted: int, unknown: int, share: float | None = None,
    numbers: bool = False, curves: bool = False, pairs: int = 0,
) -> TableRecipe:  # fmt: skip
    """Return the recipe for so many columns with knots, with shares, and with unknown levels.

    `share` is the part of the budget for everything but the model, where the user states it.
    Shares of hats and labels take twice the noise of unknown levels: they are sums over many rows.

    `numbers`: for a number to predict, limits are bought in place of knots. Knots lie evenly
    between the limits: medians of ever smaller parts leave out the ends of a column, where a line
    still rises. Chosen on California housing.

    `curves`: additive models may jump at numbers that many people share, or have more knots. Rare
    features are scaled up further, so that few people who differ much from all others are heard.
    With fewer rows or less epsilon than that takes, the recipe is the plain one. Chosen on the
    splits 100 to 107 of Adult and Bank.

    `pairs`: so many get cells, none where these would drown. Cells that few rows fill are taken
    together later, so a grid is fine only where people are. Half of what single numbers get is left
    to the weights, of which there are more now. Chosen on the splits 100 to 103 of Bank and 0 to 3
    of California.
    """
    pure, size = public.delta == 0.0, public.size
    rows = (size or 0) / public.adjacency.contributions
    strength = 0.0  # rows times mu; a size that nobody knows has no strength
    if rows and not pure:
        noise = Gaussian.calibrated(public.epsilon, public.delta, public.adjacency)
        strength = rows * public.adjacency.contributions / noise.noise_multiplier
    each = strength / max(numeric, _FEW)
    counts = _PURE_COUNTS if pure else _COUNTS
    knots = _KNOTS if numeric else 0.0
    weight = unknown + counted / 4.0
    levels, shares = counts * unknown / weight, counts * counted / 4.0 / weight
    if share is not None:
        total = knots + levels + shares
        knots, levels, shares = (part * share / total for part in (knots, levels, shares))
    # fewer knots, and none in the tails, where few rows or little epsilon leave no room
    depth, tails = 2 + bisect_right(_ROWS, each), _TAILS * (each >= _TAIL_ROWS)
    if size is None:
        depth = _WITHOUT_SIZE
    elif pure:
        depth = 2 + (rows * public.epsilon > _PURE_ROWS)
    elif public.grouped:
        depth = max(depth, _PERSONS)
    recipe = TableRecipe(depth, knots, levels, shares, tails)
    if pure:
        recipe = replace(
            recipe, floor=0.3, room=1.0, signal=1.0, slack=1.0, rare=0.01,
            public_knots=_PUBLIC_KNOTS, truncated=True,
        )  # fmt: skip
    if (
        not numbers
        and share is None
        and (rows * public.epsilon if pure else strength)
        >= (_PURE_CALIBRATED_FROM if pure else _CALIBRATED_FROM)
    ):
        recipe = replace(recipe, calibration=_CALIBRATION)
    if numbers:
        many = _FINE_KNOTS if curves else _MANY
        free = many if strength >= _ENOUGH else _PUBLIC_KNOTS
        recipe = replace(recipe, public_knots=free, signal=0.3, bent=0.2)
    elif curves and numeric and each >= _FINE_FROM:
        recipe = replace(recipe, depth=3, knots=_FEWER * knots, floor=0.03, slack=1.3, sure=0.5)
        # what the user states is for all but the model
        part = 1.0 if share is None else share / (_SPIKES + 1.0 - recipe.model)
        recipe = replace(
            recipe, knots=part * recipe.knots, levels=part * levels, shares=part * shares,
            spikes=part * _SPIKES,
        )  # fmt: skip
    if not pairs or strength < max(_PAIRS_FROM, _EACH_PAIR * pairs):
        return recipe
    if numbers:
        return replace(recipe, cells=max(int(_FREE_CELLS / pairs**0.5), 4), together=3.0)
    return replace(recipe, cells=_BOUGHT_CELLS, spikes=recipe.spikes / 2.0)
