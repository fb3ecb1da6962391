"""Write licences.md: every package that noisette brings along, its version and its licence.

Run by ``make licences``. What the packages say of themselves is read from what is installed, so
the list is as true as the environment that is released.
"""

import re
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

OURS = ("dev", "docs")
"""Extras for people who work on noisette; nobody who uses it gets them."""

PLAIN = {
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD",
    "MIT License": "MIT",
    "Python Software Foundation License": "PSF-2.0",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "ISC License (ISCL)": "ISC",
    "GNU Lesser General Public License v3 (LGPLv3)": "LGPL-3.0",
}
HEAD = """# Licences of what noisette brings along

Written by `make licences` from the installed packages; noisette itself is BSD-3-Clause. An
extra is what `pip install 'noisette[extra]'` adds; what the core needs is listed there only.

| needed by | package | version | licence |
|---|---|---|---|
"""


def normal(name: str) -> str:
    """Return the name of a package as indices spell it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def needed(name: str, extra: str = "") -> Iterator[str]:
    """Yield what a package needs here, with an extra or without any."""
    from packaging.requirements import Requirement

    for line in metadata.requires(name) or ():
        wanted = Requirement(line)
        here = wanted.marker is None or wanted.marker.evaluate({"extra": extra})
        always = wanted.marker is None or wanted.marker.evaluate({"extra": ""})
        if here and (not extra or not always):
            yield normal(wanted.name)
            for inner in wanted.extras:
                yield from needed(wanted.name, inner)


def closure(names: set[str]) -> set[str]:
    """Return the packages and all that they need, as far as they are installed here."""
    found: set[str] = set()
    waiting = set(names)
    while waiting:
        name = waiting.pop()
        try:
            metadata.version(name)
        except metadata.PackageNotFoundError:
            continue  # of another platform
        found.add(name)
        waiting |= set(needed(name)) - found
    return found


def licence(name: str) -> str:
    """Return what a package says of its licence."""
    about = metadata.metadata(name)
    if "License-Expression" in about:
        return str(about["License-Expression"])
    kinds = [line.split(" :: ")[-1] for line in about.get_all("Classifier") or ()
             if line.startswith("License ::")]  # fmt: skip
    kinds = [PLAIN.get(kind, kind) for kind in kinds if kind != "OSI Approved"]
    text = " ".join(about.get_all("License") or ()).strip()
    short = text if 0 < len(text) < 40 and "\n" not in text else ""
    return short or ", ".join(kinds) or "not stated"


def table() -> str:
    """Return the whole page."""
    core = closure(set(needed("noisette")))
    groups = {"noisette": core}
    for extra in sorted(metadata.metadata("noisette").get_all("Provides-Extra") or ()):
        if extra not in OURS:
            groups[f"[{extra}]"] = closure(set(needed("noisette", extra))) - core
    lines = [
        f"| {group} | {name} | {metadata.version(name)} | {licence(name)} |"
        for group, names in groups.items()
        for name in sorted(names)
    ]
    return HEAD + "\n".join(lines) + "\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(table(), encoding="utf-8")
