"""Export: writes the sessions of a store, in a fixed order, to anything that takes bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Protocol

from holdfast.errors import BusyError, UnknownSessionError
from holdfast.model.json_value import JsonValue
from holdfast.model.session import Message, Session, SessionFilter
from holdfast.ports.runs import Progress
from holdfast.ports.sessions import SessionStore
from holdfast.services.exchange.session_line import session_line
from holdfast.value import dataclass, field

if TYPE_CHECKING:  # few exports redact, and the rules are slow to load
    from holdfast.services.exchange.redactor import Redactor

#: How a session is written, such as `session_line` and `export_markdown`.
Form = Callable[[Session, Iterable[Message]], Iterator[str]]


class ByteSink(Protocol):
    """A binary file, opened for writing."""

    def write(self, data: bytes, /) -> object: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportReport(JsonValue):
    """What an export wrote. `redacted` counts secrets by rule."""

    sessions: int = 0
    messages: int = 0
    redacted: Mapping[str, int] = field(default_factory=dict)
    stopped: bool = False

    def plus(self, other: ExportReport) -> ExportReport:
        """The sum of both reports."""
        rules = {*self.redacted, *other.redacted}
        return ExportReport(
            sessions=self.sessions + other.sessions,
            messages=self.messages + other.messages,
            redacted={
                each: self.redacted.get(each, 0) + other.redacted.get(each, 0)
                for each in sorted(rules)
            },
            stopped=self.stopped or other.stopped,
        )


def export_sessions(
    store: SessionStore,
    wanted: SessionFilter,
    sink: ByteSink,
    *,
    form: Form = session_line,
    redactor: Redactor | None = None,
    progress: Progress | None = None,
) -> ExportReport:
    """Write sessions ordered by start and id, so that equal stores give equal bytes.

    A session that is removed before its turn is left out. If it is removed or replaced while it is
    written, `BusyError` is raised, because the output looks complete but is not.
    """
    ids = sorted((session.started_at, session.id) for session in store.find(wanted))
    sessions = messages = 0
    stopped = False
    for _, session_id in ids:
        if progress is not None:
            progress.step("exporting sessions", sessions, len(ids))
            if stopped := progress.stop_requested():
                break
        try:
            session = store.get(session_id)
        except UnknownSessionError:
            continue
        messages += _write(store, session, sink, form=form, redactor=redactor)
        sessions += 1
    counts = dict(redactor.counts) if redactor else {}
    return ExportReport(sessions=sessions, messages=messages, redacted=counts, stopped=stopped)


def _write(
    store: SessionStore, session: Session, sink: ByteSink, *, form: Form, redactor: Redactor | None
) -> int:
    written = said = 0

    def counted() -> Iterator[Message]:
        nonlocal written, said
        for message in store.messages(session.id):
            written += 1
            said += not message.taken_back
            yield redactor.message(message) if redactor else message

    try:
        for piece in form(redactor.session(session) if redactor else session, counted()):
            sink.write(piece.encode("utf-8"))
    except UnknownSessionError:
        raise _changed(session) from None
    if said < session.message_count:  # more is fine: messages were appended
        raise _changed(session)
    return written


def _changed(session: Session) -> BusyError:
    return BusyError(
        f"Session {session.id} was removed or replaced while it was being exported.",
        hint="What was written is incomplete. Export again.",
    )
