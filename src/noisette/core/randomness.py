"""The one source of randomness: cryptographic by default, seeded only for experiments.

A secure source is AES-128 in counter mode under a key read from the operating system, behind
NumPy's `Generator` interface (``randomgen.AESCounter``). Where the package cryptography is
installed, long draws have the same words encrypted by OpenSSL, in a third of the time. A source is
never copied: a forked child gets a fresh key before it can draw, and pickling a secure source ships
a request for a new key, never the state. A seeded source gives the same numbers for the same seed;
it refuses to be pickled or used after a fork, because two workers with one state would add
identical noise.

This file and ``mechanisms/`` are the only places in which noise is drawn; what a network asks for
is drawn in ``nn/gradients/chance.py``.
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
from noisette.errors import InvalidParameter, RandomnessError, warn_of_privacy

_KEY_BITS = 128
_BULK = 1 << 13  # normal numbers in one draw; below, loading compiled code costs more than it saves
_GROUP = 8  # words: the cipher's counter goes on by four blocks at a time
_PIECE = 1 << 14  # blocks that are encrypted in one call, and stay in the cache
_COUNTERS, _ROOM = (_PIECE, 2), _GROUP + 2 * _PIECE + 2
_FAR = 1 << 44  # blocks: 280 terabytes
_USED_UP = "a source of noise is used up; make another one."
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
    _kept: "tuple[Words, Words] | None" = None
    """Memory for counters and words, always the same: new pages would cost more."""

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise RandomnessError(
            "the numbers behind a source of noise cannot be copied, pickled, jumped or spawned; "
            "use Randomness.spawn() for another source."
        )

    __reduce__ = __reduce_ex__ = __getstate__ = __copy__ = __deepcopy__ = _refuse
    spawn = jump = jumped = _refuse

    seed_seq = property(_refuse)  # its children would start the same streams in every process

    @contextmanager
    def words(self) -> Iterator[Callable[[int], Words]]:
        """Give a function that returns what ``random_raw(count)`` would, from OpenSSL if it can."""
        process = os.getpid()
        if _openssl() is None:
            yield self.random_raw
            _same_process(process)
            return
        with self.lock:  # two threads must not read one state
            state = self.state
            kept = self._kept or (np.zeros(_COUNTERS, np.uint64), np.zeros(_ROOM, np.uint64))
            self._kept = None
            stream = _Stream(state["s"], kept)
            # The lock lets its own thread in: a handler of a signal that draws meanwhile gets words
            # from behind more than any draw takes, and memory of its own.
            first = int(state["s"]["counter"][0]) + _FAR
            if first > 2**64 - 2 * _FAR:
                raise RandomnessError(_USED_UP)
            own = {**state["s"], "counter": state["s"]["counter"].copy(), "offset": 8 * _GROUP}
            own["counter"][::2] = np.arange(4, dtype=np.uint64) + np.uint64(first)
            self.state = {**state, "s": own}
            try:
                yield stream.take
            finally:  # whatever went wrong, no word is handed out twice
                self._kept = kept
                _same_process(process)
                if int(self.state["s"]["counter"][0]) == first:
                    stream.write_back()
                    self.state = state


def _same_process(process: int) -> None:
    """Refuse a draw that a fork cut in two: the child has a new key, but its parent's words too."""
    if os.getpid() != process:
        raise RandomnessError("this process was forked while noise was drawn; draw it again.")


