"""Writing sessions: create, append, reset, hold and end them.

The store keeps them, policies decide about limits, and this module combines the two. Everything
that belongs together happens in one transaction of the store.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from holdfast.errors import (
    HoldfastError,
    SessionEndedError,
    SessionExistsError,
    UnknownSessionError,
    UsageError,
)
from holdfast.model import arguments
from holdfast.model.append import Appended, MessageLike, message_list, messages_of
from holdfast.model.arguments import StrPath, folder_text, new_cron_id, new_id
from holdfast.model.guard import Alert
from holdfast.model.session import (
    COMPACTED,
    TAKEN_BACK,
    UNCHANGED,
    Addition,
    EndReason,
    Json,
    Message,
    Relation,
    Session,
    SessionChange,
    SessionRef,
    Unchanged,
    id_of,
)
from holdfast.policy.lifecycle import OnReset, SessionOptions, Transcript, is_idle
from holdfast.policy.session_limits import alerts, is_over
from holdfast.ports.runs import Clock
from holdfast.ports.sessions import SessionStore
from holdfast.ports.upkeep import Processes, SessionFiles
from holdfast.services.exchange.session_line import message_fields
from holdfast.services.session_leases import SessionLeases
from holdfast.services.session_reader import SessionReader
from holdfast.value import replace

_log = logging.getLogger("holdfast")
_LONGEST_KEY = 512
_LONGEST_SOURCE = 64
#: An id is a second and 24 random bits: if thousands of sessions begin at once, two may collide.
_TRIES = 8
#: A field in a transcript's line: how many of the messages before it are replaced by the lines
#: after it.
REPLACES = "holdfast_replaces"


class Sessions(SessionReader):
    """The session store an agent embeds. Safe to share between threads."""

    def __init__(
        self,
        store: SessionStore,
        files: SessionFiles,
        processes: Processes,
        *,
        options: SessionOptions,
        clock: Clock,
        on_alert: Callable[[Alert], None] | None = None,
        elsewhere: Callable[[str], UnknownSessionError | None] = lambda _: None,
    ) -> None:
        super().__init__(store, clock=clock, elsewhere=elsewhere)
        self._files = files
        self._processes = processes
        self._options = options
        self._on_alert = on_alert
        self._leases = SessionLeases(store, processes)
        self._closed = False
        #: Called when these sessions have been closed.
        self.on_close: Callable[[], object] = lambda: None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def is_closed(self) -> bool:
        return self._closed

    def refresh(self) -> None:
        """Reread what another agent changed in its sessions since they were opened."""
        self._store.refresh()

    def close(self) -> None:
        """Release the leases and close the store. Open sessions stay open, and the leases stay
        on record: while this process lives, they show that it may return to its sessions."""
        self._closed = True
        self._leases.release_all()
        self._store.close()
        self.on_close()

    def create(  # noqa: PLR0913 - all but one are optional, and named
        self,
        *,
        source: str,
        id: str | None = None,  # noqa: A002 - the word of the domain
        job: str | None = None,
        title: str | None = None,
        cwd: StrPath | None = None,
        model: str | None = None,
        parent_id: SessionRef | None = None,
        relation: Relation | str | None = None,
        routing_key: str | None = None,
        extra: Mapping[str, Json] | None = None,
    ) -> Session:
        """Begin a session and hold it. Without an `id`, one is generated; with a `job`, a cron id.
        `cwd` is stored as an absolute path."""
        now = self._clock()
        if (parent_id is None) != (relation is None):
            raise UsageError("Pass both `parent_id` and `relation`, or neither.")
        folder = os.fspath(cwd) if isinstance(cwd, os.PathLike) else cwd
        texts = {"An id": id, "A job": job, "A title": title, "A folder": folder, "A model": model}
        for what, value in texts.items():
            if value is not None:
                arguments.instance(value, str, what)
        if extra is not None:
            arguments.mapping(extra, "The extra fields of a session")
        new = Session(
            id=id or self._new_id(job, now),
            source=_checked_source(source),
            started_at=now,
            last_active_at=now,
            title=title,
            cwd=None if folder is None else folder_text(folder),
            model=model,
            parent_id=None if parent_id is None else id_of(parent_id, "The id of a parent"),
            relation=None if relation is None else Relation.of(relation),
            routing_key=None if routing_key is None else _checked_key(routing_key),
            extra=extra or {},
        )
        with self._store.transaction():
            created = self._stored(new) if id is None and job is None else self._store.create(new)
            self._leases.hold_anew(created.id, now)
        return created

    def append(
        self, session: SessionRef, *messages: MessageLike | Iterable[MessageLike]
    ) -> Appended:
        """Store messages in order, one by one or as lists; they are durable when this returns.

        A session that passes a limit is ended and continued in a new one, which takes over its
        routing key: see `continued_as`.
        """
        return self._append(id_of(session), [*messages_of(messages)], self._clock())

    def _append(
        self,
        session_id: str,
        made: Sequence[Message],
        now: float,
        then: Callable[[Addition], None] | None = None,
    ) -> Appended:
        """`then` runs in the transaction that stores them."""
        # No transaction around all of this: the store prepares messages before it takes its lock,
        # and after a kill in between, the next append does the rest.
        self._leases.hold(session_id, now)
        with self._saying_where_it_goes_on(session_id):
            added = self._store.append(session_id, made, now=now, then=then)
        self._write_transcript(added.after, made, now)
        return self._within_limits(added, now)

    def replace_messages(
        self, session: SessionRef, messages: Iterable[MessageLike], *, after: int = 0
    ) -> Appended:
        """Replace all messages after number `after`: for a turn that is retried,
        or a conversation that was edited.

        Nothing is lost. A given message that is already stored unchanged under its number stays. A
        stored message that is not among the given ones is taken back: it is kept as history, and
        its tokens and cost still count. The replacement is atomic.
        """
        return self._replace(session, messages, after, TAKEN_BACK)

    def take_back(self, session: SessionRef, from_number: int | Message) -> Appended:
        """Take back the message with this number and all that follow it, as an undo of a turn. A
        message that was read from the session stands for its number."""
        given = from_number.number if isinstance(from_number, Message) else from_number
        if given is None:
            raise UsageError("`from_number` must be a message that is stored: this has no number.")
        first = arguments.whole(given, "The number of a message")
        self._need_number(session, first)
        return self._replace(session, (), max(0, first - 1), TAKEN_BACK)

    def compact(
        self, session: SessionRef, messages: Iterable[MessageLike], *, after: int = 0
    ) -> Appended:
        """Continue with fewer messages: a summary, and the current ones that stay, as
        `messages` returns them.

        The others are kept as history: they still count, and a search finds them.
        """
        return self._replace(session, messages, after, COMPACTED)

    def update(
        self,
        session: SessionRef,
        *,
        model: str | Unchanged | None = UNCHANGED,
        cwd: StrPath | Unchanged | None = UNCHANGED,
        extra: Mapping[str, Json] | Unchanged = UNCHANGED,
    ) -> Session:
        """Change the model, the folder or the extra fields of a session; None clears the first two.
        `extra` replaces all extra fields that the host had stored."""
        for what, value in (("A model", model), ("A folder", cwd)):
            if not isinstance(value, Unchanged | os.PathLike) and value is not None:
                arguments.instance(value, str, what)
        if not isinstance(extra, Unchanged):
            arguments.mapping(extra, "The extra fields of a session")
        folder = cwd if isinstance(cwd, Unchanged) or cwd is None else folder_text(cwd)
        return self._store.update(
            id_of(session), SessionChange(model=model, cwd=folder, extra=extra)
        )

    def end(self, session: SessionRef, reason: str = EndReason.ENDED) -> Session:
        """End a session. If it has already ended, its first end stays."""
        session_id = id_of(session)
        if not arguments.instance(reason, str, "The end reason"):
            raise UsageError("The reason for ending a session cannot be empty.")
        with self._store.transaction():
            ended = self._store.end(session_id, reason, at=self._clock())
            self._leases.release(session_id)
        return ended

    def reopen(self, session: SessionRef) -> Session:
        """Reopen an ended session, so that it can continue. This process then holds it."""
        session_id, now = id_of(session), self._clock()
        with self._store.transaction():
            reopened = self._store.reopen(session_id, at=now)
            self._leases.hold_anew(session_id, now)
        return reopened

    def rename(self, session: SessionRef, title: str | None) -> Session:
        """Give a session a new title, or remove its title."""
        if title is not None:
            arguments.instance(title, str, "A title")
        return self._store.rename(id_of(session), title)

    def pin(self, session: SessionRef, pinned: bool = True) -> Session:
        """Pin a session so that no policy removes it, or unpin it."""
        return self._store.pin(id_of(session), arguments.flag(pinned, "`pinned`"))

    def current(self, routing_key: str, *, source: str) -> Session:
        """The session that a routing key points to; a new one if there is none, if it has
        ended, or if it has been idle for too long."""
        now, source = self._clock(), _checked_source(source)
        with self._store.transaction():
            found = self._store.routed(_checked_key(routing_key))
            if found is not None and not found.ended and not is_idle(self._options, found, now):
                self._leases.hold(found.id, now)
                return found
            if found is None:
                return self.create(source=source, routing_key=routing_key)
            fresh = self._continue(found, EndReason.IDLE_RESET, now)
        self._clear_files(self._store.get(found.id))
        return fresh

    def reset(self, routing_key: str) -> Session:
        """End the session of a routing key and open a new one in its place."""
        with self._store.transaction():
            found = self._store.routed(_checked_key(routing_key))
            if found is None:
                raise UsageError(f"No session has the routing key {routing_key!r} to reset.")
            fresh = self._continue(found, EndReason.SESSION_RESET, self._clock())
        self._clear_files(self._store.get(found.id))
        return fresh

    def dump_request(self, session: SessionRef, request: Mapping[str, Json]) -> Path:
        """Keep a request for debugging, as a file that belongs to the session."""
        arguments.mapping(request, "A request")
        session_id = self.get(session).id
        stamp = datetime.fromtimestamp(self._clock(), UTC).strftime("%Y%m%d_%H%M%S_%f")
        return self._files.dump_request(session_id, stamp, request)

    def delivered(self, session: SessionRef) -> Session:
        """Record that the result of a session, usually a cron job's, was delivered.

        The session ends. If `remove_after_delivery` is set, it is also removed with its files;
        `undo` brings it back until the trash is emptied.
        """
        ended = self.end(session, EndReason.DELIVERED)
        if self._options.remove_after_delivery and not ended.pinned:
            with _harmless(f"removing session {ended.id} after delivery"):
                self._files.remove_whole(ended, "delivered")
        return ended

    def end_abandoned(self) -> Sequence[Session]:
        """End sessions whose holders are all provably dead and that were idle for
        `abandoned_hours`, as maintenance does. The operation is in the log, and `undo` reopens
        them.

        Raises `BusyError` while another process changes the home.
        """
        if not self._options.abandoned_after:
            return []
        return [self._store.get(each) for each in self._files.end_abandoned()]

    def _replace(
        self, session: SessionRef, messages: Iterable[MessageLike], after: int, mark: str
    ) -> Appended:
        session_id, made = id_of(session), message_list(messages)
        after = arguments.whole(after, "The number of a message")
        self._need_number(session, after)
        now = self._clock()
        self._leases.hold(session_id, now)
        with self._saying_where_it_goes_on(session_id):
            added = self._store.replace(session_id, made, after=after, mark=mark, now=now)
        written = made[added.kept :]
        if added.replaced:
            # A transcript is append-only: this line says how many messages the next ones replace.
            note = Message("holdfast", extra={TAKEN_BACK: True, REPLACES: added.replaced})
            written = [note, *written]
        self._write_transcript(added.after, written, now)
        return self._within_limits(added, now)

    def _need_number(self, session: SessionRef, number: int) -> None:
        """Raise `UsageError` for a number after the last message of a session, current or not: it
        is a place in a list, or belongs to another session."""
        if not number or [*self.messages(session, after=number - 1, limit=1, with_replaced=True)]:
            return
        raise UsageError(
            f"Session {id_of(session)} has no message with the number {number}, and none after it.",
            hint="A message has its number in `number`: see `messages(session)`.",
        )

    @contextlib.contextmanager
    def _saying_where_it_goes_on(self, session_id: str) -> Iterator[None]:
        """A session that was continued, perhaps by another process, need not be reopened."""
        try:
            yield
        except SessionEndedError as error:
            with contextlib.suppress(HoldfastError):
                newest = self.tip(session_id)
                if newest.id != session_id:
                    verb = "reopen that before adding to it" if newest.ended else "append there"
                    error.hint = f"It goes on in {newest.id}: {verb}."
            raise

    def _within_limits(self, added: Addition, now: float) -> Appended:
        """Report which limits were passed, and continue in a new session if necessary."""
        raised = alerts(self._options.limits, added.before, added.after)
        for alert in raised:
            self._tell(alert)
        if not is_over(self._options.limits, added.after):
            return Appended(session=added.after, numbers=added.numbers, alerts=raised)
        continued = self._continue_full(added.after.id, now)
        return Appended(
            session=self._store.get(added.after.id),
            numbers=added.numbers,
            alerts=raised,
            continued_as=continued,
        )

    def _stored(self, new: Session) -> Session:
        """Store a session with a generated id; if that is taken, generate another."""
        for _ in range(_TRIES):
            try:
                return self._store.create(new)
            except SessionExistsError:
                new = replace(new, id=self._new_id(None, new.started_at))
        return self._store.create(new)

    @staticmethod
    def _random_hex() -> str:
        return secrets.token_hex(3)

    def _new_id(self, job: str | None, now: float) -> str:
        return new_id(now, self._random_hex()) if job is None else new_cron_id(job, now)

    def _continue(self, old: Session, reason: EndReason, now: float) -> Session:
        """End a session, and open a new one that takes over its routing key."""
        self._store.end(old.id, reason, at=now)
        self._leases.release(old.id)
        limited = reason is EndReason.LIMIT
        fresh = self._stored(
            Session(
                id=self._new_id(None, now),
                source=old.source,
                started_at=now,
                last_active_at=now,
                cwd=old.cwd,
                model=old.model,
                title=old.title if limited else None,
                parent_id=old.id if limited else None,
                relation=Relation.CONTINUATION if limited else None,
                routing_key=old.routing_key,
            )
        )
        self._leases.hold_anew(fresh.id, now)
        return fresh

    def _continue_full(self, session_id: str, now: float) -> Session | None:
        """Return the session that continues one that passed a limit. Another process may already
        have opened it."""
        with self._store.transaction():
            full = self._store.get(session_id)
            if not full.ended:
                fresh = self._continue(full, EndReason.LIMIT, now)
            else:
                follows = self.children(session_id, relation=(Relation.CONTINUATION,))
                return follows[-1] if follows else None
        self._clear_files(self._store.get(session_id))
        return fresh

    def _write_transcript(self, session: Session, messages: Sequence[Message], now: float) -> None:
        """Write messages to the transcript, after the store has them: the database is the truth."""
        mode = self._options.transcript_of(session.source)
        if mode is not Transcript.NONE and messages:
            # Each line names its session, so that a file proves to which session it belongs.
            whose: dict[str, Json] = {"session_id": session.id, "source": session.source}
            timed = (
                replace(each, timestamp=now) if each.timestamp is None else each
                for each in messages
            )
            lines = [whose | message_fields(each) for each in timed]
            with _harmless(f"writing the transcript of session {session.id}"):
                self._files.append(session.id, lines, sync=mode is Transcript.JSONL_SYNCED)

    def _clear_files(self, ended: Session) -> None:
        """Handle the files of a session that was reset, as `on_reset` says."""
        with _harmless(f"clearing the files of session {ended.id}"):
            if self._options.on_reset is OnReset.ARCHIVE:
                self._files.archive(ended.id)
            elif self._options.on_reset is OnReset.DELETE:
                self._files.remove(ended.id)

    def _tell(self, alert: Alert) -> None:
        _log.warning("%s", alert.message)
        if self._on_alert is None:
            return
        try:
            self._on_alert(alert)
        except Exception:  # noqa: BLE001 - raised, it would make the host store the messages again
            _log.exception("the host's callback for alerts failed")


@contextlib.contextmanager
def _harmless(doing: str) -> Iterator[None]:
    """Log errors of files instead of raising them: the store has the messages already, so the host
    must not retry."""
    try:
        yield
    except HoldfastError as error:
        _log.error("%s failed: %s", doing, error.message)


def _checked_source(source: str) -> str:
    if (
        not arguments.instance(source, str, "A source")
        or len(source) > _LONGEST_SOURCE
        or not source.isprintable()
    ):
        raise UsageError(
            f"A source must have 1 to {_LONGEST_SOURCE} printable characters, not {source!r}."
        )
    return source


def _checked_key(key: str) -> str:
    if (
        not arguments.instance(key, str, "A routing key")
        or len(key) > _LONGEST_KEY
        or not key.isprintable()
    ):
        raise UsageError(f"A routing key must have 1 to {_LONGEST_KEY} printable characters.")
    return key
