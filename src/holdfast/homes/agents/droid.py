"""droid, of Factory.

sessions/-CWD/ID.jsonl               a session: its head, then messages, appended
sessions/-CWD/ID.settings.json       its model and usage, with a copy next to it
cache/session-discovery-index.json   its list of sessions, recreated if missing
cache/search/manifest.json           its search data for each session, recreated if missing
task-invocations.json                which session called which subagent, with a copy next to it
logs/, bin/                          logs, and a program that it copied there

It leaves no sign of life. A session that is continued in another folder notes it in its head.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from holdfast.homes.agents import signs_of_life as life
from holdfast.homes.agents.agent_format import (
    TranscriptFormat,
    facts_of,
    is_home,
    strange_head,
    trace,
    unless_uuid,
)
from holdfast.homes.agents.appended_transcript import Lines
from holdfast.homes.agents.json_lines import (
    Record,
    files_in,
    first_records,
    head_of,
    is_plain_name,
    last_records,
    moment,
    opening,
    settings_in,
    unit_of,
    within,
)
from holdfast.homes.agents.message_blocks import block_messages, tokens_in, used
from holdfast.model.part import FilePart, Known, Part, Places, Role, Signs, Transcript, Unit
from holdfast.model.session import Message, Relation
from holdfast.model.usage import Usage
from holdfast.value import replace

_VERSIONS = (1, 2)
_HEAD = {"type", "id", "version", "cwd"}
#: How the ids of messages begin that the agent itself wrote.
_CONTEXT = "context-"
#: Arguments of a process that serves an editor, a browser or another computer.
_SERVERS = ("acp", "acp-daemon", "daemon", "stream-jsonrpc")


class Droid(TranscriptFormat):
    facts = facts_of(
        "droid",
        processes=("droid",),
        versions=("0.215.0",),
        places=Places(
            files=(
                "sessions/*/{id}.jsonl",
                "sessions/*/{id}.settings.json",
                "sessions/*/{id}.settings.json.bak",
            ),
            lines=(
                "cache/session-discovery-index.json",
                "cache/search/manifest.json",
                "task-invocations.json",
                "task-invocations.json.bak",
            ),
        ),
    )
    proofs = ("sessions/-*/*.jsonl", "sessions/*.jsonl")
    emptied = ("sessions/-[!-]*",)
    left = (("log", "logs/*"), ("program", "bin/rg"))

    def recognise(self, root: Path) -> bool:
        return (root / "sessions").is_dir() and is_home(
            root,
            ("host.json", "droids", "last-startup-version"),
            files=root.glob("sessions/-*/*.jsonl"),
            is_session=lambda path: _is_head(head_of(path)),
            emptied=[self.is_emptied(root)],
        )

    def is_proof(self, path: Path) -> bool:
        return _is_head(head_of(path))

    def doubt(self, root: Path) -> str | None:
        return strange_head(
            _files(root), lambda head: _is_head(head) and head["version"] in _VERSIONS
        )

    def units(self, root: Path, known: Known) -> Iterator[Unit]:
        """The usage of a session is in a separate file, which is written after the messages."""
        for path in _files(root):
            if unit := unit_of(path, known, _read):
                settings = settings_in(path.with_suffix(".settings.json"))
                odd = unless_uuid(path.stem, self.facts.agent)
                yield replace(
                    unit,
                    parts=(FilePart(path=path),) if odd else _parts(root, path),
                    stays=odd,
                    model=str(settings.get("model") or unit.model),
                    used=_used(settings),
                )

    def signs(self, root: Path, now: float) -> Signs:
        """A process that serves an editor can have sessions of any folder open."""
        return Signs(home=life.serving(self.facts.processes, _SERVERS))

    def transcripts(self, path: Path) -> Iterator[Transcript] | None:
        for head in filter(_is_head, opening(path)[:1]):
            return iter([self.told(path, replace(_read(path), id=str(head["id"])))])
        return None

    def spoken(self, lines: Lines) -> Iterator[Message]:
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
    head = head_of(path)
    updated = model = None
    for said in last_records(path):
        updated = updated or moment(said.get("timestamp"))
        model = model or within(said, "message").get("modelId")
    times = (moment(said.get("timestamp")) for said in first_records(path))
    caller, origin = head.get("callingSessionId"), head.get("parent")
    return Unit(
        id=path.stem,
        active=updated or path.stat().st_mtime,
        parts=(),
        started=next(filter(None, times), None),
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
        *(trace(where, value, at=(place,), key=key) for where, place, key, value in traces),
    )


def _used(settings: Record) -> Usage | None:
    tokens = tokens_in(
        settings.get("tokenUsage"),
        input=("inputTokens", "cacheCreationTokens"),
        output=("outputTokens", "thinkingTokens"),
        cached=("cacheReadTokens",),
    )
    return used(tokens)


def _is_head(said: Record) -> bool:
    return said.get("type") == "session_start" and said.keys() >= _HEAD


def _files(root: Path) -> list[Path]:
    """Transcripts are in a folder per project; older ones are next to those folders."""
    sessions = root / "sessions"
    folders = (sessions, *sorted(sessions.glob("*/")))
    found = (path for folder in folders for path in files_in(folder, ".jsonl"))
    return [path for path in found if is_plain_name(path.name.removesuffix(".jsonl"))]
