"""Choosing and answering by noise: exponential mechanism and randomised response at the door."""

import numpy as np
import pytest
from permits import permit_for, source

from noisette.core.adjacency import ADD_REMOVE, REPLACE_ONE, Adjacency
from noisette.core.bounded import Bounded
from noisette.core.door import release
from noisette.core.ledger import Ledger
from noisette.core.mechanisms import Exponential, RandomizedResponse
from noisette.core.plans import Repeat
from noisette.core.randomness import Randomness
from noisette.errors import InvalidParameter, NoisetteError, PermitError, Unproven


def scores(values: list[float], linf: float) -> Bounded:
    return Bounded(
        np.array(values), linf=linf, adjacency=Adjacency.REPLACE_ONE, proof="EXPONENTIAL-BR"
    )


def test_a_choice_without_noise_is_refused_before_it_is_booked() -> None:
    """2 linf / epsilon rounds to 0: the best candidate itself would have come out."""
    permit = Ledger(1e6).charge(Exponential(1e5), label="choice")
    with pytest.raises(PermitError, match="noise scale"):
        release(scores([0.0, 1e-320], 1e-320), permit, Randomness.secure())
    assert permit.draws_left() == 1


def test_a_large_common_part_of_the_scores_does_not_swallow_the_noise() -> None:
    """Equal scores of 1e17 swallowed the noise, and the first candidate always won."""
    permit = Ledger(300.0).charge(Repeat(Exponential(1.0), 200), label="choices")
    source = Randomness.from_seed(11)
    chosen = [release(scores([1e17] * 4, 1.0), permit, source) for _ in range(200)]
    # each count is Bin(200, 1/4); fewer than 20 has probability below 1e-7
    assert min(np.bincount(chosen, minlength=4)) >= 20


class Smallest(np.random.Generator):
    """Uniform numbers that are all 0, which happens once in 2^53."""

    def random(self, size=None, dtype=np.float64, out=None):  # type: ignore[no-untyped-def]
        return np.zeros(size)


@pytest.mark.parametrize("epsilon", [36.9, 50.0, 300.0])
def test_randomised_response_never_keeps_every_answer(epsilon: float) -> None:
    """From epsilon = 37 on the probability of the truth was 1 in doubles."""
    answers = Bounded(
        np.arange(3), categories=3, adjacency=Adjacency.REPLACE_ONE, proof="RANDOMIZED-RESPONSE"
    )
    mechanism = RandomizedResponse(epsilon, 3)
    told = mechanism.apply(answers, None, Smallest(np.random.PCG64(1)))
    assert (told != answers.value).all()


def test_randomised_response_counts_in_64_bits() -> None:
    RandomizedResponse(1.0, 2**62)
    with pytest.raises(InvalidParameter, match="2\\^62"):
        RandomizedResponse(1.0, 2**62 + 1)


def test_scores_come_back_as_an_index_and_answers_as_answers():
    scores = Bounded(np.array([0.0, 1e6]), REPLACE_ONE, "CLIP", linf=1.0)
    assert release(scores, permit_for(Exponential(1.0)), source()) == 1
    answers = Bounded(np.array([0, 1, 2]), REPLACE_ONE, "CLIP", categories=3)
    got = release(answers, permit_for(RandomizedResponse(1.0, 3)), source())
    assert got.shape == (3,)
    assert set(got) <= {0, 1, 2}


def test_randomised_response_refuses_a_value_with_more_categories():
    """A category that the mechanism does not know is reported as it is: no privacy at all."""
    # Was a leak: Five categories through a two-category mechanism come out unrandomised.
    permit = permit_for(RandomizedResponse(1.0, 2))
    value = Bounded(np.full(200, 4), REPLACE_ONE, "CLIP", categories=5)
    with pytest.raises(NoisetteError):
        release(value, permit, source())


def test_monotone_scores_only_under_add_remove():
    with pytest.raises(Unproven, match="monotone"):
        permit_for(Exponential(1.0, True))
    scores = Bounded(np.array([0.0, 1e6]), ADD_REMOVE, "CLIP", linf=1.0)
    assert release(scores, permit_for(Exponential(1.0, True), ADD_REMOVE), source()) == 1
