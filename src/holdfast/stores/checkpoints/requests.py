"""What the configuration wants captured although a project's `.gitignore` leaves it out.

A pattern with a `!` in `checkpoints.exclude` wins over every `.gitignore`. A folder that is brought
back so is captured with all that is in it, but for what the default rules leave out. Keys and
passwords have to be asked for by name: a pattern such as `!*` does not bring them back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Self

from holdfast.stores.checkpoints.ignore_patterns import Pattern, Patterns
from holdfast.value import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Requests:
    """The patterns of the configuration; all rules that hold everywhere, those among them; and the
    ones about secrets."""

    configured: Patterns
    standing: Patterns
    secrets: Patterns

    @classmethod
    def read(cls, text: bytes, marker: str, secrets: Iterable[str]) -> Self | None:
        """The requests in the text of the rules; None if nothing is requested."""
        lines = text.split(b"\n")
        configured = Patterns(lines[lines.index(marker.encode()) + 1 :])
        if not configured.negates:
            return None
        names = Patterns(each.encode() for each in secrets)
        return cls(configured=configured, standing=Patterns(lines), secrets=names)

    def left_out(self, path: bytes, ignored: Sequence[bytes], *, is_folder: bool) -> str | None:
        """Why a path that git ignores is not captured; None if it is. `ignored` are the folders
        above it that git ignores, the outermost first. The reason is the rule that holds
        everywhere, or "" when the project's own rules are the reason."""
        asked = [*((folder, True) for folder in ignored), (path.rstrip(b"/"), is_folder)]
        outermost, *inside = asked
        # At the outermost, a rule of the project matched. What git says below follows from that.
        if not self._wanted(outermost[0], is_folder=outermost[1]):
            return ""
        for each, folder in inside:
            if rule := self._standing(each, is_folder=folder):
                return rule
        return None

    def secret(self, path: bytes, pattern: bytes) -> str:
        """The rule that still leaves out a path that a pattern brings back; "" if none does."""
        found = self.configured.named(pattern)
        return self._hidden(path, found) if found is not None else ""

    def _wanted(self, path: bytes, *, is_folder: bool) -> bool:
        found = self.configured.last(path, is_folder=is_folder)
        return found is not None and found.negated and not self._hidden(path, found)

    def _standing(self, path: bytes, *, is_folder: bool) -> str:
        found = self.standing.last(path, is_folder=is_folder)
        if found is None:
            return ""
        return self._hidden(path, found) if found.negated else _text(found)

    def _hidden(self, path: bytes, by: Pattern) -> str:
        """The rule about secrets that a pattern without a name in it does not outrank."""
        if not by.is_wide:
            return ""
        found = self.secrets.last(path, is_folder=False)
        return "" if found is None or found.negated else _text(found)


def _text(pattern: Pattern) -> str:
    return pattern.text.decode("utf-8", "surrogateescape")
