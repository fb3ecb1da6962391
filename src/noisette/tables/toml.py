"""A small TOML writer for schemas: texts, numbers, truth values, lists and tables."""

import json
import math
import re
from typing import Any

from noisette._validate import steers

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def _sign(sign: str) -> str:
    """Return a sign of a text as it stands, or written out: a schema is read by people."""
    if sign.isprintable() or not steers(sign):
        return sign
    return f"\\u{ord(sign):04x}" if ord(sign) < 0x10000 else f"\\U{ord(sign):08x}"


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
        return "{ " + ", ".join(f"{key(k)} = {value(v)}" for k, v in item.items()) + " }"
    return repr(item)


def dumps(node: dict[str, Any]) -> str:
    """Return the text of a schema: plain entries, [file], [learn], then one table a column."""
    columns = node.get("columns", {})
    tables = ("file", "learn")
    lines = [f"{key(k)} = {value(v)}" for k, v in node.items() if k not in ("columns", *tables)]
    for name in tables:
        if node.get(name):
            lines += ["", f"[{name}]", *(f"{key(k)} = {value(v)}" for k, v in node[name].items())]
    for name, facts in columns.items():
        lines += ["", f"[columns.{key(name)}]"]
        lines += [f"{key(k)} = {value(v)}" for k, v in facts.items()]
    return "\n".join(lines) + "\n"
