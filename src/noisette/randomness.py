"""The one source of randomness: cryptographic by default, seeded only for experiments.

A secure source is AES-128 in counter mode under a key read from the operating system, behind
NumPy's `Generator` interface (``randomgen.AESCounter``). Where the package cryptography is
installed, long draws have the same words encrypted by OpenSSL, in a third of the time. A source is
never copied: a forked child gets
a fresh key before it can draw, and pickling a secure source ships a request for a new key, never
the state. A seeded source gives the same numbers for the same seed; it refuses to be pickled or
used after a fork, because two workers with one state would add identical noise.

This file and ``mechanisms/`` are the only places in which numbers are drawn.
"""

import math
import os
import secrets
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from randomgen import AESCounter

from noisette import _validate
from noisette.errors import InvalidParameter, RandomnessError

__all__ = ["Randomness", "as_randomness"]

_KEY_BITS = 128
_BULK = 1 << 13  # normal numbers in one draw; below, loading compiled code costs more than it saves
_GROUP = 8  # words: the cipher's counter goes on by four blocks at a time
_PIECE = 8192  # blocks that are encrypted in one call, and stay in the cache
_NUMBERS = np.arange(_PIECE, dtype=np.uint64)
Words = NDArray[np.uint64]
_live: "weakref.WeakSet[Randomness]" = weakref.WeakSet()


class _Bits(AESCounter):  # type: ignore[misc]
    """The cipher's counter, which leaves its process neither as a copy nor as a child.

    NumPy would pickle it with its state, and two processes would draw identical noise; its children
    would be derived from fewer secret bits than a source of their own has, and a fork would not
    give them a new key.
    """

    source: "Randomness"
    """Kept alive, so that a fork re-keys whatever can still draw."""
    state: dict[str, Any]

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise RandomnessError(
            "the numbers behind a source of noise cannot be copied, pickled, jumped or spawned; "
            "use Randomness.spawn() for another source."
        )

    __reduce__ = __reduce_ex__ = __getstate__ = __copy__ = __deepcopy__ = _refuse
    spawn = jump = jumped = _refuse

    @property
    def seed_seq(self) -> NoReturn:
        """Refuse: its children would start the same streams in every process."""
        self._refuse()

    @contextmanager
    def words(self) -> Iterator[Callable[[int], Words]]:
        """Give a function that returns what ``random_raw(count)`` would, from OpenSSL if it can."""
        if _openssl() is None:
            yield self.random_raw
            return
        with self.lock:  # two threads must not read one state
            state = self.state
            stream = _Stream(state["s"])
            try:
                yield stream.take
            finally:  # whatever went wrong, no word is handed out twice
                stream.write_back()
                self.state = state


