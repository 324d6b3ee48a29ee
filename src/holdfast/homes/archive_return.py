"""From a bundle back into the store: rows, lineage, route, search and files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain, zip_longest

from holdfast.errors import UNREADABLE, DamageError, HoldfastError, in_words
from holdfast.homes.archive_files import SessionFolder
from holdfast.homes.archive_rows import Ended, Rows, has_same_facts
from holdfast.homes.artifact_scan import FOLDER
from holdfast.model.archive import Holds
from holdfast.model.report import Result
from holdfast.model.session import Message, Session
from holdfast.services.exchange.json_lines import raw_lines
from holdfast.services.exchange.line_reader import read_messages
from holdfast.spine.outcomes import NO_SESSION_STORE
from holdfast.stores.archive import bundle
from holdfast.stores.archive.archive import SessionArchive
from holdfast.stores.archive.beside import Beside, NewerBundleError

TAKEN = (
    "a session with this id is in the store; the archived one stays in the archive. "
    "To get it back, delete the one in the store first"
)


class Returner:
    """Brings archived sessions back. Safe to repeat after a kill at any point."""

    def __init__(
        self, archive: SessionArchive, rows: Callable[[], Rows | None], files: SessionFolder
    ) -> None:
        self._archive = archive
        self._rows = rows
        self._files = files

    def bring_back(self, file: str) -> Ended:
        """The session of one bundle, whole or not at all. The bundle is for the caller to drop."""
        try:
            return self._bring_back(file)
        except NewerBundleError as error:
            return Result.FAILED, f"{error.message}; {error.hint}"
        except DamageError as error:
            return Result.DAMAGED, f"its bundle is damaged, {error.message}: {file}"
        except HoldfastError as error:
            return Result.FAILED, error.message
        except OSError as error:
            return Result.FAILED, str(error.strerror or error)
        except UNREADABLE as error:
            return Result.DAMAGED, f"its bundle is damaged, {in_words(error)}: {file}"

    def is_back(self, beside: Beside, file: str) -> bool:
        """Whether the store has the very session that this bundle holds."""
        rows = self._rows()
        there = None if rows is None else rows.read([beside.session.id]).get(beside.session.id)
        if rows is None or there is None:
            return False
        return self._is_same(rows, there, beside.session, file)

    def _bring_back(self, file: str) -> Ended:
        beside = self._archive.verify(file)
        # Before the rows: a session comes back whole, or stays in the archive whole.
        taken = self._files.in_the_way(beside)
        if taken:
            return Result.FAILED, _in_the_way(taken)
        result, note = self._put_back_rows(beside, file)
        if result is not Result.BROUGHT_BACK:
            return result, note
        with self._archive.opened(file) as (raw, codec):
            taken = self._files.put_back(beside, raw, codec)
        # Somebody who came in between may have taken a name.
        return (Result.FAILED, _in_the_way(taken)) if taken else (Result.BROUGHT_BACK, note)

    def _put_back_rows(self, beside: Beside, file: str) -> Ended:
        if beside.holds is Holds.FILES:
            return Result.BROUGHT_BACK, ""  # the store has the rest
        rows = self._rows()
        if rows is None:
            return Result.FAILED, NO_SESSION_STORE
        there = rows.read([beside.session.id]).get(beside.session.id)
        if there is not None:
            # The same: a killed run came this far.
            same = self._is_same(rows, there, beside.session, file)
            return (Result.BROUGHT_BACK, "") if same else (Result.FAILED, TAKEN)
        with self._archive.opened(file) as (raw, codec), bundle.line_of(raw, codec) as line:
            return Result.BROUGHT_BACK, rows.put_back(beside, line)

    def _is_same(self, rows: Rows, there: Session, archived: Session, file: str) -> bool:
        """Whether a session in the store is the archived one, in all that would go with the bundle.
        Times and counts do not tell: an import may have brought the same ones with other words."""
        if not has_same_facts(there, archived):
            return False
        with self._archive.opened(file) as (raw, codec), bundle.line_of(raw, codec) as line:
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


def _in_the_way(names: Sequence[str]) -> str:
    shown = ", ".join(f"{FOLDER}/{name}" for name in names)
    are = (
        "is not what was archived and is"
        if len(names) == 1
        else "are not what was archived and are"
    )
    return (
        f"{shown} {are} in the way; the bundle stays in the archive. Move it away and restore again"
    )
