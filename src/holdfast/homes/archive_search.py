"""Search in archived sessions: each is read, and its messages weighed as the store weighs them.

There is no index of the archive. Texts are weighed in windows of bounded size; what is kept of a
match is its place and its weight, and only what is shown is read a second time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from holdfast.errors import DamageError
from holdfast.model.archive import ArchivedSession, ArchiveHits
from holdfast.model.item import Problem
from holdfast.model.session import Hit, Message, Search
from holdfast.stores.sqlite.search_text import snippet
from holdfast.stores.sqlite.text_search import TextSearch, searched_text, text_search
from holdfast.value import dataclass


@dataclass(frozen=True, slots=True, order=True)
class _Place:
    """A message: when it was said, in which of the sessions, and its number there."""

    timestamp: float
    session: int
    number: int


def search(
    asked: Search,
    sessions: Sequence[ArchivedSession],
    messages: Callable[[ArchivedSession], Iterator[Message]],
) -> ArchiveHits:
    """The messages that match, best first; with `substring` those that contain it, newest first."""
    seeking: TextSearch[_Place] = text_search(asked)
    problems = []
    for place, session in enumerate(sessions):
        try:
            for message in messages(session):
                if asked.has(message):
                    seeking.take(
                        _Place(message.timestamp or 0.0, place, message.number or 0),
                        _text(message),
                    )
        except DamageError as error:
            problems.append(Problem(path=session.file, reason=error.message))
    chosen = seeking.best(asked.most)[asked.offset :]
    hits = _hits(chosen, sessions, messages, seeking)
    return ArchiveHits(hits=tuple(hits), problems=tuple(problems))


def _hits(
    chosen: Sequence[tuple[float, _Place]],
    sessions: Sequence[ArchivedSession],
    messages: Callable[[ArchivedSession], Iterator[Message]],
    seeking: TextSearch[_Place],
) -> Iterator[Hit]:
    """Read what is shown once more: nothing of it was kept."""
    numbers: dict[int, set[int]] = {}
    for _, place in chosen:
        numbers.setdefault(place.session, set()).add(place.number)
    found: dict[tuple[int, int], Message] = {}
    for session, wanted in numbers.items():
        try:
            for message in messages(sessions[session]):
                if message.number in wanted:
                    found[session, message.number or 0] = message
        except DamageError:
            continue  # named already
    shown = [(score, place) for score, place in chosen if (place.session, place.number) in found]
    texts = {
        number: _text(found[place.session, place.number]) for number, (_, place) in enumerate(shown)
    }
    marks = seeking.marked(texts)
    for number, (score, place) in enumerate(shown):
        yield Hit(
            session=sessions[place.session].session,
            message=found[place.session, place.number],
            snippet=snippet(marks.get(number, "")),
            score=score,
        )


def _text(message: Message) -> str:
    return searched_text(message.content, message.tool_name, message.tool_calls, message.reasoning)