class _Stream:
    """The words of an ``AESCounter`` from its state on, in the same order, by OpenSSL.

    The state holds the four blocks that were encrypted last, how far they were handed out, and the
    counters of the next four; a block is the cipher of its counter.
    """

    def __init__(self, state: dict[str, Any]) -> None:
        self._state = state
        self._left = state["state"][state["offset"] :].view(np.uint64)
        self._counter = int(state["counter"][0])
        self._counters = np.empty((_PIECE, 2), dtype=np.uint64)
        self._counters[:, 1] = state["counter"][1]
        self._cipher = _openssl()(state["seed"][:2].tobytes())  # type: ignore[misc]

    def take(self, count: int) -> Words:
        """Return the next words, in memory of their own."""
        made = min(len(self._left), count)
        more = max(0, -(-(count - made) // _GROUP))
        # Behind the words there is room for a block, which the cipher asks for.
        out = np.empty(made + _GROUP * more + 2, dtype=np.uint64)
        out[:made] = self._left[:made]
        self._left = self._left[made:]
        while more > 0:
            groups = min(more, _PIECE // 4)
            self._encrypt(4 * groups, out[made:])
            made, more = made + _GROUP * groups, more - groups
            self._last = out[made - _GROUP : made]
            self._left = out[count:made]
        return out[:count]

    def _encrypt(self, blocks: int, out: Words) -> None:
        """Put the next blocks into the beginning of `out`."""
        if self._counter + blocks > 2**64 - 8:  # the carry would be lost
            raise RandomnessError("a source of noise is used up; make another one.")
        counters = self._counters[:blocks]
        np.add(_NUMBERS[:blocks], np.uint64(self._counter), out=counters[:, 0])
        self._counter += blocks
        self._cipher.update_into(counters.data.cast("B"), out.data.cast("B"))

    def write_back(self) -> None:
        """Make the state go on behind the last word that was taken."""
        if hasattr(self, "_last"):
            self._state["state"] = self._last[-_GROUP:].view(np.uint8).copy()
            self._state["counter"][::2] = np.arange(4, dtype=np.uint64) + np.uint64(self._counter)
        self._state["offset"] = 8 * (_GROUP - len(self._left))


@cache
def _openssl() -> Callable[[bytes], Any] | None:
    """Return what makes a cipher of a key, if the package is installed."""
    try:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
    except ImportError:
        return None
    return lambda key: Cipher(algorithms.AES(key), modes.ECB()).encryptor()


class _Generator(np.random.Generator):
    """NumPy's generator, but it belongs to a source and refuses to be copied with its state."""

    source: "Randomness"

    def standard_normal(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        """Return normal numbers; many at once come from a compiled ziggurat."""
        shape = () if size is None else tuple(np.atleast_1d(size).tolist())
        count = math.prod(shape)
        if out is not None or np.dtype(dtype) != np.float64 or count < _BULK:
            return super().standard_normal(size, dtype, out)
        from noisette._ziggurat import normals  # loads numba

        with self.source._bits.words() as words:
            return normals(count, words).reshape(shape)

    def spawn(self, n_children: int) -> NoReturn:
        """Refuse: a fork would not give the children new keys."""
        raise RandomnessError(
            "the generator of a source of noise cannot be spawned; use Randomness.spawn()."
        )

    def __reduce__(self) -> tuple[Any, ...]:
        self.source._refuse_copy_of_seeded()
        return (_fresh_generator, ())

    def __copy__(self) -> "_Generator":
        raise RandomnessError("a source of noise cannot be copied; use spawn() for another one.")

    def __deepcopy__(self, memo: dict[int, Any]) -> np.random.Generator:
        self.source._refuse_copy_of_seeded()
        return _fresh_generator()


def _fresh_generator() -> np.random.Generator:
    return Randomness.secure().generator


class Randomness:
    """A source of random numbers that belongs to one process.

    Use `Randomness.secure()` to protect people and `Randomness.from_seed(seed)` to reproduce an
    experiment. Read `generator` at each use: the attribute checks that the source still belongs
    to this process.

    Examples
    --------
    >>> from noisette import Randomness
    >>> Randomness.secure()
    <Randomness: cryptographic>
    >>> Randomness.from_seed(0).seeded  # for a repeatable example; never on real data
    True

    """

    def __init__(self, *, _key: int, _seed: tuple[int, ...] | None) -> None:
        self._seed = _seed
        self._children = 0
        self._dead = False
        # The key is used as it is, with no weaker expansion between the system and the cipher.
        self._bits = _Bits(key=_key)
        self._generator = _Generator(self._bits)
        # Both keep their source alive, so that a fork re-keys whatever can still draw.
        self._bits.source = self._generator.source = self
        _live.add(self)

    @classmethod
    def secure(cls) -> "Randomness":
        """Return a cryptographic source with a fresh key from the operating system.

        Returns
        -------
        Randomness
            A source that nobody can predict or repeat.

        """
        return cls(_key=secrets.randbits(_KEY_BITS), _seed=None)

    @classmethod
    def from_seed(cls, seed: int) -> "Randomness":
        """Return a reproducible source, for experiments only.

        Whoever knows the seed can subtract the noise, so the guarantee that it leads to says that
        it is void.

        Parameters
        ----------
        seed : int
            A whole number >= 0.

        Returns
        -------
        Randomness
            The same numbers for the same seed.

        Raises
        ------
        InvalidParameter
            If `seed` is no such number.

        """
        return cls._from_path((_validate.integer("random_state", seed, least=0),))

    @classmethod
    def _from_path(cls, path: tuple[int, ...]) -> "Randomness":
        sequence = np.random.SeedSequence(path[0], spawn_key=path[1:])
        low, high = (int(word) for word in sequence.generate_state(2, np.uint64))
        return cls(_key=low | high << 64, _seed=path)

    @property
    def seeded(self) -> bool:
        """Whether a seed that somebody knows determines the numbers."""
        return self._seed is not None

    @property
    def generator(self) -> np.random.Generator:
        """NumPy's generator over this source, for the process that owns it."""
        if self._dead:
            raise RandomnessError(
                "a seeded source does not survive a fork, because parent and child would draw "
                "identical noise; call spawn() before the fork and give each worker its own child."
            )
        return self._generator

    def spawn(self, count: int) -> list["Randomness"]:
        """Return `count` independent sources, for instance one per worker or per class.

        Parameters
        ----------
        count : int
            How many.

        Returns
        -------
        list of Randomness
            Secure sources of a secure one, seeded children of a seeded one.

        Raises
        ------
        RandomnessError
            If the source is seeded and this process was forked.

        Examples
        --------
        >>> from noisette import Randomness
        >>> len(Randomness.secure().spawn(3))
        3

        """
        count = _validate.integer("count", count)
        if self._seed is None:
            return [Randomness.secure() for _ in range(count)]
        _ = self.generator  # refuses after a fork
        first, self._children = self._children, self._children + count
        return [Randomness._from_path((*self._seed, first + i)) for i in range(count)]

    def seed_for_others(self) -> int:
        """Return a number that follows from the seed, for another library's generator.

        For what needs no secrecy and is repeated with the experiment (starting weights, dropout);
        no number of this source is used up, and noise never comes from there.

        Returns
        -------
        int
            A whole number below 2^63.

        Raises
        ------
        RandomnessError
            If the source is secure: it has no seed.

        Examples
        --------
        >>> from noisette import Randomness
        >>> first, again = Randomness.from_seed(0), Randomness.from_seed(0)  # never on real data
        >>> first.seed_for_others() == again.seed_for_others()
        True

        """
        if self._seed is None:
            raise RandomnessError("a secure source has no seed to derive another from.")
        sequence = np.random.SeedSequence(self._seed[0], spawn_key=(*self._seed[1:], 2**32 - 1))
        return int(sequence.generate_state(1, np.uint64)[0] >> 1)

    def _after_fork(self) -> None:
        if self._seed is None:
            # In place, so that a Generator that somebody kept is re-keyed as well.
            self._bits.state = _Bits(key=secrets.randbits(_KEY_BITS)).state
        else:
            self._dead = True
            # A kept Generator must not go on with the parent's numbers either.
            self._bits.state = _Bits(key=secrets.randbits(_KEY_BITS)).state

    def _refuse_copy_of_seeded(self) -> None:
        if self._seed is not None:
            raise RandomnessError(
                "a seeded source cannot be pickled or copied, because every worker would draw "
                "identical noise; pass spawn(count)[i].to_worker() to each worker."
            )

    def __reduce__(self) -> tuple[Any, ...]:
        self._refuse_copy_of_seeded()
        return (Randomness.secure, ())

    def to_worker(self) -> tuple[int, ...]:
        """Return the recipe of a seeded child for `Randomness.in_worker`, and retire this copy.

        Returns
        -------
        tuple of int
            What `Randomness.in_worker` takes.

        Raises
        ------
        RandomnessError
            If the source is secure: a worker makes its own.

        Examples
        --------
        >>> from noisette import Randomness
        >>> child = Randomness.from_seed(0).spawn(1)[0]  # repeatable; never on real data
        >>> Randomness.in_worker(child.to_worker())
        <Randomness: seeded, for experiments>

        """
        if self._seed is None:
            raise RandomnessError("a secure source needs no recipe; call Randomness.secure().")
        _ = self.generator
        self._dead = True
        return self._seed

    @classmethod
    def in_worker(cls, recipe: tuple[int, ...]) -> "Randomness":
        """Return the seeded source that `to_worker` gave away.

        Parameters
        ----------
        recipe : tuple of int
            What `to_worker` returned.

        Returns
        -------
        Randomness
            The seeded source, in this process.

        """
        return cls._from_path(tuple(_validate.integer("recipe", part, least=0) for part in recipe))

    def __copy__(self) -> "Randomness":
        raise RandomnessError("a source of noise cannot be copied; use spawn() for another one.")

    def __deepcopy__(self, memo: dict[int, Any]) -> "Randomness":
        self._refuse_copy_of_seeded()
        return Randomness.secure()

    def __repr__(self) -> str:
        # Never the state or the seed: either would let a reader subtract the noise.
        return f"<Randomness: {'seeded, for experiments' if self.seeded else 'cryptographic'}>"


def _rekey_all_after_fork() -> None:
    try:
        for source in list(_live):
            source._after_fork()
    except BaseException:
        # Python ignores errors here, and the child would repeat its parent's noise.
        os.write(2, b"noisette: a forked process could not get a fresh key and was stopped.\n")
        os._exit(70)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_rekey_all_after_fork)


def as_randomness(random_state: "int | Randomness | None") -> Randomness:
    """Return the source for a ``random_state`` argument: None is secure, an int is a seed."""
    if random_state is None:
        return Randomness.secure()
    if isinstance(random_state, Randomness):
        return random_state
    if isinstance(random_state, bool) or not isinstance(random_state, int | np.integer):
        raise InvalidParameter(
            "random_state must be None (secure), a whole number >= 0 (reproducible experiment) or "
            f"a Randomness; got an object of type {type(random_state).__name__}."
        )
    return Randomness.from_seed(int(random_state))
