"""Claude Code.

projects/CWD/ID.jsonl     the transcript; CWD is the working directory with dashes for its slashes
projects/CWD/ID/          subagents, and tool results that were too long
projects/CWD/agent-*.jsonl   subagents of earlier releases, next to their session
projects/CWD/ID.desktop-released.json   a mark of the desktop program
file-history/ID/          copies of files before an edit
session-env/ID/, tasks/ID/, todos/ID-agent-*.json, debug/ID.txt
history.jsonl             what the user typed, all sessions together
sessions/PID.json         a running process and its session; a crash leaves it behind
/tmp/claude-UID/CWD/ID/   output of background tasks
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from glob import escape
from pathlib import Path

from holdfast.homes.agents import signs_of_life as life
from holdfast.homes.agents.agent_format import (
    TranscriptFormat,
    facts_of,
    is_home,
    is_uuid,
    trace,
    unless_uuid,
)
from holdfast.homes.agents.appended_transcript import Appended, Lines
from holdfast.homes.agents.json_lines import (
    Record,
    fields,
    files_in,
    first_records,
    is_plain_name,
    last_records,
    moment,
    names_in,
    opening,
    records,
    settings_in,
    starting_with,
    unit_of,
)
from holdfast.homes.agents.leftovers import leftover, matching
from holdfast.homes.agents.message_blocks import CLAUDE, block_messages
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
from holdfast.model.vault import Sweep
from holdfast.value import dataclass, replace

#: Claude Code writes the output of background tasks here, whatever TMPDIR says.
TEMPORARY = Path("/tmp")  # noqa: S108 - Claude Code's choice, not ours
_SUBAGENT = "agent-"
#: Idle days after which Claude Code deletes a session, unless its settings name another number.
_SWEPT_AFTER = 30.0
#: Only these lines of a transcript are messages; nine tenths of its bytes are something else. Only
#: the words, because a program that rewrites a transcript may put spaces around the colons.
_SPOKEN = (b'"user"', b'"assistant"', b'"cost-state"')
_TALK = ("user", "assistant")
#: What Claude Code notes for itself: what it attached to a prompt, what it asked the model.
_SILENT = (
    "attachment",
    "api-request",
    "api-request-blob",
    "api-request-shape",
    "last-prompt",
    "queue-operation",
    "system",
    "tools-used",
)
#: Folders with a folder or file named after a session.
_SIDES = ("file-history", "session-env", "tasks")
#: What Claude Code itself removes after a while: our kind, and the path.
_LEFTOVERS = (
    ("debug-log", "debug/*"),
    ("shell-snapshot", "shell-snapshots/*"),
    ("paste", "paste-cache/*"),
    ("settings-backup", "backups/*"),
    ("statistics", "statsig/*"),
    ("plan", "plans/*"),
    ("log", "logs/*"),
    ("todo", "todos/*"),
    *((name, f"{name}/*") for name in _SIDES),
)


class ClaudeCode(TranscriptFormat):
    facts = facts_of(
        "claude-code",
        processes=("claude", "claude-code"),
        versions=("1", "2"),
        places=Places(
            files=(
                "projects/*/{id}.jsonl",
                "projects/*/{id}.desktop-released.json",
                "todos/{id}-agent-*",
                "debug/{id}.txt",
            ),
            folders=("projects/*/{id}", "file-history/{id}", "session-env/{id}", "tasks/{id}"),
            lines=("history.jsonl",),
            beside=("*/{id}",),
        ),
    )
    proofs = ("projects/*/*.jsonl",)
    emptied = ("projects/-*",)
    silent = _SILENT
    folders = ("projects/*",)

    def recognise(self, root: Path) -> bool:
        """`projects` alone is enough in the default folder. Elsewhere any program may have made
        it."""
        return (root / "projects").is_dir() and (
            root.name == self.facts.folder
            or is_home(
                root,
                ("history.jsonl", "sessions", "settings.json", "file-history", "shell-snapshots"),
                files=root.glob("projects/*/*.jsonl"),
                is_session=lambda path: is_uuid(path.stem),
                emptied=[self.is_emptied(root)],
            )
        )

    def is_emptied(self, root: Path) -> bool:
        """Qwen Code adopted this layout, and has `chats` inside."""
        return super().is_emptied(root) and not any(root.glob("projects/*/chats"))

    def is_proof(self, path: Path) -> bool:
        """The name of a project's folder is a path: it begins with a hyphen."""
        return is_uuid(path.stem) and (
            path.parent.name.startswith("-") or any("sessionId" in each for each in opening(path))
        )

    def doubt(self, root: Path) -> str | None:
        return self.newer_version(_transcripts(root))

    def roots(self, root: Path) -> Sequence[Path]:
        return [root, _temporary()]

    def units(self, root: Path, known: Known) -> Iterator[Unit]:
        """A session that was resumed in another working directory has a transcript in both."""
        beside = _Beside.of(root)
        found: dict[str, list[Path]] = {}
        for path in _transcripts(root):
            if not path.name.startswith(_SUBAGENT):
                found.setdefault(path.stem, []).append(path)
            elif unit := unit_of(path, known, _older_subagent):
                of_none = "" if unit.parent else "its records name no session of Claude Code"
                yield replace(unit, parts=(FilePart(path=path),), stays=of_none)
        for name, paths in found.items():
            read = [unit for path in paths if (unit := unit_of(path, known, _read))]
            if not read:
                continue
            latest = max(read, key=lambda unit: unit.active)
            if odd := unless_uuid(name, self.facts.agent):
                alone = tuple(FilePart(path=path, role=Role.REFERENCE) for path in paths)
                yield replace(latest, parts=alone, stays=odd)
                continue
            yield replace(latest, parts=_parts(root, name, paths, beside))
            for path in paths:
                for agent in _subagents(path):
                    if unit := unit_of(agent, known, partial(_subagent, name)):
                        yield unit

    def leftovers(self, root: Path) -> Iterator[Leftover]:
        """All homes of a user share the folder in /tmp, and may share projects, too: only outputs
        of sessions that were once in this home are left over here."""
        sessions = {path.stem for path in _transcripts(root)}
        found = [*matching(root, _LEFTOVERS)]
        patterns = [("task-output", f"{escape(each)}/*") for each in names_in(root / "projects")]
        outputs = [*matching(_temporary(), patterns)]
        mine = _once_here(root) if outputs else ()
        for kind, path in [*found, *(each for each in outputs if each[1].name in mine)]:
            if path.stem.partition("-agent-")[0] not in sessions and path.name not in sessions:
                yield from leftover(kind, path)

    def sweep(self, root: Path) -> Sweep:
        """Claude Code deletes by file times, once a day while it is in use."""
        said = settings_in(root / "settings.json").get("cleanupPeriodDays")
        days = said if isinstance(said, int | float) and said >= 1 else _SWEPT_AFTER
        return Sweep(days=days, setting="cleanupPeriodDays")

    def signs(self, root: Path, now: float) -> Signs:
        """A process registers itself with its start time. It keeps no file open while it works."""
        return life.registered_in(root / "sessions")

    def transcripts(self, path: Path) -> Iterator[Transcript] | None:
        """A transcript, with the subagents in the folder next to it."""
        wanted = {"parentUuid", "sessionId", "type"}
        head = next((each for each in opening(path) if wanted <= each.keys()), None)
        return None if head is None else self._told(path, head)

    def _told(self, path: Path, head: Record) -> Iterator[Transcript]:
        """The file name counts if it is an id: the first lines of a session that continues another
        may have the id of the other one."""
        if head.get("isSidechain") and "agentId" in head:
            unit = _subagent(str(head["sessionId"]), path)
            unit = replace(unit, id=f"{_SUBAGENT}{head['agentId']}")
        else:
            unit = _read(path)
            if not is_uuid(unit.id):
                unit = replace(unit, id=str(head["sessionId"]))
        yield self.told(path, unit)
        for inner in _subagents(path):
            yield self.told(inner, _subagent(unit.id, inner))

    def spoken_in(self, path: Path) -> Appended:
        """Now and then a record has the total cost so far. It becomes the cost of the last message;
        all messages before it get 0, so that none is unpriced."""
        priced = any("totalCostUSD" in said for said in last_records(path))
        return Appended(
            path=path,
            spoken=partial(_spoken, priced=priced),
            having=_SPOKEN,
            fits=lambda carry: bool(carry.get("priced")) or not priced,
        )


