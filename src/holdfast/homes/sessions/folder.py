"""The folder `sessions/` of a home: which files in it belong to a session, with their size, age,
version, source and signs of life.

    session_{id}.json   {id}.json   {id}.jsonl        transcripts
    request_dump_{id}_{when}.json                      request dumps

Everything else (`sessions.json`, indexes, notes) is other state and belongs to no session.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.homes.home_bytes import Survey, bytes_below
from holdfast.homes.kind import SESSION_FILES
from holdfast.model.item import REQUEST_DUMP, TRANSCRIPT, UNKNOWN_SOURCE, Item, Problem
from holdfast.model.text import format_duration
from holdfast.stores.files import allocated_bytes, open_dir, storage_errors, version_of
from holdfast.stores.open_files import open_elsewhere
from holdfast.value import dataclass, field, replace

if TYPE_CHECKING:
    from holdfast.ports.runs import Progress
    from holdfast.stores.sessions.survey import Owner

FOLDER = SESSION_FILES
_TELL_EVERY = 500

# Ids that agents generate, such as 20260325_112518_6995d1 and cron_backup_20260325_112518.
_STAMPED = r"\d{8}_\d{6}_[0-9a-f]{4,32}"
_CRON = r"cron_[A-Za-z0-9._-]+_\d{8,}(?:_\d+)*"
_GENERATED = rf"(?:{_STAMPED}|{_CRON})"
_ANY_ID = r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}"
_WHEN = r"\d{8}_\d{6}(?:_\d{1,6})?"


@cache
def _patterns() -> Sequence[tuple[str, bool, re.Pattern[str]]]:
    """The kind, whether the name alone is proof, and the pattern. Compiled on first use."""
    return (
        # The time first: everything before it is the id. Otherwise a dump of session a_b would pass
        # for one of session a.
        (REQUEST_DUMP, True, re.compile(rf"request_dump_({_ANY_ID})_{_WHEN}\.json", re.ASCII)),
        (
            REQUEST_DUMP,
            True,
            re.compile(rf"request_dump_({_STAMPED})_[A-Za-z0-9._-]+\.json", re.ASCII),
        ),
        (TRANSCRIPT, True, re.compile(rf"(?:session_)?({_GENERATED})\.json", re.ASCII)),
        (TRANSCRIPT, True, re.compile(rf"({_GENERATED})\.jsonl", re.ASCII)),
        # An arbitrary id: the name alone proves nothing, the content must confirm it.
        (TRANSCRIPT, False, re.compile(rf"session_({_ANY_ID})\.json", re.ASCII)),
        (TRANSCRIPT, False, re.compile(rf"({_ANY_ID})\.jsonl", re.ASCII)),
    )


#: How much of a file is read to find its id and source.
HEAD_BYTES = 1024
_SOURCE = rb'"(?:source|platform)"\s*:\s*"([a-z0-9][a-z0-9_.-]{0,63})"'


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFileName:
    """The content of a file name: kind and session. `certain` is true if the name alone is
    proof."""

    kind: str
    session: str
    certain: bool

    def claimed_by(self, head: bytes) -> bool:
        """True if the start of the file names this session as its own."""
        own_id = re.escape(self.session.encode())
        return bool(re.search(rb'"(?:session_id|id)"\s*:\s*"' + own_id + rb'"', head))

    @property
    def source(self) -> str | None:
        return "cron" if self.session.startswith("cron_") else None


@lru_cache(maxsize=8192)
def parse(name: str) -> SessionFileName | None:
    """Parse a file name; None if no agent gives such a name to a session's file. Cached: a removal
    parses each name four times."""
    for kind, certain, pattern in _patterns():
        match = pattern.fullmatch(name)
        if match:
            return SessionFileName(kind=kind, session=match.group(1), certain=certain)
    return None


def source_in(head: bytes) -> str | None:
    """The source that a transcript names near its start, if any."""
    match = re.search(_SOURCE, head)
    return match.group(1).decode("ascii") if match else None


# --- Scan -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """How to tell which session owns a file, and whether it is in use. `owners` maps session names
    in file names to those sessions that are in the store. `unknown` is why that cannot be told of
    any file: the store is gone."""

    idle: float
    owners: Callable[[Sequence[str]], Mapping[str, Owner]] = field(default=lambda _: {})
    unknown: Callable[[], str | None] = field(default=lambda: None)
    parse: Callable[[str], SessionFileName | None] = field(default=parse)


def scan(root: Path, now: float, life: Life, progress: Progress | None) -> Survey:
    """Scan `sessions/`. If it is a link or a file, that is a problem, and it is not followed."""
    folder = root / FOLDER
    if folder.is_symlink():
        return _nothing(folder, "is a link; Holdfast does not follow it out of the home")
    if not folder.exists():
        return Survey()
    if not folder.is_dir():
        return _nothing(folder, "is not a folder")
    with storage_errors(f"read {folder}"), open_dir(folder) as dir_fd:
        return _scan_folder(folder, dir_fd, now, life, progress)


def _scan_folder(
    folder: Path, dir_fd: int, now: float, life: Life, progress: Progress | None
) -> Survey:
    items: list[Item] = []
    problems: list[Problem] = []
    other_bytes = 0
    entries = [(name, life.parse(name), status) for name, status in _entries(dir_fd)]
    names = sorted({parsed.session for _, parsed, _ in entries if parsed})
    unknown = life.unknown() if names else None
    owners = {} if unknown else life.owners(names)
    for count, (name, parsed, status) in enumerate(entries):
        if progress is not None and count % _TELL_EVERY == 0:
            progress.step("looking at session files", count, None)
        is_file = stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode)
        if parsed is not None and not is_file:
            problems.append(Problem(path=str(folder / name), reason="is not a file; left alone"))
        item = None
        if parsed is not None and is_file:
            owner = owners.get(parsed.session)
            alive = unknown or signs_of_life(status, dir_fd, name, owner, life.idle, now)
            item = _item(parsed, name, status, dir_fd, owner=owner, alive=alive)
        if item is not None:
            items.append(item)
        elif stat.S_ISDIR(status.st_mode):
            other_bytes += bytes_below(folder / name, (), problems)
        else:
            other_bytes += allocated_bytes(status)
    return Survey(
        items=tuple(_dumps_inherit_source(items)),
        problems=tuple(problems),
        other_bytes=other_bytes,
    )


def _entries(dir_fd: int) -> Iterator[tuple[str, os.stat_result]]:
    with os.scandir(dir_fd) as entries:
        for entry in sorted(entries, key=lambda each: each.name):
            try:
                yield entry.name, entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue  # it was removed in the meantime


def _item(
    parsed: SessionFileName,
    name: str,
    status: os.stat_result,
    dir_fd: int,
    *,
    owner: Owner | None,
    alive: str | None,
) -> Item | None:
    head = b""
    if owner is None:
        if parsed.kind != REQUEST_DUMP and stat.S_ISREG(status.st_mode):
            head = _head(name, dir_fd)
        if not parsed.certain and not parsed.claimed_by(head):
            return None
    source = owner.source if owner else parsed.source or source_in(head)
    return Item(
        kind=parsed.kind,
        id=f"{FOLDER}/{name}",
        source=source or UNKNOWN_SOURCE,
        session=(owner.session if owner else "") or parsed.session,
        bytes=allocated_bytes(status),
        last_active_at=status.st_mtime,
        version=version_of(status),
        alive=alive,
        owned=owner is not None,
    )


def _head(name: str, dir_fd: int) -> bytes:
    try:
        fd = os.open(
            name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=dir_fd
        )
    except OSError:
        return b""  # an unreadable file has no head; whether it is in use is checked separately
    try:
        return os.read(fd, HEAD_BYTES)
    finally:
        os.close(fd)


def _dumps_inherit_source(items: list[Item]) -> Iterator[Item]:
    """A request dump does not name its session's source; a transcript next to it does."""
    sources = {
        item.session: item.source
        for item in items
        if item.kind != REQUEST_DUMP and item.source != UNKNOWN_SOURCE
    }
    for item in items:
        source = sources.get(item.session)
        if item.source == UNKNOWN_SOURCE and source is not None:
            yield replace(item, source=source)
        else:
            yield item


def signs_of_life(
    status: os.stat_result, dir_fd: int, name: str, owner: Owner | None, idle: float, now: float
) -> str | None:
    """Any sign protects a file, and so does a check that fails.

    For a session in the store, the session's own state tells whether a file is still needed; for an
    orphan only its age can.
    """
    why = recent(status, idle, now) if owner is None else None
    why = why or of_another_user(status)
    if why is None and stat.S_ISREG(status.st_mode):
        return open_elsewhere(name, dir_fd)
    return why


def recent(status: os.stat_result, idle: float, now: float) -> str | None:
    age = now - status.st_mtime
    if age < 0:
        return "its time is in the future"
    return f"touched {format_duration(age)} ago" if age < idle else None


def of_another_user(status: os.stat_result) -> str | None:
    return None if os.geteuid() in (0, status.st_uid) else "it belongs to another user"


def _nothing(folder: Path, reason: str) -> Survey:
    return Survey(problems=(Problem(path=str(folder), reason=reason),))
