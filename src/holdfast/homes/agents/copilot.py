"""Copilot CLI.

session-state/ID/events.jsonl     events, one per line
session-state/ID/workspace.yaml   working directory, name and times
session-state/ID/                 checkpoints, copies of files before an edit, `inuse.PID.hold`
session-state/.session-operation-locks/ID.lock   an empty file per session, never removed
session-store.db                  a second copy of sessions and turns, with a search index
open-sessions-state.json, sidebar-sessions-state/HASH.json   the sessions in its windows
logs/                             one file per start
~/.cache/copilot/pkg/PLATFORM/RELEASE/   a copy of the program, per release

A process with an open session holds a lock on `inuse.PID.hold`; a crash leaves the file behind.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from holdfast.homes.agents import signs_of_life as life
from holdfast.homes.agents.agent_format import (
    TranscriptFormat,
    facts_of,
    is_uuid,
    trace,
    unless_uuid,
)
from holdfast.homes.agents.appended_transcript import Appended, Lines
from holdfast.homes.agents.json_lines import (
    Record,
    is_plain_name,
    last_records,
    moment,
    names_in,
    objects_in,
    opening,
    unit_of,
    within,
)
from holdfast.homes.agents.leftovers import leftover, matching, programs
from holdfast.homes.agents.message_blocks import tokens_in, tool_calls_in
from holdfast.homes.agents.session_tables import has_or_hides, lacks, not_known, untied
from holdfast.model.part import (
    FilePart,
    FolderPart,
    Known,
    Leftover,
    Part,
    Places,
    Rows,
    RowsPart,
    Signs,
    Transcript,
    Unit,
)
from holdfast.model.session import Message
from holdfast.stores.files import read_file
from holdfast.stores.sqlite.foreign import columns, named_rows, rows
from holdfast.value import replace

_DATABASE = "session-store.db"
#: The newest database schema that was tested.
_SCHEMA = 8
_NEEDED = {("sessions", each) for each in ("id", "cwd", "summary", "created_at", "updated_at")}
_SEARCH = ("search_index", "session_id")
_LOCKS = ".session-operation-locks"


class Copilot(TranscriptFormat):
    facts = facts_of(
        "copilot",
        processes=("copilot",),
        versions=("1",),
        places=Places(
            files=("session-state/.session-operation-locks/{id}.lock",),
            folders=("session-state/{id}",),
            stores=("session-store.db",),
            lines=("sidebar-sessions-state/*.json", "open-sessions-state.json"),
        ),
    )
    proofs = ("session-state/*-*-*-*-*", "session-store.db")
    folders = ("session-state/*",)
    databases = (_DATABASE,)
    having = (
        b'"user.message"',
        b'"assistant.message"',
        b'"tool.execution_complete"',
        b"usage_record",
    )

    def recognise(self, root: Path) -> bool:
        return (root / "session-state").is_dir()

    def is_proof(self, path: Path) -> bool:
        if path.name == _DATABASE:
            return has_or_hides(path, ("sessions", "summary"))
        return is_uuid(path.name) and path.is_dir()

    def doubt(self, root: Path) -> str | None:
        """Rows that name a session without a foreign key to it would stay behind."""
        path = root / _DATABASE
        there = columns(path) if path.exists() else set()
        if not there:
            return None
        if why := lacks(path, there, _NEEDED):
            return why
        [version] = rows(path, "SELECT max(version) FROM schema_version")[0]
        if version is None or version > _SCHEMA:
            return f"{_DATABASE} has version {version}, which is newer than Holdfast supports"
        loose = untied(path, there, naming=_SEARCH[1], to=("sessions",))
        return not_known(path, loose - {_SEARCH[0]})

    def roots(self, root: Path) -> Sequence[Path]:
        return [root, _packages(root)]

    def units(self, root: Path, known: Known) -> Iterator[Unit]:
        """A session has a folder and rows; either may be missing."""
        stored, searched = _stored(root)
        for name in sorted({*stored, *_folders(root)}):
            folder, row = root / "session-state" / name, stored.get(name)
            read = partial(_read, row)
            unit = unit_of(folder / "events.jsonl", known, read, name=name) or row
            if unit is None and folder.is_dir():  # started, but without a message
                unit = Unit(id=name, active=folder.stat().st_mtime, parts=())
            if unit is not None:
                # Either may lag behind the other.
                unit = replace(unit, active=max(unit.active, row.active if row else 0.0))
                parts = _parts(root, unit, has_rows=bool(stored), searched=searched)
                yield replace(unit, parts=parts, stays=unless_uuid(name, self.facts.agent))

    def leftovers(self, root: Path) -> Iterator[Leftover]:
        sessions = {*_folders(root), *_stored(root)[0]}
        for path in sorted((root / "session-state" / _LOCKS).glob("*.lock")):
            if path.stem not in sessions:
                yield from leftover("marker", path)
        for kind, path in matching(root, (("log", "logs/*.log"),)):
            yield from leftover(kind, path)
        for platform in sorted(_packages(root).glob("*/")):
            releases = sorted(platform.glob("*/"), key=lambda each: _release(each.name))
            yield from programs(releases, platform.name)

    def appended(self, root: Path, unit: Unit) -> Appended | None:
        return None if unit.transcript is None else self.spoken_in(unit.transcript)

    def messages(self, root: Path, unit: Unit) -> Iterator[Message]:
        """From its events, or from the database if its folder is gone."""
        events = self.appended(root, unit)
        return _turns(root, unit) if events is None else events.messages()

    def signs(self, root: Path, now: float) -> Signs:
        """The lock on `.hold` counts. An earlier release had no such file; then the process id
        decides."""
        alive = {}
        for name in _folders(root):
            folder = root / "session-state" / name
            for path in (folder / each for each in names_in(folder) if each.startswith("inuse.")):
                why = None
                if path.suffix == ".hold":
                    why = life.locked(path)
                elif path.suffix == ".lock" and not path.with_suffix(".hold").exists():
                    number = path.name.split(".")[1]
                    if number.isdigit() and life.start_ticks(int(number)) is not None:
                        why = f"process {number} has it open"
                if why is not None:
                    alive[name] = why
        return Signs(units=alive)

    def transcripts(self, path: Path) -> Iterator[Transcript] | None:
        head = next(iter(opening(path)), {})
        told = head.get("data")
        if head.get("type") != "session.start" or not isinstance(told, dict):
            return None
        unit = replace(_read(None, path), id=str(told.get("sessionId")))
        return iter([self.told(path, unit)])

    def spoken(self, lines: Lines) -> Iterator[Message]:
        """The messages. The usage of an answer is recorded before it, under the same call."""
        used: dict[str, Record] = {}
        for said in lines:
            data, at = said.get("data"), moment(said.get("timestamp"))
            if not isinstance(data, dict):
                continue
            match said.get("type"):
                case "session.usage_record" if isinstance(data.get("usage"), dict):
                    used[str(data["usage"].get("apiCallId"))] = data["usage"]
                case "user.message":
                    lines.settle()
                    yield Message(role="user", content=_text(data.get("content")), timestamp=at)
                case "assistant.message":
                    yield _answer(data, at, used.pop(str(data.get("apiCallId")), None))
                case "tool.execution_complete":
                    yield Message(
                        role="tool",
                        content=_text(data.get("result") or data.get("error")),
                        timestamp=at,
                        tool_call_id=data.get("toolCallId"),
                    )
                case _:
                    pass


def _turns(root: Path, unit: Unit) -> Iterator[Message]:
    for asked, answered, at in rows(
        root / _DATABASE,
        "SELECT user_message, assistant_response, timestamp FROM turns WHERE session_id = ?"
        " ORDER BY turn_index",
        (unit.id,),
    ):
        for role, text in (("user", asked), ("assistant", answered)):
            if text:
                yield Message(role=role, content=text, timestamp=moment(at))


def _answer(data: Record, at: float | None, usage: Record | None) -> Message:
    return Message(
        role="assistant",
        content=_text(data.get("content")),
        timestamp=at,
        reasoning=data.get("reasoningText"),
        tool_calls=tool_calls_in(
            objects_in(data.get("toolRequests")), arguments="arguments", key="toolCallId"
        ),
        tokens=tokens_in(
            usage,
            input=("inputTokens",),
            output=("outputTokens",),
            cached=("cacheReadTokens",),
            cached_is_input=True,
        ),
    )


def _text(content: Any) -> str:
    if isinstance(content, dict):
        content = content.get("content") or content.get("message")
    return content if isinstance(content, str) else "" if content is None else json.dumps(content)


def flat_yaml(path: Path) -> dict[str, str]:
    """The values of a YAML file with one name and value per line and no nesting, by name. Empty if
    the file cannot be read.

    A list of sessions reads one such file per session; loading a full YAML parser would take longer
    than making the list.
    """
    found: dict[str, str] = {}
    with suppress(OSError):
        for line in read_file(path).decode(errors="replace").splitlines():
            name, colon, value = line.partition(": ")
            if colon and name.isidentifier():
                found[name] = _plain(value.strip())
    return found


def _plain(value: str) -> str:
    if value.startswith('"'):
        with suppress(ValueError):
            return str(json.loads(value))
    return value[1:-1].replace("''", "'") if value.startswith("'") else value


def _packages(root: Path) -> Path:
    """In the user's cache folder, which is next to a home in the default place."""
    return root.parent / ".cache" / "copilot" / "pkg"