class _Stream:
    """The words of an ``AESCounter`` from its state on, in the same order, by OpenSSL.

    The state holds the four blocks that were encrypted last, how far they were handed out, and the
    counters of the next four; a block is the cipher of its counter.
    """

    def __init__(self, state: dict[str, Any], rooms: tuple[Words, Words]) -> None:
        self._state = state
        self._left = state["state"][state["offset"] :].view(np.uint64)
        self._counter = int(state["counter"][0])
        self._most = self._counter + _FAR  # and the carry to the upper word is never lost
        # of words: what is left of the last group, then a piece, then what the package asks for
        self._counters, self._words = rooms
        self._high = state["counter"][1]
        self._cipher = _openssl()(state["seed"][:2].tobytes())  # type: ignore[misc]

    def take(self, count: int) -> Words:
        """Return the next words; a piece of them stands there until more are asked for."""
        if count <= 2 * _PIECE:
            return self._next(count)
        sizes = [min(2 * _PIECE, count - done) for done in range(0, count, 2 * _PIECE)]
        return np.concatenate([self._next(size).copy() for size in sizes])

    def _next(self, count: int) -> Words:
        """Return at most a piece of words, in the buffer."""
        kept = len(self._left)
        start = _GROUP - kept
        self._words[start:_GROUP] = self._left
        if count > kept:
            # Whoever is interrupted in here loses words: those that stand in the buffer until it
            # is filled were handed out before.
            self._left = self._left[:0]
            blocks = 4 * -(-(count - kept) // _GROUP)
            if self._counter + blocks > self._most:
                raise RandomnessError(_USED_UP)
            from noisette.core.ziggurat import count_up  # loads numba

            counters = self._counters[:blocks]
            count_up(counters, np.uint64(self._counter), self._high)
            self._counter += blocks
            self._last = self._words[_GROUP : _GROUP + 2 * blocks]
            room = self._words[_GROUP : _GROUP + 2 * blocks + 2]
            self._cipher.update_into(counters.data.cast("B"), room.data.cast("B"))
            self._left = self._last[count - kept :].copy()
        else:
            self._left = self._left[count:].copy()
        return self._words[start : start + count]

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


def _refuse_copy(source: object) -> NoReturn:
    raise RandomnessError("a source of noise cannot be copied; use spawn() for another one.")


class _Generator(np.random.Generator):
    """NumPy's generator, but it belongs to a source and refuses to be copied with its state."""

    source: "Randomness"

    def standard_normal(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        """Return normal numbers; many at once come from a compiled ziggurat."""
        shape = () if size is None else tuple(np.atleast_1d(size).tolist())
        count = math.prod(shape)
        if out is not None or np.dtype(dtype) != np.float64 or count < _BULK:
            return super().standard_normal(size, dtype, out)
        from noisette.core.ziggurat import normals  # loads numba

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

    __copy__ = _refuse_copy


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
    >>> len(Randomness.secure().spawn(3)), Randomness.secure().shared_key() < 2**128
    (3, True)
    >>> source = Randomness.from_seed(0)  # for a repeatable example; never on real data
    >>> source.seeded, source.seed_for_others() == Randomness.from_seed(0).seed_for_others()
    (True, True)
    >>> Randomness.in_worker(source.spawn(1)[0].to_worker())
    <Randomness: seeded, for experiments>

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

        """
        count = _validate.integer("count", count)
        if self._seed is None:
            return [Randomness.secure() for _ in range(count)]
        _ = self.generator  # refuses after a fork
        first, self._children = self._children, self._children + count
        return [Randomness._from_path((*self._seed, first + i)) for i in range(count)]

    def shared_key(self) -> int:
        """Return a fresh secret from which several workers toss the same coins (`coin_words`).

        For who takes part in what, never for noise.

        Returns
        -------
        int
            128 random bits.

        """
        return int.from_bytes(self.generator.bytes(_KEY_BITS // 8), "little")

    def seed_for_others(self) -> int:
        """Return a number that follows from the seed, for another library's generator.

        For what needs no secrecy and is repeated with the experiment (starting weights); no
        number of this source is used up, and noise never comes from there.

        Returns
        -------
        int
            A whole number below 2^63.

        Raises
        ------
        RandomnessError
            If the source is secure: it has no seed.

        """
        if self._seed is None:
            raise RandomnessError("a secure source has no seed to derive another from.")
        sequence = np.random.SeedSequence(self._seed[0], spawn_key=(*self._seed[1:], 2**32 - 1))
        return int(sequence.generate_state(1, np.uint64)[0] >> 1)

    def _after_fork(self) -> None:
        # In place, so that a Generator that somebody kept goes on with other numbers as well.
        self._bits.state = _Bits(key=secrets.randbits(_KEY_BITS)).state
        self._dead = self._seed is not None

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

    __copy__ = _refuse_copy

    def __repr__(self) -> str:
        # Never the state or the seed: either would let a reader subtract the noise.
        return f"<Randomness: {'seeded, for experiments' if self.seeded else 'cryptographic'}>"


def coin_words(key: int, part: int, count: int) -> Words:
    """Return the random words of the rows of one part, the same wherever and whenever asked for.

    AES in counter mode: to whoever lacks the key they are coins, independent for all rows of all
    parts. Bits as they come from the cipher, since what NumPy makes of bits may change with its
    version, and two workers must agree on every row.
    """
    # proof: TEST-SHARE
    return np.asarray(AESCounter(key=key, counter=part << 64).random_raw(count), dtype=np.uint64)


def _wait_for_draws() -> None:
    """Take all locks: a child has no other thread, which could give back one that was held."""
    _held[:] = list(_live)
    for source in _held:
        source._bits.lock.acquire()


def _go_on() -> None:
    while _held:
        _held.pop()._bits.lock.release()


def _go_on_as_child() -> None:
    try:
        for source in list(_live):
            source._after_fork()
    except BaseException:
        # Python ignores errors here, and the child would repeat its parent's noise.
        os.write(2, b"noisette: a forked process could not get a fresh key and was stopped.\n")
        os._exit(70)
    _go_on()


_held: list["Randomness"] = []
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_wait_for_draws, after_in_parent=_go_on, after_in_child=_go_on_as_child
    )


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
    warn_of_privacy("seed", 4)
    return Randomness.from_seed(int(random_state))
