"""Gemini CLI.

tmp/SLUG/chats/session-TIME-ID.jsonl   a chat: messages and patches, of which the last wins
tmp/SLUG/chats/session-TIME-ID.json    the same from an earlier release, as one document
tmp/SLUG/chats/ID/AGENT.jsonl          its subagents
tmp/SLUG/ID/                           its plans and tasks
tmp/SLUG/logs/session-ID.jsonl, tmp/SLUG/tool-outputs/session-ID/
tmp/SLUG/logs.json                     what the user typed, all chats of the project together
tmp/SLUG/checkpoints/, history/SLUG/   state before an edit; a start deletes the names, not the data
tmp/SLUG/.project_root                 the working directory

It leaves no sign of life. Starting it touches the previous chat, so the mtime of a file is
meaningless; `lastUpdated` inside it counts.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from holdfast.homes.agents.agent_format import AgentFormat, facts_of, is_home, trace, unless_uuid
from holdfast.homes.agents.json_lines import (
    INJECTED,
    Record,
    document_in,
    files_in,
    head_of,
    is_plain_name,
    last_records,
    moment,
    names_in,
    objects_in,
    opening,
    settings_in,
    text_of,
    transcript_of,
    unit_of,
    within,
)
from holdfast.homes.agents.leftovers import leftover, matching, name_below
from holdfast.homes.agents.message_blocks import GEMINI, tool_calls_in
from holdfast.homes.agents.rewritten_transcript import Rewritten
from holdfast.model.part import (
    FilePart,
    FolderPart,
    Known,
    Leftover,
    Part,
    Places,
    Role,
    Transcript,
    Unit,
)
from holdfast.model.session import Message, Relation
from holdfast.model.vault import Sweep
from holdfast.stores.files import read_file
from holdfast.value import replace

_CHAT = re.compile(r"session-.+\.jsonl?")
_ROLES = {"user": "user", "gemini": "assistant", "info": "system", "error": "system"}
#: How the first message begins, which Gemini itself wrote.
_CONTEXT = "<session_context>"
#: Folders of a project; a chat with such a name cannot own one.
_TAKEN = {"chats", "checkpoints", "logs", "memory", "plans", "tasks", "tool-outputs", "tracker"}
#: The age in days at which Gemini deletes a chat, unless its settings name another one.
_SWEPT_AFTER = 30.0
_AGE = re.compile(r"(\d{1,5})([hdwm])")
_UNITS = {"h": 1 / 24, "d": 1.0, "w": 7.0, "m": 30.0}
_HEAD = {"sessionId", "startTime", "lastUpdated"}
_LEFTOVERS = (
    ("temporary", "projects.json.*.tmp"),
    ("log", "tmp/*/logs/*"),
    ("tool-output", "tmp/*/tool-outputs/*"),
    ("checkpoint", "tmp/*/checkpoints/*.json"),
    ("shadow-repository", "history/*/"),
)


class Gemini(AgentFormat):
    facts = facts_of(
        "gemini",
        processes=("gemini", "gemini-cli"),
        places=Places(
            files=(
                "tmp/*/chats/session-*.json",
                "tmp/*/chats/session-*.jsonl",
                "tmp/*/logs/session-*.jsonl",
            ),
            folders=("tmp/*/tool-outputs/session-*", "tmp/*/chats/{id}", "tmp/*/*"),
            lines=("tmp/*/logs.json",),
        ),
    )
    proofs = ("tmp/*/chats/session-*",)
    emptied = ("tmp/*/chats",)
    folders = ("tmp/*/chats",)

    def recognise(self, root: Path) -> bool:
        return (root / "tmp").is_dir() and is_home(
            root,
            ("projects.json", "settings.json", "state.json"),
            files=_chats(root),
            is_session=lambda path: _head(path).keys() >= _HEAD,
            emptied=[self.is_emptied(root)],
        )

    def is_proof(self, path: Path) -> bool:
        return _CHAT.fullmatch(path.name) is not None and _head(path).keys() >= _HEAD

    def doubt(self, root: Path) -> str | None:
        """Nothing in a home names a version. A chat with an unknown head is from an unknown
        version; an empty one has only just begun."""
        for path in _chats(root):
            head = _head(path)
            if head and not head.keys() >= _HEAD:
                return f"{path.name} has an unknown header"
        return None

    def units(self, root: Path, known: Known) -> Iterator[Unit]:
        """A chat that an earlier release began has two files, one in each form."""
        found: dict[tuple[Path, str], list[Unit]] = defaultdict(list)
        for path in _chats(root):
            if unit := unit_of(path, known, _read):
                found[path.parent, unit.id].append(replace(unit, transcript=path))
        for (chats, name), units in found.items():
            latest = max(units, key=lambda unit: unit.active)
            goes_on = max(units, key=lambda unit: transcript_of(unit).suffix == ".jsonl")
            odd = unless_uuid(name, self.facts.agent)
            agents = [] if odd else files_in(chats / name, ".jsonl")
            files = [*map(transcript_of, units)]
            yield replace(
                latest,
                parts=tuple(FilePart(path=path, role=Role.REFERENCE) for path in files)
                if odd
                else _parts(chats, name, files, agents),
                transcript=goes_on.transcript,
                stays=odd,
            )
            for path in agents:
                if unit := unit_of(path, known, partial(_subagent, name)):
                    yield unit

    def leftovers(self, root: Path) -> Iterator[Leftover]:
        """Logs and results of chats that are gone. A shadow repository belongs to the project: it
        has the changes of all its chats."""
        chats = {path.stem.rpartition("-")[2] for path in _chats(root)}
        agents = {path.stem for path in root.glob("tmp/*/chats/*/*.jsonl")}
        for kind, path in matching(root, _LEFTOVERS):
            name = path.stem.removeprefix("session-")
            if name not in agents and (name == path.stem or name[:8] not in chats):
                yield from leftover(kind, path, name_below(root, path))

    def messages(self, root: Path, unit: Unit) -> Iterator[Message]:
        return spoken(transcript_of(unit))

    def sweep(self, root: Path) -> Sweep | None:
        """Gemini deletes at each start, by the last use that a chat records, in the project where
        it starts."""
        chosen = within(settings_in(root / "settings.json"), "general", "sessionRetention")
        if chosen.get("enabled") is False:
            return None
        found = _AGE.fullmatch(str(chosen.get("maxAge", "")))
        days = int(found[1]) * _UNITS[found[2]] if found else _SWEPT_AFTER
        return Sweep(days=days, setting="general.sessionRetention", by_file_time=False)

    def transcripts(self, path: Path) -> Iterator[Transcript] | None:
        if not any(each.keys() >= _HEAD for each in opening(path)[:1]):
            return None
        return iter([Transcript(path=path, unit=_read(path), messages=spoken(path))])


def spoken(path: Path) -> Iterator[Message]:
    """The messages, in the order in which each first appears. A message is written again when it
    changes, and a resumed chat begins with the messages so far."""
    if path.suffix == ".json":
        listed = objects_in(document_in(path).get("messages"))
        said: Iterable[Record] = filter(_is_message, listed)
    else:
        said = Rewritten(path, _rewrite).records()
    for record in said:
        yield from _messages(record)


def _rewrite(record: Record, said: Rewritten) -> None:
    """Apply one line to the messages so far."""
    patch = record.get("$set", record)
    if isinstance(patch, dict) and isinstance(patch.get("messages"), list):
        listed = enumerate(patch["messages"])
        fresh = {str(each["id"]): number for number, each in listed if _is_message(each)}
        said.keep_only(fresh)
        for name, number in fresh.items():
            said.put(name, ("$set",) * ("$set" in record) + ("messages", number))
    elif "$rewindTo" in record:
        said.cut(str(record["$rewindTo"]))
    elif _is_message(record):
        said.put(str(record["id"]))


def _is_message(record: object) -> bool:
    return isinstance(record, dict) and "type" in record and "id" in record


def _messages(said: Record) -> Iterator[Message]:
    at = moment(said.get("timestamp"))
    content = said.get("content")
    named = said.get("toolCalls")
    calls: list[Record] = named if isinstance(named, list) else []
    text = text_of(content)
    answers = [*function_answers(objects_in(content), at)]
    yield from answers
    if text or calls or not answers:
        yield Message(
            role=_ROLES.get(str(said.get("type")), "system"),
            content=text,
            timestamp=at,
            tool_calls=tool_calls_in(calls, arguments="args"),
            tokens=GEMINI(said.get("tokens")),
            extra={INJECTED: True} if text.startswith(_CONTEXT) else {},
        )


def function_answers(parts: Iterable[Record], at: float | None) -> Iterator[Message]:
    """The answers of tools, each as a separate message."""
    for each in objects_in([part.get("functionResponse") for part in parts]):
        output = within(each, "response").get("output")
        yield Message(
            role="tool",
            content=output if isinstance(output, str) else json.dumps(each.get("response")),
            timestamp=at,
            tool_name=each.get("name"),
            tool_call_id=each.get("id"),
        )


def _chats(root: Path) -> list[Path]:
    return [
        chats / name
        for chats in sorted(root.glob("tmp/*/chats"))
        for name in sorted(names_in(chats))
        if _CHAT.fullmatch(name) and (chats / name).is_file()
    ]


def _head(path: Path) -> Record:
    return document_in(path) if path.suffix == ".json" else head_of(path)


def _read(path: Path) -> Unit:
    head = _head(path)
    updated = title = model = None
    for said in last_records(path) if path.suffix == ".jsonl" else [head]:
        change = said.get("$set")
        patch: Record = change if isinstance(change, dict) else said
        updated = updated or moment(patch.get("lastUpdated"))
        title = title or patch.get("summary")
        model = model or said.get("model")
    for each in head.get("messages", ()) if path.suffix == ".json" else ():
        model = each.get("model") or model
    root = _project(path) / ".project_root"
    return Unit(
        id=str(head.get("sessionId") or path.stem),
        active=updated or moment(head.get("lastUpdated")) or path.stat().st_mtime,
        parts=(),
        started=moment(head.get("startTime")),
        cwd=read_file(root).decode(errors="surrogateescape").strip() if root.is_file() else "",
        title=str(title or ""),
        model=str(model or ""),
        transcript=path,
    )


def _subagent(parent: str, path: Path) -> Unit:
    return replace(_read(path), id=path.stem, parent=parent, relation=Relation.DELEGATE)


def _project(path: Path) -> Path:
    """The project folder of a chat or of its subagent."""
    inside = (each.parent for each in path.parents if each.name == "chats")
    return next(inside, path.parent.parent)


def _parts(
    chats: Path, name: str, files: Sequence[Path], agents: Sequence[Path]
) -> tuple[Part, ...]:
    project = chats.parent
    names = (name, *(path.stem for path in agents))
    own = [each for each in names if is_plain_name(each) and each.lower() not in _TAKEN]
    return (
        *(FilePart(path=path, role=Role.REFERENCE) for path in files),
        *(
            part
            for each in own
            for part in (
                FilePart(path=project / "logs" / f"session-{each}.jsonl"),
                FolderPart(path=project / "tool-outputs" / f"session-{each}"),
                FolderPart(path=project / each),
            )
        ),
        *([FolderPart(path=chats / name)] if name in own else []),
        trace(project / "logs.json", name, key="sessionId"),
    )