def _release(name: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", name)))


def _folders(root: Path) -> list[str]:
    return sorted(
        name
        for name in names_in(root / "session-state")
        if not name.startswith(".") and (root / "session-state" / name).is_dir()
    )


def _stored(root: Path) -> tuple[Mapping[str, Unit], bool]:
    """The sessions in the database, and whether it has a full-text index."""
    path = root / _DATABASE
    there = columns(path) if path.exists() else set()
    if not there >= _NEEDED:
        return {}, False
    found = named_rows(path, "SELECT * FROM sessions")
    return {str(row["id"]): _from_row(row) for row in found}, _SEARCH in there


def _from_row(row: Record) -> Unit:
    return Unit(
        id=str(row["id"]),
        active=moment(row["updated_at"]) or 0.0,
        parts=(),
        started=moment(row["created_at"]),
        cwd=str(row["cwd"] or ""),
        title=str(row["summary"] or ""),
    )


def _read(stored: Unit | None, events: Path) -> Unit:
    """The unit, from both ends of the event file and from the file with the session's name."""
    start = within(next(iter(opening(events)), {}), "data")
    place = within(start, "context")
    active, model = None, ""
    for said in last_records(events):
        active = active or moment(said.get("timestamp"))
        model = model or str(within(said, "data").get("model") or "")
    named = flat_yaml(events.with_name("workspace.yaml"))
    title = named.get("name") or ("" if stored is None else stored.title)
    return Unit(
        id=events.parent.name,
        active=active or events.stat().st_mtime,
        parts=(),
        started=moment(start.get("startTime")),
        cwd=str(place.get("cwd") or named.get("cwd") or ("" if stored is None else stored.cwd)),
        title=title,
        model=model or str(start.get("selectedModel") or ""),
        transcript=events,
    )


def _parts(root: Path, unit: Unit, *, has_rows: bool, searched: bool) -> tuple[Part, ...]:
    name = unit.id
    named = [Rows(table="sessions", column="id", value=name, stamp="max(updated_at)")]
    if searched:
        named.append(Rows(table=_SEARCH[0], column=_SEARCH[1], value=name))
    found: list[Part] = [RowsPart(store=root / _DATABASE, rows=tuple(named))] if has_rows else []
    if is_plain_name(name):
        shown = f"{sha256(unit.cwd.encode(errors='surrogateescape')).hexdigest()}.json"
        found += (
            FolderPart(path=root / "session-state" / name),
            FilePart(path=root / "session-state" / _LOCKS / f"{name}.lock"),
            trace(root / "sidebar-sessions-state" / shown, name, at=("sessionIds",)),
            trace(root / "open-sessions-state.json", name),
        )
    return tuple(found)
