"""Restores archived sessions to a home: rows and files, each session completely."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from itertools import chain, zip_longest

from holdfast.errors import UNREADABLE, DamageError, HoldfastError, in_words
from holdfast.homes.archive.session_files import SessionFolder
from holdfast.homes.archive.session_rows import Ended, Rows, has_same_facts
from holdfast.homes.sessions.folder import FOLDER
from holdfast.model.archive import Holds
from holdfast.model.report import Result
from holdfast.model.session import Message, Session
from holdfast.services.exchange.json_lines import raw_lines
from holdfast.services.exchange.line_reader import read_messages
from holdfast.spine.outcomes import NO_SESSION_STORE
from holdfast.stores.archive import bundle
from holdfast.stores.archive.archive import SessionArchive
from holdfast.stores.archive.bundle_manifest import BundleManifest, NewerBundleError

TAKEN = (
    "a session with this id is in the store; the archived one stays in the archive. "
    "To get it back, delete the one in the store first"
)
HERE_ALREADY = "an identical session is already in the store; the bundle stays in the archive"
#: Errors of one session that do not affect the others.
TROUBLE = (HoldfastError, OSError, *UNREADABLE)


class Returner:
    """Restores archived sessions. Safe to repeat after a kill at any point."""

    def __init__(
        self, archive: SessionArchive, rows: Callable[[], Rows | None], files: SessionFolder
    ) -> None:
        self.archive = archive
        self.rows = rows
        self.files = files

    def bring_back(self, file: str, *, again: bool = True) -> Ended:
        """Restore the session of one bundle, completely or not at all. The caller drops the bundle.

        With `again`, an earlier run may have restored it already. Without it, an existing session
        was not restored by this operation, and its bundle may be the only copy for another home.
        """
        try:
            with self.archive.at_hand(file):
                return self._bring_back(file, again=again)
        except TROUBLE as error:
            return ended_by(error, file)

    def is_back(self, manifest: BundleManifest, file: str) -> bool:
        """True if the store has exactly the session in this bundle."""
        rows = self.rows()
        there = None if rows is None else rows.read([manifest.session.id]).get(manifest.session.id)
        if rows is None or there is None:
            return False
        return self._is_same(rows, there, manifest.session, file)

    def _is_whole(self, manifest: BundleManifest, file: str) -> bool:
        is_session = manifest.holds is Holds.SESSION
        return is_session and self.is_back(manifest, file) and self.files.has_all(manifest)

    def _bring_back(self, file: str, *, again: bool) -> Ended:
        read = self.archive.read(file)
        manifest = read.manifest
        if not again and self._is_whole(manifest, file):
            return Result.SKIPPED, HERE_ALREADY
        # Before the rows: a session is restored completely, or stays in the archive completely.
        taken = self.files.in_the_way(manifest)
        if taken:
            return Result.FAILED, in_the_way(taken)
        result, note = self._put_back_rows(read, file)
        if result is not Result.BROUGHT_BACK:
            return result, note
        if manifest.files:
            with self.archive.opened(file) as (raw, codec):
                taken = self.files.put_back(manifest, raw, codec)
        # Another process may have taken a name in the meantime.
        return (Result.FAILED, in_the_way(taken)) if taken else (Result.BROUGHT_BACK, note)

    def _put_back_rows(self, read: bundle.Read, file: str) -> Ended:
        manifest = read.manifest
        if manifest.holds is Holds.FILES:
            return Result.BROUGHT_BACK, ""  # the store has the rest
        rows = self.rows()
        if rows is None:
            return Result.FAILED, NO_SESSION_STORE
        there = rows.read([manifest.session.id]).get(manifest.session.id)
        if there is not None:
            # If it is the same, a killed run got this far.
            same = self._is_same(rows, there, manifest.session, file)
            return (Result.BROUGHT_BACK, "") if same else (Result.FAILED, TAKEN)
        if read.line is not None:
            kept = bundle.OneLine(io.BytesIO(read.line))
            return Result.BROUGHT_BACK, rows.put_back(manifest, kept)
        with self.archive.opened(file) as (raw, codec), bundle.line_of(raw, codec) as line:
            return Result.BROUGHT_BACK, rows.put_back(manifest, line)

    def _is_same(self, rows: Rows, there: Session, archived: Session, file: str) -> bool:
        """True if a session in the store equals the archived one in everything that would be lost
        with the bundle. Times and counts are not enough: an import may have brought the same ones
        with different messages."""
        if not has_same_facts(there, archived):
            return False
        with self.archive.opened(file) as (raw, codec), bundle.line_of(raw, codec) as line:
            messages = chain.from_iterable(
                read_messages(each.text(), archived.started_at) for each in raw_lines(line)
            )
            pairs = zip_longest(messages, rows.messages(there.id))
            return all(
                ours is not None and theirs is not None and _said(ours) == _said(theirs)
                for ours, theirs in pairs
            )


def _said(message: Message) -> tuple[object, ...]:
    return (
        message.role,
        message.content,
        message.timestamp,
        message.tool_name,
        message.tool_calls,
        message.tool_call_id,
        message.reasoning,
        message.usage,
        message.cost,
        dict(message.extra),
    )


def ended_by(error: Exception, file: str) -> Ended:
    """The result for a bundle's session after an error in `TROUBLE`."""
    if isinstance(error, NewerBundleError):
        return Result.FAILED, f"{error.message}; {error.hint}"
    if isinstance(error, DamageError):
        return Result.DAMAGED, f"its bundle is damaged, {error.message}: {file}"
    if isinstance(error, HoldfastError):
        return Result.FAILED, error.message
    if isinstance(error, OSError):
        return Result.FAILED, str(error.strerror or error)
    return Result.DAMAGED, f"its bundle is damaged, {in_words(error)}: {file}"


def in_the_way(names: Sequence[str]) -> str:
    shown = ", ".join(f"{FOLDER}/{name}" for name in names)
    differ, them = (
        ("differs from the archived file", "that file")
        if len(names) == 1
        else ("differ from the archived files", "those files")
    )
    return f"{shown} {differ}; the bundle stays in the archive. Move {them} away and restore again"