def _spoken(lines: Lines, *, priced: bool) -> Iterator[Message]:
    """The messages of a transcript. A message of the model is written block by block, each with the
    usage of the whole message, sometimes with results of its first calls in between."""
    cost, counted = lines.carried.get("cost"), lines.carried.get("counted")
    priced = priced or bool(lines.carried.get("priced"))
    last: Record | None = None
    for said in lines:
        if said.get("type") == "cost-state":
            cost = said.get("totalCostUSD")
        elif said.get("type") in _TALK and isinstance(said.get("message"), dict):
            if last is not None and _same_message(last["message"], said["message"]):
                last["message"]["content"] += said["message"]["content"]
                continue
            if last is not None:
                yield from _messages(last, 0.0 if priced else None, counted)
                counted = last["message"].get("id") or counted
            lines.settle(cost=cost, counted=counted, priced=priced)
            last = said
    if last is not None:
        yield from _messages(last, cost if isinstance(cost, int | float) else None, counted)


def _same_message(one: Record, other: Record) -> bool:
    same = one.get("id") is not None and one.get("id") == other.get("id")
    return same and all(isinstance(each.get("content"), list) for each in (one, other))


def _messages(said: Record, cost: float | None, counted: object) -> Iterator[Message]:
    """`counted` is the id of the message whose usage was counted last."""
    message = said["message"]
    usage = None if message.get("id") and message.get("id") == counted else message.get("usage")
    return block_messages(
        str(message.get("role") or said["type"]),
        message.get("content"),
        at=moment(said.get("timestamp")),
        tokens=CLAUDE(usage),
        cost=cost,
        injected=bool(said.get("isMeta")),
    )


