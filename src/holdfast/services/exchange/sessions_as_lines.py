"""Turn another agent's sessions into lines for an import, so that they are checked and stored
exactly as if they had been exported to a file before.

One session at a time is on the disk, in an unnamed temporary file, and never whole in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from tempfile import TemporaryFile
from typing import IO

from holdfast.errors import HoldfastError
from holdfast.model.session import Message, Session
from holdfast.services.exchange.json_lines import LONGEST, SHORT, RawLine
from holdfast.services.exchange.session_line import session_line
from holdfast.value import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeSession:
    """A session with its messages. `notes` are about what is missing in its file."""

    session: Session
    messages: Iterable[Message]
    notes: tuple[str, ...] = ()


def sessions_as_lines(sessions: Iterable[WholeSession]) -> Iterator[RawLine]:
    """Yield a line for each session. A session that cannot be read becomes a line without text, and
    does not affect the others."""
    with TemporaryFile() as spool:
        for number, each in enumerate(sessions, 1):
            try:
                yield _line(number, each, spool)
            except (HoldfastError, OSError, ValueError, KeyError, TypeError) as error:
                reason = error.message if isinstance(error, HoldfastError) else str(error)
                problem = f"it cannot be read: {reason}"
                yield RawLine(
                    number=number, size=0, beginning=b"", session=each.session.id, problem=problem
                )


def _line(number: int, whole: WholeSession, spool: IO[bytes]) -> RawLine:
    spool.seek(0)
    spool.truncate()
    size, rest = 0, None
    beginning: list[bytes] = []
    for text in session_line(whole.session, whole.messages):
        piece = text.removesuffix("\n").encode("ascii")
        size += len(piece)
        if size > LONGEST:
            break  # the import refuses it for its length
        if not beginning or (rest is None and size <= SHORT):
            beginning.append(piece)
        else:
            rest = spool
            rest.write(piece)
    return RawLine(
        number=number,
        size=size,
        beginning=b"".join(beginning),
        rest=rest,
        session=whole.session.id,
        notes=whole.notes,
    )
