"""How a value, a name or a path appears in a message: one line, printable, never long."""

from __future__ import annotations

import re
from collections.abc import Iterable

from holdfast.model.printable import one_line

_LONGEST = 40
_LONGEST_NAME = 64  # as long as a source name may be: a valid key is never cut
_LARGEST_SHOWN = 10**18
_BARE = re.compile(r"[A-Za-z0-9_-]+")


def cut(text: str, longest: int = _LONGEST) -> str:
    """The beginning of `text`, printable and at most `longest` characters."""
    safe = one_line(text[: longest + 1])
    return safe if len(safe) <= longest else safe[: longest - 3] + "..."


def dotted(path: Iterable[str]) -> str:
    """A key as TOML writes it: `sessions.source."a.b".keep_last`."""
    names = ((part, cut(part, _LONGEST_NAME)) for part in path)
    return ".".join(name if _BARE.fullmatch(part) else f'"{name}"' for part, name in names)


def found(value: object) -> str:
    """A value of any type as a person would name it; what is inside tables is not repeated."""
    if isinstance(value, bool):
        return f"{str(value).lower()} (a boolean)"
    if isinstance(value, int) and abs(value) > _LARGEST_SHOWN:
        return "a far larger number" if value > 0 else "a far smaller number"
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, str):
        return f'"{cut(value)}" (text)'
    names = {"dict": "a table", "list": "a list"}
    names |= dict.fromkeys(("datetime", "date", "time"), "a date or time")
    kind = type(value).__name__
    return names.get(kind, f"a value of type {cut(kind)}")


def nearest(name: str, choices: Iterable[str]) -> str | None:
    """The choice that `name` was probably meant to be."""
    import difflib  # noqa: PLC0415 - only a mistyped name pays for it

    if len(name) > _LONGEST_NAME:
        return None
    by_lower = {choice.lower(): choice for choice in choices}
    close = difflib.get_close_matches(name.lower(), by_lower, n=1)
    return by_lower[close[0]] if close else None
