"""A small TOML writer for schemas: texts, numbers, truth values, lists and tables."""

import json
import math
import re
from typing import Any

from noisette._validate import steers

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def _sign(sign: str) -> str:
    """Return a sign of a text as it stands, or written out: a schema is read by people."""
    written = f"\\u{ord(sign):04x}" if ord(sign) < 0x10000 else f"\\U{ord(sign):08x}"
    return sign if sign.isprintable() or not steers(sign) else written


def key(name: str) -> str:
    """Return a key, in quotes where TOML wants them."""
    return name if _BARE.fullmatch(name) else value(name)


def value(item: Any) -> str:
    """Return a value on one line."""
    if isinstance(item, str):
        return "".join(map(_sign, json.dumps(item, ensure_ascii=False)))
    if isinstance(item, bool):
        return "true" if item else "false"
    if isinstance(item, float) and not math.isfinite(item):
        return "nan" if item != item else ("inf" if item > 0.0 else "-inf")
    if isinstance(item, list):
        return "[" + ", ".join(map(value, item)) + "]"
    if isinstance(item, dict):
        return "{ " + ", ".join(entries(item)) + " }"
    return repr(item)


def entries(node: dict[str, Any]) -> list[str]:
    """Return the lines of a table."""
    return [f"{key(k)} = {value(v)}" for k, v in node.items()]


def dumps(node: dict[str, Any]) -> str:
    """Return the text of a schema: plain entries, [file], [learn], then one table a column."""
    plain, tables = dict(node), list[str]()
    for name in ("file", "learn"):
        if facts := plain.pop(name, None):
            tables += ["", f"[{name}]", *entries(facts)]
    for name, facts in plain.pop("columns", {}).items():
        tables += ["", f"[columns.{key(name)}]", *entries(facts)]
    return "\n".join([*entries(plain), *tables]) + "\n"
