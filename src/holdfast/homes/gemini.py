"""Gemini CLI.

tmp/SLUG/chats/session-TIME-ID.jsonl   a chat: messages, and patches whose last word wins
tmp/SLUG/logs.json                     what the user typed, all chats of the project together
tmp/SLUG/checkpoints/, history/SLUG/   state before an edit; a start deletes the names, not the data
tmp/SLUG/.project_root                 the working directory

It leaves no sign of life at all. Starting it touches the chat before, so the time of a file says
nothing: `lastUpdated` inside does.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from holdfast.homes.records import (
    Record,
    first_records,
    last_records,
    moment,
    opening,
    records,
    text_of,
)
from holdfast.model.part import (
    Facts,
    FilePart,
    FolderPart,
    Known,
    Leftover,
    LinePart,
    Part,
    Role,
    Signs,
    Transcript,
    Unit,
)
from holdfast.model.session import Message, Tokens
from holdfast.value import replace

_HEAD = {"sessionId", "startTime", "lastUpdated"}
_CHATS = "tmp/*/chats/session-*.jsonl"
_ROLES = {"user": "user", "gemini": "assistant", "info": "system", "error": "system"}


class Gemini:
    facts = Facts(
        name="gemini",
        agent="Gemini CLI",
        folder=".gemini",
        processes=("gemini", "gemini-cli"),
    )

    def recognise(self, root: Path) -> bool:
        return (root / "tmp").is_dir() and any(
            (root / each).exists() for each in ("projects.json", "settings.json", "state.json")
        )

    def doubt(self, root: Path) -> str | None:
        """Nothing in a home names a version. A chat that begins otherwise than those we know is of
        another one."""
        for path in _chats(root):
            head = next(first_records(path), {})
            if not head.keys() >= _HEAD:
                return f"{path.name} does not begin like a chat that Holdfast knows"
        return None

    def roots(self, root: Path) -> Sequence[Path]:
        return [root]

    def units(self, root: Path, known: Known) -> Iterator[Unit]:
        for path in _chats(root):
            unit = known(path) or _read(path)
            yield replace(unit, parts=_parts(unit.id, path))

    def leftovers(self, root: Path) -> Iterator[Leftover]:
        for kind, pattern in (
            ("temporary", "projects.json.*.tmp"),
            ("log", "tmp/*/logs/*"),
            ("checkpoint", "tmp/*/checkpoints/*.json"),
            ("shadow-repository", "history/*/"),
        ):
            for path in sorted(root.glob(pattern)):
                folder = path.is_dir() and not path.is_symlink()
                yield Leftover(
                    kind=kind,
                    id=str(path.relative_to(root)).replace("/", ":"),
                    active=path.lstat().st_mtime,
                    parts=(FolderPart(path=path) if folder else FilePart(path=path),),
                )

    def messages(self, root: Path, unit: Unit) -> Iterator[Message]:
        for path in _chats(root):
            if unit.id.startswith(path.stem.rpartition("-")[2]) and _read(path).id == unit.id:
                yield from spoken(path)
                return

    def signs(self, root: Path, now: float) -> Signs:
        return Signs()  # the processes of the agent are all there is to see

    def transcripts(self, path: Path) -> Iterator[Transcript] | None:
        if not any(each.keys() >= _HEAD for each in opening(path)[:1]):
            return None
        return iter([Transcript(path=path, unit=_read(path), messages=spoken(path))])


def spoken(path: Path) -> Iterator[Message]:
    """What was said, in the order of the first word on each message. A message is written again
    when it changes, and a resumed chat begins with the messages so far."""
    said: dict[str, Record] = {}
    for record in records(path):
        patch = record.get("$set")
        if isinstance(patch, dict) and isinstance(patch.get("messages"), list):
            fresh = {str(each.get("id")): each for each in patch["messages"]}
            said = {**{n: m for n, m in said.items() if n in fresh}, **fresh}
        elif "type" in record and "id" in record:
            said[str(record["id"])] = record
    for message in said.values():
        yield from _messages(message)


def _messages(said: Record) -> Iterator[Message]:
    at = moment(said.get("timestamp"))
    content = said.get("content")
    named = said.get("toolCalls")
    calls: list[Record] = named if isinstance(named, list) else []
    text = text_of(content)
    answers = [
        each["functionResponse"]
        for each in (content if isinstance(content, list) else [])
        if isinstance(each, dict) and isinstance(each.get("functionResponse"), dict)
    ]
    for each in answers:
        yield Message(
            role="tool",
            content=_output(each.get("response")),
            timestamp=at,
            tool_name=each.get("name"),
            tool_call_id=each.get("id"),
        )
    if text or calls or not answers:
        yield Message(
            role=_ROLES.get(str(said.get("type")), "system"),
            content=text,
            timestamp=at,
            tool_calls=[
                {"id": each.get("id"), "name": each.get("name"), "arguments": each.get("args")}
                for each in calls
            ]
            or None,
            tokens=_tokens(said.get("tokens")),
        )


def _output(response: Any) -> str:
    if isinstance(response, dict) and isinstance(response.get("output"), str):
        return str(response["output"])
    return json.dumps(response)


def _tokens(said: Any) -> Tokens | None:
    if not isinstance(said, dict):
        return None
    count = {name: n for name, n in said.items() if isinstance(n, int)}
    cached = count.get("cached", 0)
    return Tokens(
        input=max(0, count.get("input", 0) - cached),
        output=count.get("output", 0) + count.get("thoughts", 0),
        cached=cached,
    )


def _chats(root: Path) -> list[Path]:
    return sorted(root.glob(_CHATS))


def _read(path: Path) -> Unit:
    head = next(first_records(path), {})
    updated = title = model = None
    for said in last_records(path):
        change = said.get("$set")
        patch: Record = change if isinstance(change, dict) else said
        updated = updated or moment(patch.get("lastUpdated"))
        title = title or patch.get("summary")
        model = model or said.get("model")
    root = path.parent.parent / ".project_root"
    return Unit(
        id=str(head.get("sessionId") or path.stem),
        active=updated or moment(head.get("lastUpdated")) or path.stat().st_mtime,
        parts=(),
        started=moment(head.get("startTime")),
        cwd=root.read_text().strip() if root.is_file() else "",
        title=str(title or ""),
        model=str(model or ""),
    )


def _parts(name: str, path: Path) -> tuple[Part, ...]:
    return (
        FilePart(path=path, role=Role.REFERENCE),
        LinePart(
            path=path.parent.parent / "logs.json", key="sessionId", value=name, role=Role.TRACE
        ),
    )
