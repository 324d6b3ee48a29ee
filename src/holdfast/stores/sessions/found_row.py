"""A message that a search found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.model.session import Hit
from holdfast.stores.sessions import content, session_rows
from holdfast.stores.sessions.indexed_text import bracketed, message_text, snippet
from holdfast.value import dataclass


@dataclass(frozen=True, slots=True)
class FoundRow:
    """A message that was found, with its session, as rows."""

    message: Sequence[Any]
    session: Sequence[Any]

    @property
    def text(self) -> str:
        return message_text(*self.message[3:])

    def hit(self, marked: str, score: float) -> Hit:
        shown, matches = bracketed(snippet(marked))
        return Hit(
            session=session_rows.session(self.session),
            message=content.decode(*self.message),
            snippet=shown,
            score=score,
            matches=matches,
        )
