"""What most formats say in the same words: a base for the formats of agents."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
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

#: So many files are looked into for a session. One of them may be torn, or have only just begun.
_FEW = 20


def facts_of(name: str, **more: Any) -> Facts:
    """The facts of an agent: what the table of agents says, and what only its format knows."""
    kind = next(each for each in AGENTS if each.name == name)
    return Facts(
        name=name,
        agent=kind.agent,
        folder=kind.default_folder,
        environment=kind.environment,
        **more,
    )


class AgentFormat:
    """An agent that has everything in its home and leaves no sign of life but its processes.
    `left` are the kinds of what no session owns there, with the patterns of their paths."""

    facts: Facts
    left: Sequence[Pattern] = ()

    def roots(self, root: Path) -> Sequence[Path]:
        return [root]

    def leftovers(self, root: Path) -> Iterator[Leftover]:
        for kind, path in matching(root, self.left):
            yield from leftover(kind, path)

    def signs(self, root: Path, now: float) -> Signs:
        return Signs()

    def newer_version(self, transcripts: Iterable[Path]) -> str | None:
        """Why a home may only be read: the version that its newest transcript names is not one
        that Holdfast knows."""
        latest = newest(transcripts)
        said = {} if latest is None else fields(last_records(latest), "version")
        return self.facts.newer(str(said["version"])) if said else None


class TranscriptFormat(AgentFormat):
    """The same for an agent that only appends to a transcript for each session. Lines that hold one
    of the texts `having` are parsed; all lines if there is no such text."""

    having: Sequence[bytes] = ()

    def spoken(self, lines: Lines) -> Iterator[Message]:
        """What was said."""
        raise NotImplementedError

    def spoken_in(self, path: Path) -> Appended:
        return Appended(path=path, spoken=self.spoken, having=self.having)

    def appended(self, root: Path, unit: Unit) -> Appended | None:
        return self.spoken_in(transcript_of(unit))

    def messages(self, root: Path, unit: Unit) -> Iterator[Message]:
        return self.spoken_in(transcript_of(unit)).messages()

    def told(self, path: Path, unit: Unit) -> Transcript:
        """The session in a transcript that lies alone."""
        return Transcript(path=path, unit=unit, messages=self.spoken_in(path).messages())


def is_home(
    root: Path,
    marks: Iterable[str],
    *,
    files: Iterable[Path],
    is_session: Callable[[Path], bool],
    emptied: Iterable[object],
) -> bool:
    """Whether a folder is the home of an agent whose folders have names that others use as well.

    It has one of the `marks` that the agent leaves there, or a session that looks like one of this
    agent: after its first session an agent may have left nothing else. Where Holdfast has moved all
    the sessions away, the `emptied` folders around them are all that is left; if that were no home,
    nobody could bring the sessions back.
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


def trace(
    path: Path, value: str, *, at: tuple[str, ...] = (), key: str | None = None, lines: bool = False
) -> LinePart:
    """An entry of a file that sessions share: one that may stay behind."""
    return LinePart(path=path, value=value, at=at, key=key, lines=lines, role=Role.TRACE)


def strange_head(transcripts: Iterable[Path], is_known: Callable[[Record], bool]) -> str | None:
    """Why a home may only be read: its newest transcript does not begin like those we know. A
    transcript that is still empty has only just begun."""
    path = newest(transcripts)
    head = head_of(path) if path else {}
    if path and head and not is_known(head):
        return f"{path.name} does not begin like a session that Holdfast knows"
    return None
