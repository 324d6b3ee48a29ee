"""Claude Code.

projects/CWD/ID.jsonl     the transcript; CWD is the working directory with dashes for its slashes
projects/CWD/ID/          subagents, and results of tools that were too long
projects/CWD/agent-*.jsonl   subagents as earlier releases left them, beside their session
projects/CWD/ID.desktop-released.json   a mark of the desktop program
file-history/ID/          copies of files before an edit
session-env/ID/, tasks/ID/, todos/ID-agent-*.json, debug/ID.txt
history.jsonl             what the user typed, all sessions together
sessions/PID.json         a running process and its session; a crash leaves it behind
/tmp/claude-UID/CWD/ID/   output of background tasks
"""

from __future__ import annotations

import os
import re
from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence
from glob import escape
from itertools import takewhile
from pathlib import Path
from typing import Any

from holdfast.homes import life
from holdfast.homes.records import (
    INJECTED,
    Record,
    first_records,
    is_plain_name,
    last_records,
    moment,
    names_in,
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
from holdfast.model.session import Message, Relation, Tokens
from holdfast.value import dataclass, replace

#: Where Claude Code leaves the output of background tasks, whatever TMPDIR says.
TEMPORARY = Path("/tmp")  # noqa: S108 - its place, not ours
_SUBAGENT = "agent-"
_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
#: Only these lines of a transcript are messages; nine tenths of its bytes are something else.
_SPOKEN = (b'"type":"user"', b'"type":"assistant"', b'"type":"cost-state"')
#: What Claude Code itself removes after a while, with the folder that holds it.
_LEFTOVERS = (
    ("debug-log", "debug/*"),
    ("shell-snapshot", "shell-snapshots/*"),
    ("paste", "paste-cache/*"),
    ("settings-backup", "backups/*"),
    ("statistics", "statsig/*"),
    ("plan", "plans/*"),
    ("log", "logs/*"),
)
#: Folders that hold a folder, or a file, of a session by its name.
_SIDES = ("file-history", "session-env", "tasks")


class ClaudeCode:
    facts = Facts(
        name="claude-code",
        agent="Claude Code",
        folder=".claude",
        environment="CLAUDE_CONFIG_DIR",
        processes=("claude", "claude-code"),
        versions=("1", "2"),
    )

    def recognise(self, root: Path) -> bool:
        marks = ("history.jsonl", "sessions", "settings.json", "file-history", "shell-snapshots")
        return (root / "projects").is_dir() and any((root / each).exists() for each in marks)

    def doubt(self, root: Path) -> str | None:
        """Transcripts name the version that wrote them; the newest one speaks for the home."""
        newest = max(_transcripts(root), key=_changed, default=None)
        if newest is None:
            return None
        version = next(
            (str(said["version"]) for said in last_records(newest) if "version" in said), "2"
        )
        if version.partition(".")[0] in self.facts.versions:
            return None
        return f"Claude Code {version} is newer than what Holdfast knows"

    def roots(self, root: Path) -> Sequence[Path]:
        return [root, _temporary()]

    def units(self, root: Path, known: Known) -> Iterator[Unit]:
        """A session that was resumed in another working directory has a transcript in both."""
        beside = _Beside.of(root)
        found: dict[str, list[Path]] = {}
        for path in _transcripts(root):
            if path.name.startswith(_SUBAGENT):
                yield replace(known(path) or _older_subagent(path), parts=(FilePart(path=path),))
            else:
                found.setdefault(path.stem, []).append(path)
        for name, paths in found.items():
            read = [known(path) or _read(path) for path in paths]
            newest = max(read, key=lambda unit: unit.active)
            yield replace(newest, parts=_parts(root, name, paths, beside))
            for path in paths:
                for inner in sorted(names_in(path.with_suffix("") / "subagents")):
                    if inner.startswith(_SUBAGENT) and inner.endswith(".jsonl"):
                        agent = path.with_suffix("") / "subagents" / inner
                        yield known(agent) or replace(
                            _read(agent), parent=name, relation=Relation.DELEGATE
                        )

    def leftovers(self, root: Path) -> Iterator[Leftover]:
        sessions = {path.stem for path in _transcripts(root)}
        patterns = [*_LEFTOVERS, *((name, f"{name}/*") for name in _SIDES), ("todo", "todos/*")]
        found = [(kind, path) for kind, pattern in patterns for path in root.glob(pattern)]
        found += (("task-output", path) for path in _temporary().glob("-*/*"))
        for kind, path in sorted(found):
            if path.stem.partition("-agent-")[0] not in sessions and path.name not in sessions:
                yield _leftover(kind, path)

    def messages(self, root: Path, unit: Unit) -> Iterator[Message]:
        yield from spoken(_transcript(root, unit))

    def signs(self, root: Path, now: float) -> Signs:
        """A process registers itself with the time it began, so that a number that is used again
        proves nothing. No file is open while it works."""
        alive = {}
        for path in root.glob("sessions/*.json"):
            said = next(first_records(path), None)
            if said is None:  # torn, or just being written: its name is the number of the process
                if life.start_ticks(int(path.stem)) is not None:
                    return Signs(home=f"{path.name} cannot be read, and its process runs")
                continue
            why = _holds(said)
            if why is not None:
                alive[str(said["sessionId"])] = f"sessions/{path.name}: {why}"
        return Signs(units=alive)

    def transcripts(self, path: Path) -> Iterator[Transcript] | None:
        """A transcript, with the subagents in the folder beside it."""
        wanted = {"parentUuid", "sessionId", "type"}
        head = next((each for each in opening(path) if wanted <= each.keys()), None)
        return None if head is None else _told(path, head)


def _holds(said: Record) -> str | None:
    """Whether the process that registered itself still runs. One in another container, or on
    another machine that shares the home, has numbers of its own: nothing proves its death."""
    here, domain = life.process_domain(), str(said.get("pidDomain") or "")
    if domain and here and domain != here:
        return f"process {said['pid']} of another machine or container has it open"
    began = life.start_ticks(int(said["pid"]))
    if began is None or said.get("procStart", began) != began:
        return None
    return f"process {said['pid']} has it open"


def spoken(path: Path) -> Iterator[Message]:
    """What was said in a transcript. A message of the model is written block by block, each with
    the usage of the whole: the blocks become one message again."""
    cost = None
    last: Record | None = None
    for said in records(path, _SPOKEN):
        match said.get("type"):
            case "cost-state":
                cost = said.get("totalCostUSD")
            case "assistant" if last is not None and _same_message(last, said):
                last["message"]["content"] += said["message"]["content"]
            case "user" | "assistant" if isinstance(said.get("message"), dict):
                if last is not None:
                    yield from _messages(last, None)
                last = said
            case _:
                pass
    if last is not None:
        yield from _messages(last, cost if isinstance(cost, int | float) else None)


def _told(path: Path, head: Record) -> Iterator[Transcript]:
    """The name of a file counts as long as it is an id: the first lines of a session that continues
    another one may have the id of that."""
    agent = head.get("agentId") if head.get("isSidechain") else None
    if agent is not None:
        unit = replace(_read(path), id=f"{_SUBAGENT}{agent}", parent=str(head["sessionId"]))
        unit = replace(unit, relation=Relation.DELEGATE)
    else:
        unit = _read(path)
        if not _ID.fullmatch(unit.id):
            unit = replace(unit, id=str(head["sessionId"]))
    yield Transcript(path=path, unit=unit, messages=spoken(path))
    folder = path.with_suffix("") / "subagents"
    for name in sorted(names_in(folder)):
        if name.startswith(_SUBAGENT) and name.endswith(".jsonl"):
            inner = replace(_read(folder / name), parent=unit.id, relation=Relation.DELEGATE)
            yield Transcript(path=folder / name, unit=inner, messages=spoken(folder / name))


def _same_message(one: Record, other: Record) -> bool:
    a, b = one["message"], other.get("message")
    return (
        isinstance(b, dict)
        and a.get("id") is not None
        and a.get("id") == b.get("id")
        and isinstance(a.get("content"), list)
        and isinstance(b.get("content"), list)
    )


def _messages(said: Record, cost: float | None) -> Iterator[Message]:
    message, at = said["message"], moment(said.get("timestamp"))
    content = message.get("content")
    blocks = content if isinstance(content, list) else []
    results = [each for each in blocks if _is(each, "tool_result")]
    for each in results:
        yield Message(
            role="tool",
            content=text_of(each.get("content")),
            timestamp=at,
            tool_call_id=each.get("tool_use_id"),
        )
    text = text_of(content)
    calls = [each for each in blocks if _is(each, "tool_use")]
    thoughts = text_of([{"text": each.get("thinking")} for each in blocks if _is(each, "thinking")])
    if not (text or calls or thoughts or not results):
        return
    yield Message(
        role=str(message.get("role") or said["type"]),
        content=text,
        timestamp=at,
        tool_calls=[
            {"id": each.get("id"), "name": each.get("name"), "arguments": each.get("input")}
            for each in calls
        ]
        or None,
        reasoning=thoughts or None,
        tokens=_tokens(message.get("usage")),
        cost=cost,
        extra={INJECTED: True} if said.get("isMeta") else {},
    )


def _is(block: object, kind: str) -> bool:
    return isinstance(block, dict) and block.get("type") == kind


def _tokens(usage: Any) -> Tokens | None:
    if not isinstance(usage, dict):
        return None
    count = {name: n for name, n in usage.items() if isinstance(n, int)}
    return Tokens(
        input=count.get("input_tokens", 0) + count.get("cache_creation_input_tokens", 0),
        output=count.get("output_tokens", 0),
        cached=count.get("cache_read_input_tokens", 0),
    )


def _transcripts(root: Path) -> list[Path]:
    """A name such as `..jsonl` would make a session that owns every folder: no session has one."""
    projects = root / "projects"
    return [
        projects / project / name
        for project in sorted(names_in(projects))
        for name in sorted(names_in(projects / project))
        if name.endswith(".jsonl") and is_plain_name(name.removesuffix(".jsonl"))
    ]


def _transcript(root: Path, unit: Unit) -> Path:
    named = [part.path for part in unit.parts if isinstance(part, FilePart)]
    named = [path for path in named if path.name == f"{unit.id}.jsonl"]
    if not named and unit.relation is Relation.DELEGATE:
        inside = f"projects/*/{escape(unit.parent)}/subagents/{escape(unit.id)}.jsonl"
        named = [*root.glob(inside)]
    named = named or [*root.glob(f"projects/*/{escape(unit.id)}.jsonl")]
    if not named:
        raise FileNotFoundError(f"the transcript of {unit.id} is gone")
    return max(named, key=_changed)


def _older_subagent(path: Path) -> Unit:
    """Its records name the session that it worked for."""
    parents = (said["sessionId"] for said in first_records(path) if "sessionId" in said)
    parent = str(next(parents, ""))
    return replace(_read(path), parent=parent, relation=Relation.DELEGATE if parent else None)


def _read(path: Path) -> Unit:
    """What the head and the tail of a transcript tell."""
    cwd = source = ""
    started = None
    for said in first_records(path):
        cwd = cwd or str(said.get("cwd") or "")
        source = source or str(said.get("entrypoint") or "")
        started = started or moment(said.get("timestamp"))
        if cwd and started and source:
            break
    active = None
    title = model = ""
    for said in last_records(path):
        active = max(filter(None, (active, moment(said.get("timestamp")))), default=None)
        title = title or str(
            said.get("customTitle") or said.get("aiTitle") or said.get("summary") or ""
        )
        if said.get("type") == "assistant":
            model = model or str(said.get("message", {}).get("model") or "")
    return Unit(
        id=path.stem,
        active=active or path.stat().st_mtime,
        parts=(),
        started=started,
        source=source,
        cwd=cwd,
        title=title,
        model=model,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Beside:
    """What lies in the folders that sessions share, listed once: most sessions have nothing."""

    todos: Sequence[str]
    sides: Mapping[str, Collection[str]]
    temporary: Collection[tuple[str, str]]

    @classmethod
    def of(cls, root: Path) -> _Beside:
        temporary = _temporary()
        return cls(
            todos=sorted(names_in(root / "todos")),
            sides={each: frozenset(names_in(root / each)) for each in (*_SIDES, "debug")},
            temporary={
                (folder, name)
                for folder in names_in(temporary)
                for name in names_in(temporary / folder)
            },
        )


def _parts(root: Path, name: str, paths: Sequence[Path], beside: _Beside) -> tuple[Part, ...]:
    mine = bisect_left(beside.todos, f"{name}-agent-")
    log = f"{name}.txt"
    return (
        *(FilePart(path=path, role=Role.REFERENCE) for path in paths),
        *(FolderPart(path=path.with_suffix("")) for path in paths),
        *(FilePart(path=path.with_suffix(".desktop-released.json")) for path in paths),
        *(FolderPart(path=root / each / name) for each in _SIDES if name in beside.sides[each]),
        *(
            FilePart(path=root / "todos" / each)
            for each in takewhile(
                lambda todo: todo.startswith(f"{name}-agent-"), beside.todos[mine:]
            )
        ),
        *([FilePart(path=root / "debug" / log)] if log in beside.sides["debug"] else []),
        *(
            FolderPart(path=_temporary() / path.parent.name / name)
            for path in paths
            if (path.parent.name, name) in beside.temporary
        ),
        LinePart(
            path=root / "history.jsonl", key="sessionId", value=name, lines=True, role=Role.TRACE
        ),
    )


def _leftover(kind: str, path: Path) -> Leftover:
    part = FolderPart(path=path) if path.is_dir() and not path.is_symlink() else FilePart(path=path)
    return Leftover(kind=kind, id=path.name, active=_changed(path), parts=(part,))


def _changed(path: Path) -> float:
    return path.lstat().st_mtime


def _temporary() -> Path:
    return TEMPORARY / f"claude-{os.getuid()}"
