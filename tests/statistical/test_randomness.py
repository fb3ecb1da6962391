"""One source of noise that is never shared: forks, pickles, copies and workers."""

import concurrent.futures
import copy
import gc
import multiprocessing
import os
import pickle

import joblib
import numpy as np
import pytest
from randomgen import AESCounter
from scipy.stats import kstest

from helpers import draw, in_fork
from noisette.core.randomness import Randomness, as_randomness
from noisette.errors import InvalidParameter, RandomnessError

WORKERS = 4


def test_the_bit_source_is_aes_128_in_counter_mode():
    """FIPS-197 appendix C.1: this key and block give 69c4...c55a."""
    key = bytes.fromhex("000102030405060708090a0b0c0d0e0f")
    block = bytes.fromhex("00112233445566778899aabbccddeeff")
    bits = AESCounter(key=int.from_bytes(key, "little"), counter=int.from_bytes(block, "little"))
    words = bits.random_raw(2)
    assert words.astype("<u8").tobytes().hex() == "69c4e0d86a7b0430d8cdb78070b4c55a"


def test_the_source_is_that_cipher_under_a_full_key():
    source = Randomness.secure()
    assert isinstance(source.generator.bit_generator, AESCounter)
    keys = {str(Randomness.secure().generator.bit_generator.state) for _ in range(50)}
    assert len(keys) == 50


def test_uniforms_are_uniform():
    """KS on 50,000 numbers, size 1e-6; numbers squeezed by 3 % are rejected."""
    drawn = Randomness.secure().generator.random(50_000)
    assert kstest(drawn, "uniform").pvalue > 1e-6
    assert kstest(0.97 * drawn, "uniform").pvalue < 1e-6


def test_a_seed_reproduces_and_only_that_seed():
    assert draw(Randomness.from_seed(7)) == draw(Randomness.from_seed(7))
    assert draw(Randomness.from_seed(7)) != draw(Randomness.from_seed(8))
    assert Randomness.from_seed(7).seeded
    assert not Randomness.secure().seeded


def test_children_are_different_from_each_other_and_reproducible():
    parent = Randomness.from_seed(7)
    first = [draw(child) for child in parent.spawn(3)]
    later = [draw(child) for child in parent.spawn(3)]
    nested = [draw(child) for child in Randomness.from_seed(7).spawn(1)[0].spawn(3)]
    assert len({*first, *later, *nested, draw(Randomness.from_seed(7))}) == 10
    assert [draw(child) for child in Randomness.from_seed(7).spawn(3)] == first
    secure = Randomness.secure().spawn(4)
    assert len({draw(child) for child in secure}) == 4


def test_repr_never_shows_seed_or_state():
    text = repr(Randomness.from_seed(123456789))
    assert "123456789" not in text
    assert "seeded" in text
    state = str(Randomness.secure().generator.bit_generator.state)
    assert repr(Randomness.secure()) not in state


# ---- fork ----


def test_a_secure_source_draws_other_numbers_in_every_forked_child():
    source = Randomness.secure()
    children = [in_fork(lambda: draw(source)) for _ in range(WORKERS)]
    assert len({*children, draw(source)}) == WORKERS + 1


def test_a_kept_generator_does_not_repeat_the_parent_after_a_fork():
    source = Randomness.secure()
    kept = source.generator
    kept.random(3)  # also in the middle of a block
    children = [in_fork(lambda: kept.standard_normal(8).tobytes()) for _ in range(WORKERS)]
    assert len({*children, kept.standard_normal(8).tobytes()}) == WORKERS + 1


def test_a_generator_whose_source_was_forgotten_does_not_repeat_either():
    # Was: `Randomness` is held weakly, so `Randomness.secure().generator` is not re-keyed.
    kept = as_randomness(None).generator
    gc.collect()
    child = in_fork(lambda: kept.standard_normal(8).tobytes())
    assert child != kept.standard_normal(8).tobytes()


def test_a_seeded_source_refuses_after_a_fork_and_its_kept_generator_differs():
    source = Randomness.from_seed(1)
    kept = source.generator
    error = in_fork(lambda: draw(source))
    assert isinstance(error, RandomnessError)
    assert "spawn" in str(error)
    assert isinstance(in_fork(lambda: source.spawn(2)), RandomnessError)
    assert in_fork(lambda: kept.standard_normal(8).tobytes()) != draw(source)
    assert draw(source)  # the parent goes on


def test_a_source_made_before_two_generations_of_forks_is_fresh_in_each():
    source = Randomness.secure()

    def middle():
        return [draw(source), in_fork(lambda: draw(source))]

    assert len({*in_fork(middle), *in_fork(middle), draw(source)}) == 5


# ---- pickle and copy ----


def test_a_pickled_or_deep_copied_secure_source_has_another_state():
    source = Randomness.secure()
    copies = [pickle.loads(pickle.dumps(source)), pickle.loads(pickle.dumps(source))]
    copies.append(copy.deepcopy(source))
    assert len({draw(s) for s in [source, *copies]}) == 4
    key = source.generator.bit_generator.state["s"]["seed"]
    assert np.asarray(key).tobytes() not in pickle.dumps(source)
    with pytest.raises(RandomnessError):
        copy.copy(source)


