"""pi.

sessions/--CWD--/TIME_ID.jsonl   a session: its head, then a tree of entries by `id` and `parentId`

Entries of all branches are appended to the same file; it is not written before the first entry.
It leaves no sign of life, and no other file names a session.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from holdfast.homes.agents.agent_format import (
    TranscriptFormat,
    facts_of,
    is_home,
    strange_head,
    unless_uuid,
)
from holdfast.homes.agents.appended_transcript import Lines
from holdfast.homes.agents.json_lines import (
    Record,
    files_in,
    first_records,
    head_of,
    last_records,
    moment,
    opening,
    text_of,
    unit_of,
    within,
)
from holdfast.homes.agents.message_blocks import blocks_of, tokens_in, tool_calls_in
from holdfast.model.part import FilePart, Known, Places, Role, Transcript, Unit
from holdfast.model.session import Message, Relation
from holdfast.value import replace

_VERSIONS = (1, 2, 3)
_HEAD = {"type", "id", "timestamp", "cwd"}
#: The roles in entries. Other entries were written by the program.
_ROLES = {"user": "user", "assistant": "assistant", "toolResult": "tool"}


class Pi(TranscriptFormat):
    facts = facts_of(
        "pi",
        processes=("pi", "pi-coding-agent"),
        versions=("0.73.1",),
        places=Places(
            files=("sessions/*/*.jsonl",),
        ),
    )
    proofs = ("sessions/--*/*.jsonl",)
    emptied = ("sessions/--*--",)

    def recognise(self, root: Path) -> bool:
        return (root / "sessions").is_dir() and is_home(
            root,
            ("auth.json", "models.json", "settings.json"),
            files=root.glob("sessions/--*/*.jsonl"),
            is_session=lambda path: _is_head(head_of(path)),
            emptied=[self.is_emptied(root)],
        )

    def is_proof(self, path: Path) -> bool:
        return _is_head(head_of(path))

    def doubt(self, root: Path) -> str | None:
        return strange_head(
            _files(root), lambda head: _is_head(head) and head.get("version", 1) in _VERSIONS
        )

    def units(self, root: Path, known: Known) -> Iterator[Unit]:
        for path in _files(root):
            if unit := unit_of(path, known, _read):
                odd = unless_uuid(path.stem.rpartition("_")[2], self.facts.agent)
                yield replace(unit, parts=(FilePart(path=path, role=Role.REFERENCE),), stays=odd)

    def spoken(self, lines: Lines) -> Iterator[Message]:
        """The messages in the order they were written, including branches that the user
        abandoned."""
        for said in lines:
            lines.settle()
            yield from told(said)

    def transcripts(self, path: Path) -> Iterator[Transcript] | None:
        for head in filter(_is_head, opening(path)[:1]):
            return iter([self.told(path, replace(_read(path), id=str(head["id"])))])
        return None


def _is_head(said: Record) -> bool:
    """True for the first line of a session."""
    return said.get("type") == "session" and said.keys() >= _HEAD


def _read(path: Path) -> Unit:
    """A session without its parts."""
    head = head_of(path)
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


def told(said: Record) -> Iterator[Message]:
    """The message in one record of a transcript, if any. OpenClaw stores the same records in
    rows."""
    message, at = said.get("message"), moment(said.get("timestamp"))
    if said.get("type") == "message" and isinstance(message, dict):
        yield _message(message, at)
    elif isinstance(said.get("summary"), str):  # from a compaction or an abandoned branch
        yield Message(role="system", content=said["summary"], timestamp=at)


def _message(said: Record, at: float | None) -> Message:
    content, usage = said.get("content"), said.get("usage")
    thoughts = [str(each.get("thinking") or "") for each in blocks_of(content, "thinking")]
    return Message(
        role=_ROLES.get(str(said.get("role")), "system"),
        content=text_of(content) or str(said.get("output") or ""),
        timestamp=at,
        tool_calls=tool_calls_in(blocks_of(content, "toolCall"), arguments="arguments"),
        tool_name=said.get("toolName"),
        tool_call_id=said.get("toolCallId"),
        reasoning="\n".join(thoughts) or None,
        tokens=tokens_in(
            usage, input=("input", "cacheWrite"), output=("output",), cached=("cacheRead",)
        ),
        cost=_cost(usage),
    )


def _cost(usage: object) -> float | None:
    """The cost of a message. pi writes 0 for a model whose price it does not know."""
    total = within(usage, "cost").get("total")
    return total if isinstance(total, int | float) and total > 0 else None


def _model(said: Record) -> str | None:
    message = said.get("message")
    found = message.get("model") if isinstance(message, dict) else said.get("modelId")
    return found if isinstance(found, str) else None


def _files(root: Path) -> list[Path]:
    folders = sorted((root / "sessions").glob("*/"))
    return [path for folder in folders for path in files_in(folder, ".jsonl")]
