"""Mistral Vibe.

logs/session/unified/ID/   a session: CURRENT names a generation, which names chunks by checksum and
                           a journal whose records are chained by checksums; meta.json describes it
logs/session/unified/child-*/  a subagent, without a meta.json: its last state names its session
logs/session/unified/.session-index.json   a cache of sizes, times and first prompts
logs/session/active/ID.lock                locked while a process has the session open
logs/session/plugins/data/ID/              what plugins keep for a session
logs/session/plugins/packages/             plugins, unpacked from blobs/ and manifests/ next to it,
                                           again whenever one is missing
logs/session/session_*/    sessions of earlier releases

One changed byte breaks a chain: a session is moved whole or not at all.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from holdfast.homes.agents import signs_of_life as life
from holdfast.homes.agents.agent_format import AgentFormat, facts_of, trace, unless_uuid
from holdfast.homes.agents.json_lines import (
    Record,
    document_in,
    files_in,
    is_plain_name,
    last_records,
    moment,
    names_in,
    newest,
    objects_in,
    records,
    text_of,
    unit_of,
    within,
)
from holdfast.homes.agents.leftovers import leftover, matching
from holdfast.homes.agents.message_blocks import tokens_in, tool_call
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
from holdfast.model.usage import Usage
from holdfast.stores.files import read_file
from holdfast.value import replace

_SESSIONS = Path("logs") / "session"
_UNIFIED = _SESSIONS / "unified"
_ACTIVE = _SESSIONS / "active"
#: How the names of subagents begin.
_CHILD = "child-"
_STORE = "mistral.vibe.unified-session-store/v1"
_PLUGINS = _SESSIONS / "plugins"


class Vibe(AgentFormat):
    facts = facts_of(
        "vibe",
        processes=("vibe", "vibe-rs", "vibe-app-server"),
        versions=("1",),
        places=Places(
            files=("logs/session/active/{id}.lock", "logs/session/active/{id}.lock.json"),
            folders=("logs/session/unified/{id}", "logs/session/plugins/data/{id}"),
            lines=("logs/session/unified/.session-index.json",),
        ),
    )
    proofs = ("logs/session/unified/*/CURRENT",)
    emptied = ("logs/session/unified",)
    folders = ("logs/session/unified/*",)
    left = (
        ("log", "logs/*.log*"),
        ("old-session", "logs/session/session_*"),
        # The folder around a package: the package itself is read-only, and only root may move it.
        ("plugin-package", "logs/session/plugins/packages/*"),
        ("temporary", "logs/session/plugins/tmp/*"),
    )

    def recognise(self, root: Path) -> bool:
        return (root / _UNIFIED).is_dir()

    def doubt(self, root: Path) -> str | None:
        """Every session names its store format; the newest session decides for the home."""
        latest = newest(root / _UNIFIED / each / "CURRENT" for each in _names(root))
        if latest is None:
            return None
        form = str(_document(latest).get("store_format") or "none")
        return None if form == _STORE else f"its sessions have an unknown format: {form}"

    def units(self, root: Path, known: Known) -> Iterator[Unit]:
        """The least recently used first: entries removed from a shared list in one order are
        restored in the reverse order."""
        found = (unit_of(root / _UNIFIED / name, known, _read, name=name) for name in _names(root))
        for unit in sorted(filter(None, found), key=lambda each: each.active):
            odd = "" if unit.id.startswith(_CHILD) else unless_uuid(unit.id, self.facts.agent)
            yield replace(unit, parts=_parts(root, unit.id), stays=odd)

    def leftovers(self, root: Path) -> Iterator[Leftover]:
        """A lock without a session belongs to one that was never written; plugin data without a
        session to one that Vibe itself deleted."""
        yield from super().leftovers(root)
        sessions = set(_names(root))
        for kind, path in matching(root / _ACTIVE, [("lock", "*.lock"), ("lock", "*.lock.json")]):
            if path.name.partition(".")[0] not in sessions:
                yield from leftover(kind, path)
        for kind, path in matching(root / _PLUGINS, [("plugin-data", "data/*")]):
            if path.name not in sessions:
                yield from leftover(kind, path)

    def messages(self, root: Path, unit: Unit) -> Iterator[Message]:
        for entry in _entries(root / _UNIFIED / unit.id).values():
            yield from _messages(entry)

    def written(self, root: Path, unit: Unit) -> Sequence[Path]:
        folder = root / _UNIFIED / unit.id
        return [*files_in(folder / "chunks", ".json"), *files_in(folder / "journal", ".jsonl")]

    def signs(self, root: Path, now: float) -> Signs:
        """A process with an open session holds its lock; both files of a lock survive a crash."""
        names = {each.partition(".")[0] for each in names_in(root / _ACTIVE)} - {""}
        return Signs(units=life.held({each: root / _ACTIVE / f"{each}.lock" for each in names}))

    def transcripts(self, path: Path) -> Iterator[Transcript] | None:
        """No single file holds a session: it is spread over a folder."""
        return None


def _names(root: Path) -> list[str]:
    """The folders of sessions. A name that begins with a dot is a cache or still being created."""
    found = sorted(names_in(root / _UNIFIED))
    return [each for each in found if each[:1] != "." and (root / _UNIFIED / each).is_dir()]


def _parts(root: Path, name: str) -> tuple[Part, ...]:
    return (
        FolderPart(path=root / _UNIFIED / name, role=Role.REFERENCE),
        FolderPart(path=root / _PLUGINS / "data" / name),
        FilePart(path=root / _ACTIVE / f"{name}.lock", role=Role.TRACE),
        FilePart(path=root / _ACTIVE / f"{name}.lock.json", role=Role.TRACE),
        trace(root / _UNIFIED / ".session-index.json", name, at=("entries",), key="session_id"),
    )


def _read(folder: Path) -> Unit:
    meta = _document(folder / "meta.json")
    session = _session(folder)
    parent = str(meta.get("parent_session_id") or session.get("parentSessionId") or "")
    times = [meta.get(each) for each in ("end_time", "bumped_at", "start_time")]
    times += [session.get(each) for each in ("updatedAt", "createdAt")]
    return Unit(
        id=folder.name,
        active=max(filter(None, map(moment, times)), default=folder.stat().st_mtime),
        parts=(),
        started=moment(meta.get("start_time") or session.get("createdAt")),
        parent=parent,
        relation=Relation.DELEGATE if parent else None,
        cwd=str(within(meta, "environment").get("working_directory") or ""),
        title=str(meta.get("title") or ""),
        model=str(within(meta, "config").get("model_name") or ""),
        used=_used(session),
        pinned=bool(meta.get("pinned_at")),
        archived=bool(meta.get("archived_at")),
    )


def _session(folder: Path) -> Record:
    """The last state of a session: from its journal, or else from its generation."""
    for segment in sorted((folder / "journal").glob("*.jsonl"), reverse=True):
        for said in last_records(segment, most_bytes=1024**2):
            for change in _changes(said):
                if change.get("op") == "set_envelope" and isinstance(change.get("state"), dict):
                    return within(change, "state", "session")
    before = _document(_generation(folder) / "projection-state.json")
    return within(before, "snapshot", "session")


def _used(session: Record) -> Usage | None:
    """The usage of the session so far."""
    tokens = tokens_in(
        session.get("tokenUsage"),
        input=("inputTokens",),
        output=("outputTokens",),
        cached=("cachedInputTokens",),
        cached_is_input=True,
    )
    return Usage(tokens=tokens, unpriced=tokens) if tokens and tokens.total else None


def _changes(said: Record) -> list[Record]:
    return objects_in(within(said, "payload").get("delta"))


def _generation(folder: Path) -> Path:
    name = str(_document(folder / "CURRENT").get("generation") or "-")
    return folder / "generations" / (name if is_plain_name(name) else "-")


def _entries(folder: Path) -> dict[str, Record]:
    """The visible entries of a session by id, in order: those of its generation, updated from the
    journal."""
    found: dict[str, Record] = {}
    manifest = _document(_generation(folder) / "manifest.json")
    for name in within(manifest, "projection_state").get("chunks") or ():
        if is_plain_name(str(name)):
            for entry in _list(folder / "chunks" / f"{name}.json"):
                found[str(entry.get("id"))] = entry
    first = within(manifest, "recovery_journal_segment").get("first_sequence")
    for path in sorted((folder / "journal").glob("*.jsonl")):
        for said in records(path, (b'"entry"', b'"remove_entry"')):
            number = said.get("sequence")
            if not isinstance(number, int) or number < int(first or 0):
                continue
            for change in _changes(said):
                shown = change.get("entry")
                if isinstance(shown, dict):
                    found[str(shown.get("id"))] = shown
                elif change.get("op") == "remove_entry":
                    found.pop(str(change.get("id") or change.get("entryId")), None)
    return found


def _messages(entry: Record) -> Iterator[Message]:
    at = moment(entry.get("createdAt"))
    detail = entry.get("detail")
    if isinstance(detail, dict):
        called = str(entry.get("id"))
        call = tool_call(detail.get("toolName"), detail.get("input"), called)
        yield Message(role="assistant", content="", timestamp=at, tool_calls=[call])
        output = within(entry, "state").get("output")
        if isinstance(output, dict):
            said = output.get("structured_content", output.get("content"))
            yield Message(
                role="tool",
                content=said if isinstance(said, str) else json.dumps(said),
                timestamp=moment(entry.get("updatedAt")) or at,
                tool_name=detail.get("toolName"),
                tool_call_id=called,
            )
    elif entry.get("type") == "reasoning":
        thought = text_of(entry.get("content"))
        if thought:
            yield Message(role="assistant", reasoning=thought, timestamp=at)
    elif entry.get("role"):
        text = text_of(entry.get("content"))
        yield Message(role=str(entry["role"]), content=text, timestamp=at)


def _document(path: Path) -> Record:
    try:
        return document_in(path)
    except (FileNotFoundError, NotADirectoryError):
        return {}


def _list(path: Path) -> list[Record]:
    try:
        return objects_in(json.loads(read_file(path)))
    except (FileNotFoundError, ValueError):
        return []