@pytest.mark.parametrize("way", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_seeded_source_cannot_be_pickled_or_copied(way):
    with pytest.raises(RandomnessError, match="spawn"):
        way(Randomness.from_seed(3))


@pytest.mark.parametrize("way", [lambda g: pickle.loads(pickle.dumps(g)), copy.deepcopy])
def test_the_generator_itself_is_never_copied_with_its_state(way):
    # Was: NumPy's Generator pickles its state, so two workers given `source.generator` agree.
    source = Randomness.secure()
    twin = way(source.generator)
    assert twin.standard_normal(8).tobytes() != draw(source)


# ---- workers ----


def assert_all_different(source: Randomness, drawn: list[bytes]) -> None:
    assert len({*drawn, draw(source)}) == len(drawn) + 1


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_multiprocessing_workers_draw_different_noise(method):
    source = Randomness.secure()
    with multiprocessing.get_context(method).Pool(2) as pool:
        assert_all_different(source, pool.map(draw, [source] * WORKERS, chunksize=1))
        with pytest.raises(RandomnessError, match="pickled"):
            pool.map(draw, [Randomness.from_seed(1)] * 2)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_concurrent_futures_workers_draw_different_noise():
    source = Randomness.secure()
    context = multiprocessing.get_context("fork")
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
        assert_all_different(source, list(pool.map(draw, [source] * WORKERS)))
        refused = pool.submit(draw, Randomness.from_seed(1))
        with pytest.raises(RandomnessError, match="pickled"):
            refused.result()


def test_joblib_workers_draw_different_noise():
    source = Randomness.secure()
    with joblib.parallel_config(backend="loky", n_jobs=2):
        drawn = joblib.Parallel()(joblib.delayed(draw)(source) for _ in range(WORKERS))
    assert_all_different(source, drawn)
    with pytest.raises((RandomnessError, pickle.PicklingError)):
        joblib.Parallel(n_jobs=2, backend="loky")(
            joblib.delayed(draw)(Randomness.from_seed(1)) for _ in range(2)
        )


def test_the_mutant_that_copies_a_generator_into_workers_is_seen():
    """What a known library does: NumPy's own generator gives every worker the same noise."""
    plain = np.random.default_rng(1)
    children = [in_fork(lambda: plain.standard_normal(8).tobytes()) for _ in range(2)]
    assert children[0] == children[1]


def test_a_seeded_child_can_be_given_to_one_worker():
    children = Randomness.from_seed(4).spawn(3)
    recipes = [child.to_worker() for child in children]
    with pytest.raises(RandomnessError):
        draw(children[0])  # given away
    drawn = [in_fork(lambda r=r: draw(Randomness.in_worker(r))) for r in recipes]
    assert len(set(drawn)) == 3
    assert drawn == [draw(child) for child in Randomness.from_seed(4).spawn(3)]
    with pytest.raises(RandomnessError):
        Randomness.secure().to_worker()


def test_threads_of_one_source_share_no_number():
    source = Randomness.secure()
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        blocks = list(pool.map(lambda _: source.generator.random(2_000), range(16)))
    assert len(np.unique(np.concatenate(blocks))) == 32_000


# ---- random_state ----


def test_random_state_none_is_secure_and_an_integer_is_a_seed():
    assert not as_randomness(None).seeded
    assert as_randomness(np.int64(5)).seeded
    assert draw(as_randomness(5)) == draw(Randomness.from_seed(5))
    source = Randomness.secure()
    assert as_randomness(source) is source


@pytest.mark.parametrize("bad", [-1, 1.5, True, "7", np.random.default_rng(0), os])
def test_other_random_states_are_refused(bad):
    with pytest.raises(InvalidParameter, match="random_state"):
        as_randomness(bad)


# ---- the bits behind the generator ----


WAYS_OUT = {
    "generator.spawn": lambda g: g.spawn(2),
    "spawn": lambda g: g.bit_generator.spawn(2),
    "seed_seq": lambda g: g.bit_generator.seed_seq.spawn(2),
    "jumped": lambda g: g.bit_generator.jumped(),
    "pickle": lambda g: pickle.dumps(g.bit_generator),
    "copy": lambda g: copy.copy(g.bit_generator),
    "deepcopy": lambda g: copy.deepcopy(g.bit_generator),
    "pickle of a plain generator": lambda g: pickle.dumps(np.random.Generator(g.bit_generator)),
}


@pytest.mark.parametrize("way", WAYS_OUT)
@pytest.mark.parametrize("make", [Randomness.secure, lambda: Randomness.from_seed(1)])
def test_the_bits_behind_a_source_have_neither_copies_nor_children(make, way):
    """Equal copies or children in two forked processes would draw identical noise."""
    source = make()
    before = source.generator.bit_generator.state["s"]["counter"].copy()
    with pytest.raises(RandomnessError, match=r"Randomness\.spawn"):
        WAYS_OUT[way](source.generator)
    after = source.generator.bit_generator.state["s"]["counter"]
    assert (after == before).all()
    source.generator.random()


def test_bits_that_somebody_kept_are_rekeyed_by_a_fork():
    """Their source is no longer named anywhere."""
    kept = np.random.Generator(Randomness.secure().generator.bit_generator)
    children = [in_fork(lambda: kept.bytes(16)) for _ in range(2)]
    assert len({*children, kept.bytes(16)}) == 3


def test_a_child_without_a_fresh_key_is_stopped(monkeypatch, capfd):
    """Python ignores an error after a fork; the child would go on with its parent's noise."""
    source = Randomness.secure()

    def broken(bits: int) -> int:
        raise OSError("no randomness")

    monkeypatch.setattr("noisette.core.randomness.secrets.randbits", broken)
    child = os.fork()
    if child == 0:
        os._exit(len(draw(source)) > 0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 70
    assert "could not get a fresh key" in capfd.readouterr().err
