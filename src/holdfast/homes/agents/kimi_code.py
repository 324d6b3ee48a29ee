"""Kimi Code.

sessions/wd_NAME_HASH/session_ID/   a session: state.json, and agents/NAME/wire.jsonl, a transcript
                                    of the main agent and of each subagent, with copies of files
session_index.jsonl                 one line per session, with the absolute path of its folder
sessions/.index-cache/scan.json     the result of the last scan of all state.json files
sessions/.index-dirty/session_ID.*  empty marks of changes, never removed
file-history/wd_NAME_HASH           which sessions have copies of files
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from holdfast.homes.agents import signs_of_life as life
from holdfast.homes.agents.agent_format import AgentFormat, facts_of, trace
from holdfast.homes.agents.json_lines import (
    INJECTED,
    Record,
    document_in,
    fields,
    first_records,
    last_records,
    moment,
    names_in,
    newest,
    opening,
    records,
    starting_with,
    text_of,
    unit_of,
    within,
)
from holdfast.homes.agents.leftovers import leftover, matching, name_below
from holdfast.homes.agents.message_blocks import tokens_in, tool_call
from holdfast.model.part import (
    FilePart,
    FolderPart,
    Known,
    Leftover,
    LinePart,
    Part,
    Places,
    Role,
    Signs,
    Transcript,
    Unit,
)
from holdfast.model.session import Json, Message, Relation, Tokens
from holdfast.value import dataclass, field, replace

_SESSION = "session_"
_DIRTY = Path("sessions") / ".index-dirty"
_MAIN = "main"
_SPOKEN = (b'"context.append_message"', b'"context.append_loop_event"')
#: The newest version of state.json that was tested.
_NEWEST = 2
_SERVERS = ("web", "server", "serve", "acp", "daemon")
_LEFTOVERS = (("log", "logs/*"), ("log", "updates/*.log"), ("program", "bin/*"))


class KimiCode(AgentFormat):
    facts = facts_of(
        "kimi-code",
        processes=("kimi", "kimi-code"),
        versions=("2",),
        places=Places(
            files=("sessions/.index-dirty/{id}.*",),
            folders=("sessions/*/{id}",),
            lines=("session_index.jsonl", "sessions/.index-cache/scan.json", "file-history/*"),
        ),
    )
    proofs = ("sessions/wd_*/session_*/state.json",)
    emptied = ("sessions/wd_*",)
    folders = ("sessions/*/*",)

    def recognise(self, root: Path) -> bool:
        marks = ("session_index.jsonl", "workspaces.json", "device_id")
        return (root / "sessions").is_dir() and any((root / each).is_file() for each in marks)

    def doubt(self, root: Path) -> str | None:
        """Every session names its version; the newest session decides for the home."""
        latest = newest(folder / "state.json" for folder in _folders(root))
        said = {} if latest is None else document_in(latest)
        version = said.get("version", _NEWEST)
        if isinstance(version, int) and version <= _NEWEST:
            return None
        return f"format {version} of its sessions is newer than Holdfast supports"

    def units(self, root: Path, known: Known) -> Iterator[Unit]:
        """The least recently used first: entries removed from a shared list in one order are
        restored in the reverse order."""
        marks = sorted(names_in(root / _DIRTY))
        found = [(each, unit_of(each, known, _read, name=each.name)) for each in _folders(root)]
        alive = [(folder, unit) for folder, unit in found if unit is not None]
        for folder, unit in sorted(alive, key=lambda each: each[1].active):
            yield replace(unit, parts=_parts(root, folder, marks), transcript=_wire(folder))
            for name in sorted(names_in(folder / "agents")):
                wire = _wire(folder, name)
                if name != _MAIN and wire.is_file():
                    yield known(wire) or replace(
                        unit,
                        id=f"{folder.name}.{name}",
                        parent=folder.name,
                        relation=Relation.DELEGATE,
                        title="",
                        parts=(),
                        transcript=wire,
                        archived=False,
                    )

    def leftovers(self, root: Path) -> Iterator[Leftover]:
        for kind, path in matching(root, _LEFTOVERS):
            yield from leftover(kind, path, name_below(root, path))
        sessions = {folder.name for folder in _folders(root)}
        for kind, path in matching(root, [("marker", f"{_DIRTY}/*")]):
            if path.name.partition(".")[0] not in sessions:
                yield from leftover(kind, path)

    def messages(self, root: Path, unit: Unit) -> Iterator[Message]:
        return spoken(unit.transcript) if unit.transcript is not None else iter(())

    def signs(self, root: Path, now: float) -> Signs:
        """The home shows no sign of life: no lock, no open file. The folder that a process works in
        protects its sessions; a server protects all sessions."""
        return Signs(home=life.serving(self.facts.processes, _SERVERS))

    def transcripts(self, path: Path) -> Iterator[Transcript] | None:
        """The transcript of an agent. Only the folder around it tells which session it belongs
        to."""
        head = opening(path)[:1]
        if not head or head[0].get("type") != "metadata" or "protocol_version" not in head[0]:
            return None
        folder = path.parents[2] if len(path.parents) > 2 else path.parent  # noqa: PLR2004 - agents/NAME
        if folder.name.startswith(_SESSION) and (folder / "state.json").is_file():
            unit = _read(folder)
        else:
            started = head[0].get("created_at")
            at = started / 1000 if isinstance(started, int | float) else path.stat().st_mtime
            unit = Unit(id=f"kimi-{path.stem}", active=at, started=at, parts=())
        return iter([Transcript(path=path, unit=unit, messages=spoken(path))])


@dataclass(slots=True, kw_only=True)
class _Step:
    """One answer of the model, collected piece by piece, with the results of the tools it
    called."""

    at: float | None = None
    texts: list[str] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    calls: list[Json] = field(default_factory=list)
    results: list[Message] = field(default_factory=list)
    tokens: Tokens | None = None

    def told(self) -> Iterator[Message]:
        if self.texts or self.thoughts or self.calls or self.tokens:
            yield Message(
                role="assistant",
                content="\n".join(self.texts),
                timestamp=self.at,
                reasoning="\n".join(self.thoughts) or None,
                tool_calls=self.calls or None,
                tokens=self.tokens,
            )
        yield from self.results


def spoken(path: Path) -> Iterator[Message]:
    """The messages of a transcript."""
    step = _Step()
    for said in records(path, _SPOKEN):
        at = said.get("time")
        at = at / 1000 if isinstance(at, int | float) else None
        message, event = said.get("message"), said.get("event")
        if isinstance(message, dict):
            yield from step.told()
            step = _Step()
            origin = message.get("origin")
            kind = origin.get("kind") if isinstance(origin, dict) else "user"
            yield Message(
                role=str(message.get("role") or "user"),
                content=text_of(message.get("content")),
                timestamp=at,
                extra={} if kind == "user" else {INJECTED: True},
            )
        elif isinstance(event, dict):
            if event.get("type") == "step.begin":
                yield from step.told()
                step = _Step(at=at)
            _add(step, event, at)
    yield from step.told()


def _add(step: _Step, event: Record, at: float | None) -> None:
    match event.get("type"):
        case "content.part":
            part = within(event, "part")
            step.thoughts += [str(part["think"])] if part.get("think") else []
            step.texts += [str(part["text"])] if part.get("text") else []
        case "tool.call":
            step.calls.append(
                tool_call(event.get("name"), event.get("args"), event.get("toolCallId"))
            )
        case "tool.result":
            result = event.get("result")
            output = result.get("output") if isinstance(result, dict) else result
            text = output if isinstance(output, str) else text_of(output)
            called = event.get("toolCallId")
            step.results.append(
                Message(role="tool", content=text, timestamp=at, tool_call_id=called)
            )
        case "step.end":
            step.tokens = tokens_in(
                event.get("usage"),
                input=("inputOther", "inputCacheCreation"),
                output=("output",),
                cached=("inputCacheRead",),
            )
        case _:
            pass


def _folders(root: Path) -> list[Path]:
    sessions = root / "sessions"
    return [
        sessions / workspace / name
        for workspace in sorted(names_in(sessions))
        if not workspace.startswith(".")
        for name in sorted(names_in(sessions / workspace))
        if name.startswith(_SESSION) and "." not in name
    ]


def _wire(folder: Path, agent: str = _MAIN) -> Path:
    return folder / "agents" / agent / "wire.jsonl"


def _read(folder: Path) -> Unit:
    path = folder / "state.json"
    state = document_in(path) if path.is_file() else {}
    wire = _wire(folder)
    model = fields(first_records(wire), "model") if wire.is_file() else {}
    times = [state.get(each) for each in ("updatedAt", "createdAt")]
    active, started = (each / 1000 if isinstance(each, int | float) else None for each in times)
    # The state may lag behind the transcript: a process may have been killed.
    active = max(active or 0.0, _last_record(wire) or 0.0)
    return Unit(
        id=folder.name,
        active=active or folder.stat().st_mtime,
        parts=(),
        started=started,
        cwd=str(state.get("cwd") or ""),
        title=str(state.get("title") or ""),
        model=str(model.get("model") or ""),
        transcript=wire,
        archived=bool(state.get("archived")),
    )


def _last_record(wire: Path) -> float | None:
    """When the last record of a transcript was written."""
    times = (each.get("time") for each in (last_records(wire) if wire.is_file() else ()))
    return next((moment(at) for at in times if isinstance(at, int | float)), None)


def _parts(root: Path, folder: Path, marks: Sequence[str]) -> tuple[Part, ...]:
    name = folder.name
    return (
        FolderPart(path=folder, role=Role.REFERENCE),
        LinePart(path=root / "session_index.jsonl", key="sessionId", value=name, lines=True),
        trace(root / "sessions" / ".index-cache" / "scan.json", name, at=("sessions",)),
        trace(root / "file-history" / folder.parent.name, name, at=("sessions",), key="id"),
        *(
            FilePart(path=root / _DIRTY / each, role=Role.TRACE)
            for each in starting_with(f"{name}.", marks)
        ),
    )
