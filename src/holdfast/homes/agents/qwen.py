"""Qwen Code. It began as a fork of Gemini CLI; its home is now laid out like Claude Code's.

projects/CWD/chats/ID.jsonl          the transcript; CWD has dashes for slashes
projects/CWD/chats/ID.runtime.json   the last process that had it open; stays after a clean end
projects/CWD/subagents/ID/           its subagents
file-history/ID/                     copies of files before an edit
debug/ID.txt
tmp/HASH/logs.json                   what the user typed, all sessions of a project together
usage_record.jsonl                   one line per session, never removed
sessions/PID.json                    a process with a terminal; a crash leaves it behind

A run without a terminal leaves no sign of life.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from holdfast.homes.agents import signs_of_life as life
from holdfast.homes.agents.agent_format import TranscriptFormat, facts_of, trace, unless_uuid
from holdfast.homes.agents.appended_transcript import Lines
from holdfast.homes.agents.gemini import function_answers
from holdfast.homes.agents.json_lines import (
    Record,
    fields,
    files_in,
    first_records,
    is_plain_name,
    last_records,
    moment,
    names_in,
    objects_in,
    opening,
    unit_of,
)
from holdfast.homes.agents.leftovers import leftover, matching, name_below
from holdfast.homes.agents.message_blocks import tokens_in, tool_calls_in
from holdfast.model.part import (
    FilePart,
    FolderPart,
    Known,
    Leftover,
    Part,
    Places,
    Role,
    Signs,
    Transcript,
    Unit,
)
from holdfast.model.session import Message, Relation
from holdfast.value import replace

_HEAD = {"uuid", "sessionId", "timestamp", "type", "cwd", "message"}
_ROLES = {"user": "user", "assistant": "assistant", "tool_result": "tool"}
#: Folders outside the project with entries named after a session, and their file ending.
_SIDES = (("file-history", ""), ("debug", ".txt"))
_LEFTOVERS = (
    ("file-history", "file-history/*"),
    ("debug-log", "debug/*"),
    ("runtime-mark", "projects/*/chats/*.runtime.json"),
    ("subagent", "projects/*/subagents/*"),
    ("log", "logs/*"),
    ("staging", "extension-store/staging/*"),
)


class Qwen(TranscriptFormat):
    facts = facts_of(
        "qwen",
        processes=("qwen", "qwen-code"),
        versions=("0",),
        places=Places(
            files=(
                "projects/*/chats/{id}.jsonl",
                "projects/*/chats/{id}.runtime.json",
                "debug/{id}.txt",
            ),
            folders=("projects/*/subagents/{id}", "file-history/{id}"),
            lines=("tmp/*/logs.json", "usage_record.jsonl"),
        ),
    )
    proofs = ("projects/*/chats/*.jsonl",)
    emptied = ("projects/*/chats",)
    having = (b'"user"', b'"assistant"', b'"tool_result"')
    folders = ("projects/*/chats",)

    def recognise(self, root: Path) -> bool:
        """Claude Code has `projects` too, but without `chats` inside."""
        return any(root.glob("projects/*/chats"))

    def is_proof(self, path: Path) -> bool:
        return any({"uuid", "sessionId"} <= each.keys() for each in opening(path))

    def doubt(self, root: Path) -> str | None:
        return self.newer_version(_chats(root))

    def units(self, root: Path, known: Known) -> Iterator[Unit]:
        beside = {folder: frozenset(names_in(root / folder)) for folder, _ in _SIDES}
        logs = sorted(root.glob("tmp/*/logs.json"))
        for path in _chats(root):
            if unit := unit_of(path, known, _read):
                odd = unless_uuid(path.stem, self.facts.agent)
                parts = (FilePart(path=path),) if odd else _parts(root, path, beside, logs)
                yield replace(unit, parts=parts, stays=odd)
                if odd:
                    continue
            folder = path.parent.parent / "subagents" / path.stem
            for agent in files_in(folder, ".jsonl"):
                if unit := unit_of(agent, known, partial(_subagent, path.stem)):
                    yield unit

    def leftovers(self, root: Path) -> Iterator[Leftover]:
        """Files of sessions that are gone, and files that belong to none."""
        sessions = {path.stem for path in _chats(root)}
        for kind, path in matching(root, _LEFTOVERS):
            if path.name.partition(".")[0] not in sessions:
                yield from leftover(kind, path, name_below(root, path))

    def signs(self, root: Path, now: float) -> Signs:
        """A process with a terminal registers itself with its start time."""
        return life.registered_in(root / "sessions")

    def transcripts(self, path: Path) -> Iterator[Transcript] | None:
        head = next((each for each in opening(path) if each.keys() >= _HEAD), None)
        if head is None or "parts" not in (head["message"] or ()):
            return None
        session = str(head["sessionId"])
        unit = replace(_read(path), id=session)
        if head.get("isSidechain"):
            unit = replace(_subagent(session, path), id=f"agent-{head.get('agentId')}")
        return iter([self.told(path, unit)])

    def spoken(self, lines: Lines) -> Iterator[Message]:
        for said in lines:
            lines.settle()
            message = said.get("message")
            if said.get("type") in _ROLES and isinstance(message, dict):
                yield from _messages(said, message)


def _messages(said: Record, message: Record) -> Iterator[Message]:
    at = moment(said.get("timestamp"))
    parts = objects_in(message.get("parts"))
    answers = [*function_answers(parts, at)]
    calls = objects_in([each.get("functionCall") for each in parts])
    yield from answers
    text = _text(parts, thought=False)
    if text or calls or not answers:
        yield Message(
            role=_ROLES[said["type"]],
            content=text,
            timestamp=at,
            reasoning=_text(parts, thought=True) or None,
            tool_calls=tool_calls_in(calls, arguments="args"),
            tokens=tokens_in(
                said.get("usageMetadata"),
                input=("promptTokenCount",),
                output=("candidatesTokenCount", "thoughtsTokenCount"),
                cached=("cachedContentTokenCount",),
                cached_is_input=True,
            ),
        )


def _text(parts: Sequence[Record], *, thought: bool) -> str:
    return "\n".join(
        each["text"]
        for each in parts
        if isinstance(each.get("text"), str) and bool(each.get("thought")) is thought
    )


def _chats(root: Path) -> list[Path]:
    projects = root / "projects"
    folders = (projects / name / "chats" for name in sorted(names_in(projects)))
    found = (path for folder in folders for path in files_in(folder, ".jsonl"))
    return [path for path in found if is_plain_name(path.name.removesuffix(".jsonl"))]


def _subagent(parent: str, path: Path) -> Unit:
    return replace(_read(path), parent=parent, relation=Relation.DELEGATE)


def _read(path: Path) -> Unit:
    """The unit, from the head and the tail of a transcript."""
    head = fields(first_records(path), "cwd", "timestamp")
    active = None
    title = model = ""
    for said in last_records(path):
        active = max(filter(None, (active, moment(said.get("timestamp")))), default=None)
        told = said.get("systemPayload")
        if said.get("subtype") == "custom_title" and isinstance(told, dict):
            title = title or str(told.get("customTitle") or told.get("title") or "")
        model = model or str(said.get("model") or "")
    return Unit(
        id=path.stem,
        active=active or path.stat().st_mtime,
        parts=(),
        started=moment(head.get("timestamp")),
        cwd=str(head.get("cwd") or ""),
        title=title,
        model=model,
        transcript=path,
    )


def _parts(
    root: Path, path: Path, beside: Mapping[str, Collection[str]], logs: Sequence[Path]
) -> tuple[Part, ...]:
    name = path.stem
    return (
        FilePart(path=path, role=Role.REFERENCE),
        FilePart(path=path.with_suffix(".runtime.json")),
        FolderPart(path=path.parent.parent / "subagents" / name),
        *(
            FilePart(path=root / folder / f"{name}{ending}")
            if ending
            else FolderPart(path=root / folder / name)
            for folder, ending in _SIDES
            if f"{name}{ending}" in beside[folder]
        ),
        *(trace(each, name, key="sessionId") for each in logs),
        trace(root / "usage_record.jsonl", name, key="sessionId", lines=True),
    )
