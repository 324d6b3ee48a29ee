"""Cline CLI. Its home is the folder `data` in `~/.cline`.

sessions/ID/ID.json, ID.messages.json    metadata and messages; always rewritten as a whole
sessions/ID/AGENT.messages.json          its subagents' messages; each has a row like a session
sessions/ID__AGENT/ID__AGENT.json        a subagent that Cline considers dead, and lists
db/sessions.db                           one row per session
db/session-search.db                     the full-text index
db/hub-events-*.db, db/hub-runs-*.db     the daemon's log: a full second copy of every event
checkpoint-scratch/HASH/                 a git index for the checkpoints of a session
locks/hub/*.instance.lock                locked by the daemon, which serves all sessions
refs/cline/checkpoints/ID/N              checkpoints, in the user's repository
logs/, cache/
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from holdfast.errors import HoldfastError
from holdfast.homes.agents import signs_of_life as life
from holdfast.homes.agents.agent_format import AgentFormat, facts_of
from holdfast.homes.agents.json_lines import (
    Record,
    document_in,
    is_plain_name,
    moment,
    names_in,
    object_in,
    objects_in,
    settings_in,
    within,
)
from holdfast.homes.agents.leftovers import leftover, matching
from holdfast.homes.agents.message_blocks import block_messages, tokens_in
from holdfast.homes.agents.session_tables import Tables, has_or_hides, lacks, not_known
from holdfast.model.part import (
    FolderPart,
    Known,
    Leftover,
    Part,
    Places,
    RefPart,
    Role,
    Rows,
    RowsPart,
    Signs,
    Transcript,
    Unit,
)
from holdfast.model.session import Message, Relation
from holdfast.stores.files import read_file
from holdfast.stores.sqlite.foreign import columns, named_rows, rows
from holdfast.value import replace

_NEEDED = {
    ("sessions", each)
    for each in ("session_id", "parent_session_id", "cwd", "model", "started_at", "updated_at")
}
_SESSION = "session_id"
#: The rows of a session, by database: table and column. Runs of schedules and tasks only refer to
#: the session that they started, and stay.
_BELONG = {
    "sessions": (("sessions", _SESSION), ("subagent_spawn_queue", "root_session_id")),
    "session-search": (("indexed_sessions", _SESSION), ("session_search", _SESSION)),
    "hub-events-*": (("hub_events", _SESSION),),
    "hub-runs-*": (("hub_runs", _SESSION),),
}
#: An expression that changes with a row even if its length does not.
_STAMPS = {"sessions": "max(updated_at) || ':' || max(status)"}
#: A table whose foreign key to a session is cleared when the session is deleted.
_LETS_GO = "schedule_executions"
_PROMPT = re.compile(r"<user_input[^>]*>(.*)</user_input>", re.DOTALL)
_UPDATED = re.compile(rb'^\{\s*(?:"version":\s*\d+,\s*)?"updated_at":\s*"([^"\\]+)"')
_HEAD_BYTES = 256
_LEFTOVERS = (("log", "logs/*"), ("scratch", "checkpoint-scratch/*"))


class Cline(AgentFormat):
    facts = facts_of(
        "cline",
        processes=("cline",),
        versions=("3",),
        references="refs/cline/checkpoints/",
        places=Places(
            folders=("sessions/*", "checkpoint-scratch/*"),
            stores=("db/*.db",),
        ),
    )
    proofs = ("db/sessions.db",)
    folders = ("sessions/*",)
    databases = ("db/sessions.db",)

    def recognise(self, root: Path) -> bool:
        return (root / "db" / "sessions.db").is_file()

    def is_proof(self, path: Path) -> bool:
        return has_or_hides(path, ("sessions", _SESSION))

    def doubt(self, root: Path) -> str | None:
        """If an unknown table has a column for sessions, its rows would stay behind."""
        path = root / "db" / "sessions.db"
        there = columns(path)
        if there and (why := lacks(path, there, _NEEDED)):
            return why
        for tables in _tables(root):
            if why := not_known(tables.path, {*tables.unknown} - {_LETS_GO}):
                return why
        told = (object_in(row.get("metadata_json")) for row in _rows(root).values())
        written = (within(each, "sessionHistoryOrigin") for each in told)
        versions = {str(each.get("version") or "") for each in written}
        return next((why for each in versions if each and (why := self.facts.newer(each))), None)

    def roots(self, root: Path) -> Sequence[Path]:
        """Of the user's repositories, only the files that show whether references changed."""
        with suppress(HoldfastError):
            repositories = filter(None, map(_repository, sorted({*_places(root)})))
            beside = [(each / "refs" / "cline", each / "packed-refs") for each in repositories]
            return [root, *(path for pair in beside for path in pair)]
        return [root]

    def units(self, root: Path, known: Known) -> Iterator[Unit]:
        """Subagents have their own rows, but are stored in the folder of their session."""
        found = _rows(root)
        within = defaultdict[str, list[str]](list)
        for name in found:
            if (top := _top(name, found)) != name:
                within[top].append(name)
        tables = _tables(root)
        for name in sorted(
            {*_folders(root), *found} - {each for v in within.values() for each in v}
        ):
            unit = _from_row(root, found[name]) if name in found else _from_folder(root, name)
            yield replace(unit, parts=_parts(root, unit, tables, (name, *within[name])))
            for inner in sorted(within[name]):
                child = _from_row(root, found[inner])
                known(child.transcript or root)  # the file that tells whether it changed
                yield replace(child, parent=name, relation=Relation.DELEGATE)

    def leftovers(self, root: Path) -> Iterator[Leftover]:
        scratch = {_scratch(str(row["cwd"]), name) for name, row in _rows(root).items()}
        for kind, path in matching(root, _LEFTOVERS):
            if path.name not in scratch:
                yield from leftover(kind, path)

    def messages(self, root: Path, unit: Unit) -> Iterator[Message]:
        if unit.transcript is None or not unit.transcript.exists():
            return iter(())
        return spoken(document_in(unit.transcript))

    def signs(self, root: Path, now: float) -> Signs:
        """The daemon keeps every session in memory, including those of closed windows. The states
        and process ids in the rows are left unchanged by a crash, so they prove nothing."""
        held = (life.locked(path) for path in root.glob("locks/hub/*.instance.lock"))
        why = next(filter(None, held), None)
        end = "its daemon is running; stop it with `cline hub stop`"
        return Signs(home=None if why is None else f"{why}: {end}")

    def transcripts(self, path: Path) -> Iterator[Transcript] | None:
        said = document_in(path)
        if not (said.keys() >= {"sessionId", "agent", "messages", "updated_at"}):
            return None
        name, _, agent = str(said["sessionId"]).partition("__")
        unit = _from_document(path, said)
        if agent:
            unit = replace(unit, parent=name, relation=Relation.DELEGATE)
        return iter([Transcript(path=path, unit=unit, messages=spoken(said))])


