"""Models of earlier days: the model folders beside the tables, to be looked at again."""

import os
from dataclasses import dataclass
from pathlib import Path

from noisette.app.studio.runs import Order
from noisette.errors import InvalidParameter
from noisette.tables import read_model
from noisette.tables.folders import MODEL, REPORT

_MOST = 100


@dataclass(frozen=True)
class StoredModel:
    """A model that was trained before; it looks like a training that has ended well."""

    order: Order
    state: str = "done"
    warning: str = ""


class Shelf:
    """The model folders in one folder, and those of them that were opened.

    Parameters
    ----------
    folder : Path
        Where models are kept.

    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._opened: dict[str, StoredModel] = {}

    def names(self) -> list[str]:
        """Return the names of the model folders, the newest first."""
        found = []
        try:
            with os.scandir(self._folder) as items:
                for item in items:
                    files = [Path(item.path) / name for name in (MODEL, REPORT)]
                    named = item.name.isprintable() and not item.name.startswith(".")
                    if named and all(file.is_file() for file in files):
                        # the time of its last rename: the one of its content is that of a day
                        found.append((item.stat().st_ctime, item.name))
        except OSError:
            return []
        return [name for _, name in sorted(found, reverse=True)[:_MOST]]

    def get(self, key: str) -> StoredModel | None:
        """Return a model that was opened."""
        return self._opened.get(key)

    def open(self, name: str) -> StoredModel:
        """Open one of the models by the name of its folder; its parts must fit each other."""
        if name not in self.names():
            raise InvalidParameter("there is no such model in this folder.")
        read_model(self._folder / name)
        known = (one for one in self._opened.values() if one.order.out.name == name)
        found = next(known, None) or StoredModel(Order((), self._folder / name, "", ""))
        self._opened[found.order.key] = found
        return found