def _once_here(root: Path) -> Collection[str]:
    """The sessions that this home names anywhere besides their transcripts, which Claude Code
    deletes first."""
    history = root / "history.jsonl"
    typed = records(history, (b'"sessionId"',)) if history.is_file() else ()
    beside = (name for side in _SIDES for name in names_in(root / side))
    return {*beside, *(str(said.get("sessionId")) for said in typed)}


def _transcripts(root: Path) -> list[Path]:
    """A file `..jsonl` would give a session that owns every folder; no real session has such a
    name."""
    projects = root / "projects"
    folders = (projects / name for name in sorted(names_in(projects)))
    found = (path for folder in folders for path in files_in(folder, ".jsonl"))
    return [path for path in found if is_plain_name(path.name.removesuffix(".jsonl"))]


def _subagents(path: Path) -> list[Path]:
    """The subagents in the folder of a transcript."""
    found = files_in(path.with_suffix("") / "subagents", ".jsonl")
    return [each for each in found if each.name.startswith(_SUBAGENT)]


def _subagent(parent: str, path: Path) -> Unit:
    return replace(_read(path), parent=parent, relation=Relation.DELEGATE)


def _older_subagent(path: Path) -> Unit:
    """Its records name the session that it worked for."""
    parent = str(fields(first_records(path), "sessionId").get("sessionId", ""))
    return _subagent(parent, path) if parent else _read(path)


def _read(path: Path) -> Unit:
    """The unit, from the head and the tail of a transcript."""
    head = fields(first_records(path), "cwd", "entrypoint", "timestamp")
    tail = [*last_records(path)]
    titles = fields(tail, "customTitle", "aiTitle", "summary")
    models = (each["message"].get("model") for each in tail if _is_answer(each))
    times = filter(None, (moment(each.get("timestamp")) for each in tail))
    return Unit(
        id=path.stem,
        active=max(times, default=None) or path.stat().st_mtime,
        parts=(),
        started=moment(head.get("timestamp")),
        source=str(head.get("entrypoint", "")),
        cwd=str(head.get("cwd", "")),
        title=str(next(iter(titles.values()), "")),
        model=str(next(filter(None, models), "")),
        transcript=path,
    )


def _is_answer(said: Record) -> bool:
    return said.get("type") == "assistant" and isinstance(said.get("message"), dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Beside:
    """The contents of the folders that sessions share, listed once: most sessions have nothing
    there."""

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
    todos = starting_with(f"{name}-agent-", beside.todos)
    log = f"{name}.txt"
    return (
        *(FilePart(path=path, role=Role.REFERENCE) for path in paths),
        *(FolderPart(path=path.with_suffix("")) for path in paths),
        *(FilePart(path=path.with_suffix(".desktop-released.json")) for path in paths),
        *(FolderPart(path=root / each / name) for each in _SIDES if name in beside.sides[each]),
        *(FilePart(path=root / "todos" / each) for each in todos),
        *([FilePart(path=root / "debug" / log)] if log in beside.sides["debug"] else []),
        *(
            FolderPart(path=_temporary() / path.parent.name / name)
            for path in paths
            if (path.parent.name, name) in beside.temporary
        ),
        trace(root / "history.jsonl", name, key="sessionId", lines=True),
    )


def _temporary() -> Path:
    return TEMPORARY / f"claude-{os.getuid()}"
