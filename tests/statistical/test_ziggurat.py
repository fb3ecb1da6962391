"""Many normal numbers at once: the words are the cipher's, and the law is the normal law."""

import contextlib
import math
import os
import signal
import threading
from pathlib import Path

import numpy as np
import pytest
from scipy.special import erfc
from scipy.stats import chisquare, norm

from noisette.core import randomness
from noisette.core import ziggurat as _ziggurat
from noisette.core.mechanisms import Gaussian, SphericalLaplace
from noisette.core.randomness import Randomness
from noisette.core.ziggurat import tables
from noisette.errors import RandomnessError

MANY = 1 << 20
SIZE = 1e-6  # a right law fails with this probability; seeds are fixed
needs_openssl = pytest.mark.skipif(
    randomness._openssl() is None, reason="cryptography is not installed"
)


def words_of(source, *counts):
    with source._bits.words() as words:
        return np.concatenate([words(count).copy() for count in counts])


@needs_openssl
def test_openssl_gives_the_words_that_the_generator_would_give():
    ours, plain = Randomness.from_seed(3), Randomness.from_seed(3)
    sizes = np.random.default_rng(0)
    for _ in range(200):
        a, b, between = (int(k) for k in sizes.integers(0, 9_000, 3) // sizes.choice([1, 900], 3))
        assert np.array_equal(words_of(ours, a, b), plain._bits.random_raw(a + b))
        one, other = ours.generator, plain.generator
        assert np.array_equal(one.random(between), other.random(between))
        assert one.integers(9, dtype=np.uint32) == other.integers(9, dtype=np.uint32)


def test_the_numbers_are_the_same_without_openssl(monkeypatch):
    drawn = Randomness.from_seed(1).generator.standard_normal((3, 5_000))
    monkeypatch.setattr(randomness, "_openssl", lambda: None)
    assert np.array_equal(Randomness.from_seed(1).generator.standard_normal((3, 5_000)), drawn)


@pytest.mark.parametrize("count", [1, 2, 3, 100, 8192, 8193, MANY])
def test_they_are_numpys_numbers_for_the_same_words(count):
    bits, plain = np.random.PCG64(5), np.random.Generator(np.random.PCG64(5))
    for _ in range(max(1, 1000 // count)):
        drawn, wanted = _ziggurat.normals(count, bits.random_raw), plain.standard_normal(count)
        assert np.allclose(drawn, wanted, rtol=2e-14, atol=0.0)  # NumPy's tables have 14 digits
        assert bits.state == plain.bit_generator.state  # as many words were read


def test_layers_have_one_area_and_cover_the_density():
    width, sure, height = _ziggurat.tables()
    x = width * _ziggurat.PLACES
    edge = x[-1]
    area = edge * math.exp(-0.5 * edge**2) + math.sqrt(math.pi / 2) * erfc(edge / math.sqrt(2))
    assert np.allclose(x[1:] * -np.diff(height), area, rtol=1e-12, atol=0.0)  # the first ends at 1
    assert x[0] * height[-1] == pytest.approx(area, rel=1e-14)
    assert np.allclose(height, np.exp(-0.5 * np.append(0.0, x[1:]) ** 2), rtol=1e-14, atol=0.0)
    inner = np.concatenate(([x[-1], 0.0], x[1:-1]))
    assert np.all(np.abs(sure - inner / x * _ziggurat.PLACES) <= 2.0)


def pvalue(numbers):
    """Chi-square over 400 equal cells and more of them out to 20 numbers in each tail."""
    far = norm.isf(20.0 / numbers.size)
    inner = norm.ppf(np.arange(1, 400) / 400)
    edges = np.concatenate((-np.linspace(far, 3.1, 6), inner, np.linspace(3.1, far, 6)))
    edges = np.unique(np.concatenate(([-np.inf], edges, [np.inf])))
    found, _ = np.histogram(numbers, edges)
    return chisquare(found, np.diff(norm.cdf(edges)) * numbers.size).pvalue


def test_the_law_is_normal():
    assert pvalue(Randomness.from_seed(7).generator.standard_normal(4 * MANY)) > SIZE


def mutated(which):
    width, sure, height = (table.copy() for table in _ziggurat.tables())
    if which == "no tail":
        sure[0] = _ziggurat.PLACES
    elif which == "all accepted":
        sure[:] = _ziggurat.PLACES
    elif which == "scale":
        width *= 0.99
    elif which == "one layer":
        width[40] *= 1.0 + 1e-12
    elif which == "one wedge":
        sure[200] += 2**40
    return width, sure, height


@pytest.mark.parametrize("which", ["no tail", "all accepted", "scale"])
def test_a_wrong_table_gives_another_law(monkeypatch, which):
    wrong = mutated(which)
    monkeypatch.setattr(_ziggurat, "tables", lambda: wrong)
    assert pvalue(Randomness.from_seed(7).generator.standard_normal(4 * MANY)) < SIZE


@pytest.mark.parametrize("which", ["one layer", "one wedge"])
def test_a_table_that_is_hardly_wrong_gives_other_numbers_than_numpys(monkeypatch, which):
    wrong = mutated(which)
    monkeypatch.setattr(_ziggurat, "tables", lambda: wrong)
    drawn = _ziggurat.normals(2 * MANY, np.random.PCG64(5).random_raw)
    wanted = np.random.Generator(np.random.PCG64(5)).standard_normal(2 * MANY)
    assert not np.allclose(drawn, wanted, rtol=2e-14, atol=0.0)


def test_threads_never_get_the_same_numbers():
    source, drawn = Randomness.secure(), []

    def draw():
        for _ in range(20):
            drawn.append(source.generator.standard_normal(randomness._BULK))
            drawn.append(source.generator.standard_normal(100))

    threads = [threading.Thread(target=draw) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    together = np.concatenate(drawn)
    assert together.size == 80 * (randomness._BULK + 100)
    # 660,000 places of 2^52 in 256 layers: equal ones are expected 1e-6 times
    assert np.unique(together).size == together.size


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_draws_other_numbers():
    source = Randomness.secure()
    source.generator.standard_normal(randomness._BULK)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, source.generator.standard_normal(randomness._BULK)[:100].tobytes())
        os._exit(0)
    os.waitpid(child, 0)
    theirs = np.frombuffer(os.read(read, 800))
    ours = source.generator.standard_normal(randomness._BULK)[:100]
    assert theirs.size == 100
    assert np.intersect1d(ours, theirs).size == 0


@needs_openssl
def test_an_error_in_between_hands_no_word_out_twice():
    ours, plain = Randomness.from_seed(4), Randomness.from_seed(4)
    with contextlib.suppress(ZeroDivisionError), ours._bits.words() as words:
        words(10_000)
        raise ZeroDivisionError
    plain._bits.random_raw(10_000)
    assert np.array_equal(words_of(ours, 50), plain._bits.random_raw(50))


@needs_openssl
def test_an_interrupt_before_the_cipher_hands_no_word_out_twice():
    source = Randomness.from_seed(4)
    seen = [words_of(source, 2**12 + 3)]

    class Interrupting:
        def update_into(self, *given):
            raise KeyboardInterrupt

    with source._bits.words() as words:
        seen.append(words(2**12).copy())
        vars(words.__self__)["_cipher"] = Interrupting()
        with pytest.raises(KeyboardInterrupt):
            words(100)  # less than stands in the buffer
    seen.append(words_of(source, 50))
    every = np.concatenate(seen)
    assert len(np.unique(every)) == len(every)


@needs_openssl
def test_a_draw_within_a_draw_gets_words_of_its_own():
    source = Randomness.from_seed(4)
    seen = []
    with source._bits.words() as words:  # and then a handler of a signal draws, in the same thread
        first = words(100)
        seen.append(first.copy())
        seen.append(source._bits.random_raw(50))
        with source._bits.words() as inner:
            seen.append(inner(100).copy())
        assert np.array_equal(first, seen[0])
        seen.append(words(100).copy())
    seen.append(words_of(source, 100))
    seen.append(source._bits.random_raw(50))
    every = np.concatenate(seen)
    assert len(np.unique(every)) == len(every)


def in_child(work):
    """Return the bytes that `work` returns in a forked process; an empty text if it hangs."""
    come, go = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        try:
            os.write(go, work())
        finally:
            os._exit(0)
    os.close(go)
    with os.fdopen(come, "rb") as answer:
        found = answer.read()
    os.waitpid(child, 0)
    return found


@pytest.mark.parametrize("openssl", [pytest.param(True, marks=needs_openssl), False])
@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_a_child_forked_within_a_draw_refuses_the_rest_of_it(openssl, monkeypatch):
    if not openssl:
        monkeypatch.setattr(randomness, "_openssl", lambda: None)
    source = Randomness.secure()
    draw = contextlib.ExitStack()
    words = draw.enter_context(source._bits.words())
    words(10)

    def ended():
        try:
            draw.close()
        except RandomnessError:
            return source._bits.random_raw(1).tobytes()  # by a key of its own
        return b"went on"

    found = in_child(ended)
    draw.close()
    assert len(found) == 8
    assert found != source._bits.random_raw(1).tobytes()


@needs_openssl
@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_a_child_forked_while_a_thread_draws_can_draw():
    source = Randomness.secure()
    thread = threading.Thread(target=source.generator.standard_normal, args=(3_000_000,))
    thread.start()
    found = in_child(lambda: source.generator.standard_normal(10_000)[:5].tobytes())
    thread.join()
    assert len(found) == 40
    assert found != source.generator.standard_normal(10_000)[:5].tobytes()


def test_many_vectors_get_the_length_that_few_get():
    many, few = Randomness.from_seed(9), Randomness.from_seed(9)
    mechanism = SphericalLaplace(2.0, dimension=50)
    drawn = mechanism.noise(400, 50, 3.0, many.generator)
    direction = few.generator.standard_normal((400, 50))
    radius = 6.0 * few.generator.standard_gamma(50, size=400)
    assert np.linalg.norm(drawn, axis=1) == pytest.approx(radius, rel=1e-13)
    unit = direction / np.linalg.norm(direction, axis=1)[:, None]
    assert drawn == pytest.approx(unit * radius[:, None], rel=1e-12)


def test_words_are_handed_out_once_though_they_stand_in_one_buffer():
    ours, plain = Randomness.from_seed(4), Randomness.from_seed(4)
    with ours._bits.words() as words:
        for count in (3, 2**15, 1, 2**15 + 5, 0, 7, 2**17, 8):
            assert np.array_equal(words(count), plain._bits.random_raw(count))
    assert np.array_equal(ours._bits.random_raw(9), plain._bits.random_raw(9))


def test_the_lattice_is_as_fine_as_the_theorem_says():
    # FLOAT-GRID and ZIGGURAT name these numbers, and docs/pitfalls.md repeats them.
    widest = 3.92 * 2.0**-52
    assert widest / 1.01 < tables()[0].max() < widest
    for z in np.exp(np.random.default_rng(0).uniform(-30.0, 30.0, 500)):
        cell = Gaussian(float(z)).grid(1.0) / z
        assert 2.0**-25 < cell <= 2.0**-24
        assert cell / widest > 2.0**25
    # Laplace noise from 53 bits: beyond 18.7 scales a cell of the grid has a point or none
    for scales, points in ((0.1, 2.0**27 * math.exp(-0.1)), (10.0, 6093.3), (18.7149, 1.0)):
        u = round(2.0**52 * math.exp(-scales))  # of 2^53, on either side
        assert 2.0**-25 / math.log1p(1.0 / u) == pytest.approx(points, rel=1e-3)
    text = (Path(__file__).parents[2] / "docs/theory/theorems.md").read_text(encoding="utf-8")
    assert "3.92·2⁻⁵²" in text
    assert "18.7 s" in text
