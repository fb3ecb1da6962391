"""`Tape`: a seeded source of noise that keeps two runs on neighbouring data in step.

Every read of `generator` gets its own generator, keyed by (seed, number of the read). Two runs with
the same seed therefore draw the same numbers at the k-th read even if an earlier read took more of
them, as Poisson coins do when one data set has one row more.
"""

import numpy as np

from noisette.core.randomness import Randomness


class Tape(Randomness):
    """A `Randomness` for audits: seeded, counts its reads, knows how much each read consumed."""

    _sources: "list[Randomness]"

    @property
    def generator(self) -> np.random.Generator:
        """Return the generator of the next read."""
        assert self._seed is not None
        sources = self.__dict__.setdefault("_sources", [])
        source = Randomness._from_path((*self._seed, 1 << 20, len(sources)))
        sources.append(source)
        return source.generator

    def spawn(self, count: int) -> "list[Randomness]":
        """Return tapes: a search or a table hands a source of its own to each of its parts."""
        assert self._seed is not None
        first, self._children = self._children, self._children + count
        made = [Tape._from_path((*self._seed, first + i)) for i in range(count)]
        self.__dict__.setdefault("_spawned", []).extend(made)
        return list(made)

    @property
    def reads(self) -> int:
        """How often a generator was asked for, here and in what was spawned."""
        own = len(self.__dict__.get("_sources", []))
        return own + sum(int(each.reads) for each in self.__dict__.get("_spawned", ()))

    def consumed(self) -> tuple[int, ...]:
        """Return the bytes that each read has drawn so far."""
        used = []
        for source in self.__dict__.get("_sources", []):
            state = source._bits.state["s"]
            used.append(int(state["counter"][0]) * 16 + int(state["offset"]) - 64)
        for each in self.__dict__.get("_spawned", ()):
            used.extend(each.consumed())
        return tuple(used)
