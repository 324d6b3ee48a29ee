"""Qwen Code. It began as a fork of Gemini CLI; its home is now laid out like Claude Code's.

projects/CWD/chats/ID.jsonl          the transcript; CWD has dashes for slashes
projects/CWD/chats/ID.runtime.json   who last had it open: it stays after a clean end as well
projects/CWD/subagents/ID/           what its subagents did
file-history/ID/                     copies of files before an edit
debug/ID.txt
tmp/HASH/logs.json                   what the user typed, all sessions of a project together
usage_record.jsonl                   a line a session, for ever
sessions/PID.json                    a process with a terminal; a crash leaves it behind

A run without a terminal leaves no sign of life.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from glob import escape
from pathlib import Path
from typing import Any

from holdfast.homes import life
from holdfast.homes.gemini import output_of
from holdfast.homes.records import (
    Record,
    first_records,
    is_plain_name,
    last_records,
    moment,
    names_in,
    opening,
    records,
    whole_records,
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
from holdfast.model.session import Message, Relation, Tokens
from holdfast.value import replace

_HEAD = {"uuid", "sessionId", "timestamp", "type", "cwd", "message"}
_SPOKEN = (b'"type":"user"', b'"type":"assistant"', b'"type":"tool_result"')
_ROLES = {"user": "user", "assistant": "assistant", "tool_result": "tool"}
#: Folders and files of a session outside its project, by its name.
_SIDES = (("file-history", ""), ("debug", ".txt"))


class Qwen:
    facts = Facts(
        name="qwen",
        agent="Qwen Code",
        folder=".qwen",
        environment="QWEN_HOME",
        processes=("qwen", "qwen-code"),
        versions=("0",),
    )

    def recognise(self, root: Path) -> bool:
        """Claude Code has `projects` too, without `chats` in them."""
        return any(root.glob("projects/*/chats"))

    def doubt(self, root: Path) -> str | None:
        """Records name the version that wrote them; the newest transcript speaks for the home."""
        newest = max(_chats(root), key=_changed, default=None)
        said = () if newest is None else last_records(newest)
        version = next((str(each["version"]) for each in said if "version" in each), "0")
        if version.partition(".")[0] in self.facts.versions:
            return None
        return f"Qwen Code {version} is newer than what Holdfast knows"

    def roots(self, root: Path) -> Sequence[Path]:
        return [root]

    def units(self, root: Path, known: Known) -> Iterator[Unit]:
        beside = {folder: frozenset(names_in(root / folder)) for folder, _ in _SIDES}
        logs = sorted(root.glob("tmp/*/logs.json"))
        for path in _chats(root):
            yield replace(known(path) or _read(path), parts=_parts(root, path, beside, logs))
            for agent in _subagents(path):
                yield known(agent) or replace(
                    _read(agent), parent=path.stem, relation=Relation.DELEGATE
                )

    def leftovers(self, root: Path) -> Iterator[Leftover]:
        """What belongs to sessions that are gone, and what belongs to none."""
        sessions = {path.stem for path in _chats(root)}
        for kind, pattern in (
            ("file-history", "file-history/*"),
            ("debug-log", "debug/*"),
            ("runtime-mark", "projects/*/chats/*.runtime.json"),
            ("subagent", "projects/*/subagents/*"),
            ("log", "logs/*"),
            ("staging", "extension-store/staging/*"),
        ):
            for path in sorted(root.glob(pattern)):
                if path.name.partition(".")[0] not in sessions:
                    yield _leftover(root, kind, path)

    def messages(self, root: Path, unit: Unit) -> Iterator[Message]:
        yield from spoken(_transcript(root, unit))

    def signs(self, root: Path, now: float) -> Signs:
        """A process with a terminal registers itself with the time it began, so that a number that
        is used again proves nothing."""
        alive = {}
        for path in root.glob("sessions/*.json"):
            said = next(whole_records(path), None)
            if said is None:  # torn, or just being written: its name is the number of the process
                if life.start_ticks(int(path.stem)) is not None:
                    return Signs(home=f"{path.name} cannot be read, and its process runs")
            elif _runs(said):
                why = f"sessions/{path.name}: process {said['pid']} has it open"
                alive[str(said["sessionId"])] = why
        return Signs(units=alive)

    def transcripts(self, path: Path) -> Iterator[Transcript] | None:
        head = next((each for each in opening(path) if each.keys() >= _HEAD), None)
        if head is None or "parts" not in (head["message"] or ()):
            return None
        unit = replace(_read(path), id=str(head["sessionId"]))
        if head.get("isSidechain"):
            parent, agent = unit.id, f"agent-{head.get('agentId')}"
            unit = replace(unit, id=agent, parent=parent, relation=Relation.DELEGATE)
        return iter([Transcript(path=path, unit=unit, messages=spoken(path))])


def _runs(said: Record) -> bool:
    """Whether the process that registered itself still runs. It may count processes of another
    container, where a number says nothing: then only the next start tells."""
    began = life.start_ticks(int(said["pid"]))
    noted = str(said.get("procStart") or "").rpartition(":")[2]
    return began is not None and noted in ("", began)


def spoken(path: Path) -> Iterator[Message]:
    for said in records(path, _SPOKEN):
        message = said.get("message")
        if said.get("type") in _ROLES and isinstance(message, dict):
            yield from _messages(said, message)


def _messages(said: Record, message: Record) -> Iterator[Message]:
    at = moment(said.get("timestamp"))
    listed = message.get("parts")
    parts = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    answers = [each["functionResponse"] for each in parts if _has(each, "functionResponse")]
    calls = [each["functionCall"] for each in parts if _has(each, "functionCall")]
    for each in answers:
        yield Message(
            role="tool",
            content=output_of(each.get("response")),
            timestamp=at,
            tool_name=each.get("name"),
            tool_call_id=each.get("id"),
        )
    text = _text(parts, thought=False)
    if text or calls or not answers:
        yield Message(
            role=_ROLES[said["type"]],
            content=text,
            timestamp=at,
            reasoning=_text(parts, thought=True) or None,
            tool_calls=[
                {"id": each.get("id"), "name": each.get("name"), "arguments": each.get("args")}
                for each in calls
            ]
            or None,
            tokens=_tokens(said.get("usageMetadata")),
        )


def _has(part: Record, kind: str) -> bool:
    return isinstance(part.get(kind), dict)


def _text(parts: Sequence[Record], *, thought: bool) -> str:
    return "\n".join(
        each["text"]
        for each in parts
        if isinstance(each.get("text"), str) and bool(each.get("thought")) is thought
    )


def _tokens(said: Any) -> Tokens | None:
    if not isinstance(said, dict):
        return None
    count = {name: n for name, n in said.items() if isinstance(n, int)}
    cached = count.get("cachedContentTokenCount", 0)
    return Tokens(
        input=max(0, count.get("promptTokenCount", 0) - cached),
        output=count.get("candidatesTokenCount", 0) + count.get("thoughtsTokenCount", 0),
        cached=cached,
    )


def _chats(root: Path) -> list[Path]:
    projects = root / "projects"
    return [
        projects / project / "chats" / name
        for project in sorted(names_in(projects))
        for name in sorted(names_in(projects / project / "chats"))
        if name.endswith(".jsonl") and is_plain_name(name.removesuffix(".jsonl"))
    ]


def _subagents(chat: Path) -> list[Path]:
    folder = chat.parent.parent / "subagents" / chat.stem
    return [folder / each for each in sorted(names_in(folder)) if each.endswith(".jsonl")]


def _transcript(root: Path, unit: Unit) -> Path:
    where = f"projects/*/chats/{escape(unit.id)}.jsonl"
    if unit.relation is Relation.DELEGATE:
        where = f"projects/*/subagents/{escape(unit.parent)}/{escape(unit.id)}.jsonl"
    named = [*root.glob(where)]
    if not named:
        raise FileNotFoundError(f"the transcript of {unit.id} is gone")
    return max(named, key=_changed)


def _read(path: Path) -> Unit:
    """What the head and the tail of a transcript tell."""
    cwd, started = "", None
    for said in first_records(path):
        cwd = cwd or str(said.get("cwd") or "")
        started = started or moment(said.get("timestamp"))
        if cwd and started:
            break
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
        started=started,
        cwd=cwd,
        title=title,
        model=model,
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
        *(LinePart(path=each, key="sessionId", value=name, role=Role.TRACE) for each in logs),
        LinePart(
            path=root / "usage_record.jsonl",
            key="sessionId",
            value=name,
            lines=True,
            role=Role.TRACE,
        ),
    )


def _leftover(root: Path, kind: str, path: Path) -> Leftover:
    part = FolderPart(path=path) if path.is_dir() and not path.is_symlink() else FilePart(path=path)
    name = str(path.relative_to(root)).replace("/", ":")
    return Leftover(kind=kind, id=name, active=_changed(path), parts=(part,))


def _changed(path: Path) -> float:
    return path.lstat().st_mtime