def spoken(document: Record) -> Iterator[Message]:
    for said in objects_in(document.get("messages")):
        cost = within(said, "metrics").get("cost")
        for each in block_messages(
            str(said.get("role") or "assistant"),
            said.get("content"),
            at=moment(said.get("ts")),
            tokens=tokens_in(
                said.get("metrics"),
                input=("inputTokens",),
                output=("outputTokens",),
                cached=("cacheReadTokens",),
                cached_is_input=True,
            ),
            cost=cost if isinstance(cost, int | float) else None,
        ):
            asked = _PROMPT.fullmatch(str(each.content)) if each.role == "user" else None
            yield replace(each, content=asked[1]) if asked else each


def _tables(root: Path) -> list[Tables]:
    return [
        Tables.of(path, known, naming=_SESSION)
        for name, known in _BELONG.items()
        for path in sorted(root.glob(f"db/{name}.db"))
    ]


def _rows(root: Path) -> Mapping[str, Record]:
    path = root / "db" / "sessions.db"
    if not path.exists() or not columns(path) >= _NEEDED:
        return {}
    return {str(row[_SESSION]): row for row in named_rows(path, "SELECT * FROM sessions")}


def _places(root: Path) -> Iterator[str]:
    path = root / "db" / "sessions.db"
    if path.exists() and ("sessions", "cwd") in columns(path):
        yield from (str(cwd) for (cwd,) in rows(path, "SELECT DISTINCT cwd FROM sessions"))


