"""pi.

sessions/--CWD--/TIME_ID.jsonl   a session: its head, then a tree of entries by `id` and `parentId`

Entries are appended, whichever branch of the tree they belong to; a file with nothing but its head
is not written. It leaves no sign of life at all, and has no other file that names a session.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from holdfast.homes.appended import Appended, Lines
from holdfast.homes.blocks import blocks_of, tokens_in, tool_call
from holdfast.homes.records import (
    Record,
    first_records,
    last_records,
    moment,
    names_in,
    newest,
    opening,
    text_of,
    transcript_of,
    unit_of,
)
from holdfast.model.part import (
    Facts,
    FilePart,
    Known,
    Leftover,
    Role,
    Signs,
    Transcript,
    Unit,
)
from holdfast.model.session import Message, Relation
from holdfast.value import replace

_VERSIONS = (1, 2, 3)
_HEAD = {"type", "id", "timestamp", "cwd"}
#: Who speaks in an entry. What else there is was put there by the program.
_ROLES = {"user": "user", "assistant": "assistant", "toolResult": "tool"}


class Pi:
    facts = Facts(
        name="pi",
        agent="pi",
        folder=".pi/agent",
        environment="PI_CODING_AGENT_DIR",
        processes=("pi", "pi-coding-agent"),
        versions=("0.73.1",),
    )

    def recognise(self, root: Path) -> bool:
        return (root / "sessions").is_dir() and any(
            (root / each).exists() for each in ("auth.json", "models.json", "settings.json")
        )

    def doubt(self, root: Path) -> str | None:
        path = newest(_files(root))
        head = _head(path) if path else {}
        if path and head and not (is_head(head) and head.get("version", 1) in _VERSIONS):
            return f"{path.name} does not begin like a session that Holdfast knows"
        return None

    def roots(self, root: Path) -> Sequence[Path]:
        return [root]

    def units(self, root: Path, known: Known) -> Iterator[Unit]:
        for path in _files(root):
            if unit := unit_of(path, known, read):
                yield replace(unit, parts=(FilePart(path=path, role=Role.REFERENCE),))

    def leftovers(self, root: Path) -> Iterator[Leftover]:
        return iter(())

    def messages(self, root: Path, unit: Unit) -> Iterator[Message]:
        return spoken(transcript_of(unit))

    def appended(self, root: Path, unit: Unit) -> Appended | None:
        return Appended(path=transcript_of(unit), spoken=_said)

    def signs(self, root: Path, now: float) -> Signs:
        return Signs()  # the processes of the agent are all there is to see

    def transcripts(self, path: Path) -> Iterator[Transcript] | None:
        for head in filter(is_head, opening(path)[:1]):
            unit = replace(read(path), id=str(head["id"]))
            return iter([Transcript(path=path, unit=unit, messages=spoken(path))])
        return None


def is_head(said: Record) -> bool:
    """Whether this is the first line of a session."""
    return said.get("type") == "session" and said.keys() >= _HEAD


def read(path: Path) -> Unit:
    """A session without its parts."""
    head = _head(path)
    title = model = updated = None
    for said in last_records(path):
        updated = updated or moment(said.get("timestamp"))
        title = title or (said.get("name") if said.get("type") == "session_info" else None)
        model = model or _model(said)
    if model is None:
        model = next(filter(None, map(_model, first_records(path))), None)
    parent = Path(str(head.get("parentSession") or "")).stem.rpartition("_")[2]
    return Unit(
        id=path.stem.rpartition("_")[2],
        active=updated or moment(head.get("timestamp")) or path.stat().st_mtime,
        parts=(),
        started=moment(head.get("timestamp")),
        parent=parent,
        relation=Relation.BRANCH if parent else None,
        cwd=str(head.get("cwd") or ""),
        title=str(title or ""),
        model=str(model or ""),
        transcript=path,
    )


def spoken(path: Path) -> Iterator[Message]:
    """What was said, in the order in which it was: a branch that the user left is in it as well."""
    return _said(Lines(path))


def _said(lines: Lines) -> Iterator[Message]:
    for said in lines:
        lines.settle()
        yield from told(said)


def told(said: Record) -> Iterator[Message]:
    """What one record of a transcript says. OpenClaw keeps the same records in rows."""
    message, at = said.get("message"), moment(said.get("timestamp"))
    if said.get("type") == "message" and isinstance(message, dict):
        yield _message(message, at)
    elif isinstance(said.get("summary"), str):  # of a compaction, or of a branch that was left
        yield Message(role="system", content=said["summary"], timestamp=at)


def _message(said: Record, at: float | None) -> Message:
    content, usage = said.get("content"), said.get("usage")
    thoughts = [str(each.get("thinking") or "") for each in blocks_of(content, "thinking")]
    return Message(
        role=_ROLES.get(str(said.get("role")), "system"),
        content=text_of(content) or str(said.get("output") or ""),
        timestamp=at,
        tool_calls=[
            tool_call(each.get("name"), each.get("arguments"), each.get("id"))
            for each in blocks_of(content, "toolCall")
        ]
        or None,
        tool_name=said.get("toolName"),
        tool_call_id=said.get("toolCallId"),
        reasoning="\n".join(thoughts) or None,
        tokens=tokens_in(
            usage, input=("input", "cacheWrite"), output=("output",), cached=("cacheRead",)
        ),
        cost=_cost(usage),
    )


def _cost(usage: object) -> float | None:
    """Nothing is what it writes for a model whose price it does not know."""
    cost = usage.get("cost") if isinstance(usage, dict) else None
    total = cost.get("total") if isinstance(cost, dict) else None
    return total if isinstance(total, int | float) and total > 0 else None


def _model(said: Record) -> str | None:
    message = said.get("message")
    found = message.get("model") if isinstance(message, dict) else said.get("modelId")
    return found if isinstance(found, str) else None


def _head(path: Path) -> Record:
    return next(first_records(path), {})


def _files(root: Path) -> list[Path]:
    return [
        folder / name
        for folder in sorted((root / "sessions").glob("*/"))
        for name in sorted(names_in(folder))
        if name.endswith(".jsonl")
    ]
