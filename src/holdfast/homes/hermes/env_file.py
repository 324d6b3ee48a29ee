"""What of Hermes's `.env` a check-up may know: which switches are on, and whether a key is set.

No value that could be a secret leaves this module.
"""

from __future__ import annotations

import re

_LINE = re.compile(r"^[ \t]*(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_]*)[ \t]*=[ \t]*(.*)$")
_ON = frozenset({"1", "true", "yes", "on"})


def is_on(value: object) -> bool:
    """Whether a switch is on, as Hermes understands it in both of its files."""
    return value is True or (isinstance(value, str) and value.strip().lower() in _ON)


class Variables:
    """The variables of one file. The last line with a name counts."""

    def __init__(self, text: str) -> None:
        self._values = {
            found[1]: _unquoted(found[2]) for found in map(_LINE.match, text.splitlines()) if found
        }

    def is_on(self, name: str) -> bool:
        return is_on(self._values.get(name))

    def is_set(self, name: str) -> bool:
        return bool(self._values.get(name, "").strip())


def _unquoted(value: str) -> str:
    for quote in "'\"":
        if value.startswith(quote):
            return value[1:].split(quote, 1)[0]
    return re.split(r"\s#", value, maxsplit=1)[0].strip()
