"""droid, of Factory.

sessions/-CWD/ID.jsonl               a session: its head, then messages, appended
sessions/-CWD/ID.settings.json       its model and what it used, with a copy beside it
cache/session-discovery-index.json   what its list shows of each session, made again when missing
cache/search/manifest.json           what it knows of each for a search, made again when missing
task-invocations.json                who asked which subagent, with a copy beside it
logs/, bin/                          logs, and a program that it copied here

It leaves no sign of life at all. A session that goes on elsewhere notes the folder in its head.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from holdfast.homes import life
from holdfast.homes.appended import Appended, Lines
from holdfast.homes.blocks import block_messages, tokens_in, used
from holdfast.homes.leftovers import leftover, matching
from holdfast.homes.records import (
    Record,
    first_records,
    is_plain_name,
    last_records,
    moment,
    names_in,
    newest,
    opening,
    transcript_of,
    unit_of,
    whole_records,
)
from holdfast.model.part import (
    Facts,
    FilePart,
    Known,
    Leftover,
    LinePart,
    Part,
    Role,
    Signs,
    Transcript,
    Unit,
)
from holdfast.model.session import Message, Relation
from holdfast.model.usage import Usage
from holdfast.value import replace

_VERSIONS = (1, 2)
_HEAD = {"type", "id", "version", "cwd"}
_LEFTOVERS = (("log", "logs/*"), ("program", "bin/rg"))
#: How the id of a message begins that the agent itself wrote.
_CONTEXT = "context-"
#: Words of a process that speaks with an editor, a browser or another computer.
_SERVERS = ("acp", "acp-daemon", "daemon", "stream-jsonrpc")


class Droid:
    facts = Facts(
        name="droid",
        agent="droid",
        folder=".factory",
        processes=("droid",),
        versions=("0.215.0",),
    )

    def recognise(self, root: Path) -> bool:
        return (root / "sessions").is_dir() and any(
            (root / each).exists() for each in ("host.json", "droids", "last-startup-version")
        )

    def doubt(self, root: Path) -> str | None:
        path = newest(_files(root))
        head = _head(path) if path else {}
        if path and head and not (_is_head(head) and head["version"] in _VERSIONS):
            return f"{path.name} does not begin like a session that Holdfast knows"
        return None

    def roots(self, root: Path) -> Sequence[Path]:
        return [root]

    def units(self, root: Path, known: Known) -> Iterator[Unit]:
        """What a session used stands in a file of its own, which is written after its words."""
        for path in _files(root):
            if unit := unit_of(path, known, _read):
                settings = _settings(path)
                yield replace(
                    unit,
                    parts=_parts(root, path),
                    model=str(settings.get("model") or unit.model),
                    used=_used(settings),
                )

    def leftovers(self, root: Path) -> Iterator[Leftover]:
        for kind, path in matching(root, _LEFTOVERS):
            yield from leftover(kind, path)

    def messages(self, root: Path, unit: Unit) -> Iterator[Message]:
        return _said(Lines(transcript_of(unit)))

    def appended(self, root: Path, unit: Unit) -> Appended | None:
        return Appended(path=transcript_of(unit), spoken=_said)

    def signs(self, root: Path, now: float) -> Signs:
        """A process that serves an editor has sessions of any folder open."""
        return Signs(home=life.serving(self.facts.processes, _SERVERS))

    def transcripts(self, path: Path) -> Iterator[Transcript] | None:
        for head in filter(_is_head, opening(path)[:1]):
            unit = replace(_read(path), id=str(head["id"]))
            return iter([Transcript(path=path, unit=unit, messages=_said(Lines(path)))])
        return None


def _said(lines: Lines) -> Iterator[Message]:
    for said in lines:
        lines.settle()
        message = said.get("message")
        if said.get("type") == "message" and isinstance(message, dict):
            yield from block_messages(
                str(message.get("role") or "system"),
                message.get("content"),
                at=moment(said.get("timestamp")),
                injected=str(said.get("id")).startswith(_CONTEXT),
            )


def _read(path: Path) -> Unit:
    head = _head(path)
    updated = model = started = None
    for said in last_records(path):
        message = said.get("message")
        updated = updated or moment(said.get("timestamp"))
        model = model or (message.get("modelId") if isinstance(message, dict) else None)
    for said in first_records(path):
        started = moment(said.get("timestamp"))
        if started:
            break
    caller, origin = head.get("callingSessionId"), head.get("parent")
    return Unit(
        id=path.stem,
        active=updated or path.stat().st_mtime,
        parts=(),
        started=started,
        parent=str(caller or origin or ""),
        relation=Relation.DELEGATE if caller else Relation.BRANCH if origin else None,
        cwd=str(head.get("lastCwd") or head.get("cwd") or ""),
        title=str(head.get("title") or ""),
        model=str(model or ""),
        transcript=path,
    )


def _parts(root: Path, path: Path) -> tuple[Part, ...]:
    beside = (path.with_suffix(end) for end in (".settings.json", ".settings.json.bak"))
    cache = root / "cache"
    traces = (
        (cache / "session-discovery-index.json", "entries", None, path.stem),
        (cache / "search" / "manifest.json", "sessions", None, str(path)),
        (root / "task-invocations.json", "invocations", "parentSessionId", path.stem),
        (root / "task-invocations.json.bak", "invocations", "parentSessionId", path.stem),
    )
    return (
        FilePart(path=path, role=Role.REFERENCE),
        *(FilePart(path=each) for each in beside),
        *(
            LinePart(path=where, at=(place,), key=key, value=value, role=Role.TRACE)
            for where, place, key, value in traces
        ),
    )


def _used(settings: Record) -> Usage | None:
    tokens = tokens_in(
        settings.get("tokenUsage"),
        input=("inputTokens", "cacheCreationTokens"),
        output=("outputTokens", "thinkingTokens"),
        cached=("cacheReadTokens",),
    )
    return used(tokens)


def _settings(path: Path) -> Record:
    try:
        return next(whole_records(path.with_suffix(".settings.json")), {})
    except OSError:
        return {}


def _is_head(said: Record) -> bool:
    return said.get("type") == "session_start" and said.keys() >= _HEAD


def _head(path: Path) -> Record:
    return next(first_records(path), {})


def _files(root: Path) -> list[Path]:
    """In a folder for each project, and older ones beside those folders."""
    sessions = root / "sessions"
    return [
        folder / name
        for folder in (sessions, *sorted(sessions.glob("*/")))
        for name in sorted(names_in(folder))
        if name.endswith(".jsonl") and is_plain_name(name.removesuffix(".jsonl"))
    ]
