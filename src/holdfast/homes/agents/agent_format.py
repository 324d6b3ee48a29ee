"""Base classes with the defaults that most agent formats share."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from holdfast.homes.agents.appended_transcript import Appended, Lines
from holdfast.homes.agents.json_lines import (
    UNREADABLE,
    Record,
    fields,
    head_of,
    last_records,
    newest,
    transcript_of,
)
from holdfast.homes.agents.known import AGENTS, STATE
from holdfast.homes.agents.leftovers import Pattern, leftover, matching
from holdfast.model.part import Facts, Leftover, LinePart, Role, Signs, Transcript, Unit
from holdfast.model.session import Message

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
#: How many files are inspected to find a session. One of them may be torn, or have only just begun.
_FEW = 20


def facts_of(name: str, **more: Any) -> Facts:
    """The facts of an agent: its entry in the table of agents, and what only its format knows."""
    kind = next(each for each in AGENTS if each.name == name)
    return Facts(
        name=name,
        agent=kind.agent,
        folder=kind.default_folder,
        environment=kind.environment,
        **more,
    )


class AgentFormat:
    """An agent that has everything in its home and leaves no sign of life but its processes. `left`
    are the kinds of leftovers, with their path patterns; `silent` are the types of records that are
    no messages although they look like some. `folders` are patterns of the folders with sessions,
    and `databases` of the files: as long as one of those cannot be read, nobody can tell what is
    left over, or what a home without it may lose."""

    facts: Facts
    left: Sequence[Pattern] = ()
    silent: Collection[str] = ()
    folders: Sequence[str] = ()
    databases: Sequence[str] = ()
    #: Where files may be that only this agent writes; `is_proof` says whether one of them is.
    proofs: Sequence[str] = ()
    #: The folders around its sessions, which stay when the sessions go.
    emptied: Sequence[str] = ()

    def is_proven(self, root: Path) -> bool:
        """True if a folder has something that only this agent writes. Names that other programs use
        too are no proof: a user's project may have `sessions`, `projects` or `config.yaml`."""
        found = (path for pattern in self.proofs for path in islice(root.glob(pattern), _FEW))
        return any(_is_readable_session(path, self.is_proof) for path in found)

    def is_proof(self, path: Path) -> bool:
        return path.is_file()

    def is_emptied(self, root: Path) -> bool:
        """True if there are folders as only this agent makes them, whether or not a session is
        left in them."""
        return any(any(root.glob(pattern)) for pattern in self.emptied)

    def roots(self, root: Path) -> Sequence[Path]:
        return [root]

    def written(self, root: Path, unit: Unit) -> Sequence[Path]:
        """The files that the messages of a session are read from; none if they are rows."""
        return [] if unit.transcript is None else [unit.transcript]

    def leftovers(self, root: Path) -> Iterator[Leftover]:
        for kind, path in matching(root, self.left):
            yield from leftover(kind, path)

    def signs(self, root: Path, now: float) -> Signs:
        return Signs()

    def newer_version(self, transcripts: Iterable[Path]) -> str | None:
        """The reason why a home may only be read: its newest transcript names a version that
        Holdfast does not know."""
        latest = newest(transcripts)
        said = {} if latest is None else fields(last_records(latest), "version")
        return self.facts.newer(str(said["version"])) if said else None


class TranscriptFormat(AgentFormat):
    """The same for an agent that only appends to a transcript for each session. Only lines that
    contain one of `having` are parsed; all lines if it is empty."""

    having: Sequence[bytes] = ()

    def spoken(self, lines: Lines) -> Iterator[Message]:
        """The messages in these lines."""
        raise NotImplementedError

    def spoken_in(self, path: Path) -> Appended:
        return Appended(path=path, spoken=self.spoken, having=self.having)

    def appended(self, root: Path, unit: Unit) -> Appended | None:
        return self.spoken_in(transcript_of(unit))

    def messages(self, root: Path, unit: Unit) -> Iterator[Message]:
        return self.spoken_in(transcript_of(unit)).messages()

    def told(self, path: Path, unit: Unit) -> Transcript:
        """The session in a transcript outside a home."""
        return Transcript(path=path, unit=unit, messages=self.spoken_in(path).messages())


def is_home(
    root: Path,
    marks: Iterable[str],
    *,
    files: Iterable[Path],
    is_session: Callable[[Path], bool],
    emptied: Iterable[object],
) -> bool:
    """True if a folder is the home of an agent whose folder names other programs use, too.

    It has one of the `marks` that the agent leaves there, or a session that looks like this
    agent's: after its first session an agent may have left nothing else. If Holdfast moved all
    sessions away, only the `emptied` folders around them are left; if that did not count as a home,
    the sessions could not be brought back.
    """
    return (
        any((root / mark).exists() for mark in marks)
        or any(_is_readable_session(path, is_session) for path in islice(files, _FEW))
        or ((root / STATE).is_dir() and any(emptied))
    )


def _is_readable_session(path: Path, is_session: Callable[[Path], bool]) -> bool:
    with contextlib.suppress(*UNREADABLE):
        return is_session(path)
    return False


def is_uuid(name: str) -> bool:
    return _UUID.fullmatch(name) is not None


def unless_uuid(name: str, agent: str) -> str:
    """Why a session stays whose agent names all its sessions by a UUID: this is something else, of
    the user or of another program. It can be read, but it owns nothing besides itself."""
    return "" if is_uuid(name) else f"{agent} gives no session such a name"


def trace(
    path: Path, value: str, *, at: tuple[str, ...] = (), key: str | None = None, lines: bool = False
) -> LinePart:
    """An entry in a file that sessions share; it may stay behind."""
    return LinePart(path=path, value=value, at=at, key=key, lines=lines, role=Role.TRACE)


def strange_head(transcripts: Iterable[Path], is_known: Callable[[Record], bool]) -> str | None:
    """The reason why a home may only be read: the head of its newest transcript is not one we know.
    An empty transcript has only just begun."""
    path = newest(transcripts)
    head = head_of(path) if path else {}
    if path and head and not is_known(head):
        return f"{path.name} has an unknown header"
    return None