def _top(name: str, found: Mapping[str, Record]) -> str:
    """The top-level session that a subagent works for."""
    seen = {name}
    while (parent := str(found[name]["parent_session_id"] or "")) in found and parent not in seen:
        name = parent
        seen.add(name)
    return name


def _folders(root: Path) -> list[str]:
    return [
        name
        for name in names_in(root / "sessions")
        if (root / "sessions" / name / f"{name}.messages.json").is_file()
    ]


def _from_row(root: Path, row: Record) -> Unit:
    """The path in the row is absolute, and wrong after the home was copied: only names count."""
    name = str(row[_SESSION])
    folder, _, agent = name.partition("__")
    path = root / "sessions" / folder / f"{agent or folder}.messages.json"
    plain = is_plain_name(folder) and is_plain_name(agent or folder)
    return Unit(
        id=name,
        active=max(moment(row["updated_at"]) or 0.0, _rewritten(path) if plain else 0.0),
        parts=(),
        started=moment(row["started_at"]),
        cwd=str(row["cwd"] or ""),
        title=str(object_in(row.get("metadata_json")).get("title") or ""),
        model=str(row["model"] or ""),
        transcript=path if plain else None,
    )


def _rewritten(path: Path) -> float:
    """When the messages were last written, as their document says near its start: the row may lag
    behind it. 0 if it does not say."""
    with suppress(OSError):
        said = _UPDATED.search(read_file(path, _HEAD_BYTES))
        return (moment(said[1].decode()) if said else None) or 0.0
    return 0.0


def _from_folder(root: Path, name: str) -> Unit:
    path = root / "sessions" / name / f"{name}.messages.json"
    return replace(_from_document(path, settings_in(path)), id=name)


def _from_document(path: Path, said: Record) -> Unit:
    beside = path.with_name(path.name.replace(".messages.json", ".json"))
    manifest = document_in(beside) if beside.is_file() and beside != path else {}
    return Unit(
        id=str(said.get("sessionId") or path.parent.name),
        active=moment(said.get("updated_at")) or path.parent.lstat().st_mtime,
        parts=(),
        started=moment(manifest.get("started_at")),
        cwd=str(manifest.get("cwd") or ""),
        title=str(within(manifest, "metadata").get("title") or ""),
        model=str(manifest.get("model") or ""),
        transcript=path,
    )


def _scratch(cwd: str, name: str) -> str:
    told = f"{cwd}\0{name}".encode(errors="surrogateescape")
    return sha256(told).hexdigest()[:32]


def _repository(cwd: str) -> Path | None:
    """The folder with the references of the repository that contains a working directory."""
    for place in (Path(cwd), *Path(cwd).parents) if cwd.startswith("/") else ():
        found = place / ".git"
        if found.is_dir():
            return found
        if found.is_file():  # a worktree: its references are those of its repository
            with suppress(OSError, IndexError, ValueError):
                own = place / read_file(found).decode().split("gitdir: ", 1)[1].strip()
                return (own / read_file(own / "commondir").decode().strip()).resolve()
            return None
    return None


def _parts(
    root: Path, unit: Unit, tables: Sequence[Tables], names: Sequence[str]
) -> tuple[Part, ...]:
    """`names` are the session and its subagents."""
    found: list[Part] = []
    for each in tables:
        if each.rows:
            role = Role.REFERENCE if each.path.stem == "sessions" else Role.DATA
            named = [
                Rows(table=table, column=column, value=name, stamp=_STAMPS.get(table, ""))
                for table, column in each.rows
                for name in names
            ]
            found.append(RowsPart(store=each.path, rows=tuple(named), role=role))
    found += [FolderPart(path=root / "sessions" / name) for name in names if is_plain_name(name)]
    if is_plain_name(unit.id):
        scratch = root / "checkpoint-scratch" / _scratch(unit.cwd, unit.id)
        found.append(FolderPart(path=scratch))
    repository = _repository(unit.cwd)
    if repository is not None and re.fullmatch(r"[\w-]+", unit.id):
        prefix = f"{Cline.facts.references}{unit.id}/"
        found.append(RefPart(repository=repository, prefix=prefix))
    return tuple(found)
