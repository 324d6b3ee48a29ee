"""What a user finds in a home: with the commands, and with `ls`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tests.model.kept import ARCHIVE, BIN, STORE, TRASH
from tests.model.world import World

#: What the list says of a session and an export does not.
_OF_THE_LIST = ("pinned", "message_count", "tokens_in", "tokens_out", "tokens_cached", "cost")


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenSession:
    line: dict[str, Any]
    row: dict[str, Any]
    parent_id: str | None
    key: str | None


class SeenFile(NamedTuple):
    content: bytes
    touched: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """`places`, `checkpoints` and `bundles` (of files alone) count where each id was found, `trash`
    where the name of each file was."""

    store: dict[str, SeenSession]
    places: dict[str, Counter[str]]
    files: dict[str, SeenFile]
    trash: dict[str, Counter[str]]
    bundles: dict[str, Counter[str]]
    checkpoints: dict[str, Counter[str]]
    operations: dict[str, dict[str, Any]]


def look(world: World) -> Seen:
    reads = [
        ("sessions", "export", "--all"),
        ("--json", "sessions", "list"),
        ("--json", "sessions", "list", "--archived"),
        ("--json", "trash", "list"),
        ("--json", "log", "--limit", "1000"),
    ]
    if (world.home / "checkpoints").exists():
        reads.append(("--json", "checkpoints", "list", "--all-projects"))
    exported, *told = world.read(*reads)
    listed, archived, trashed, log, *taken = map(json.loads, told)
    store = _store(exported, listed["sessions"])
    places: dict[str, Counter[str]] = {name: Counter([STORE]) for name in store}
    checkpoints: dict[str, Counter[str]] = {}
    trash: dict[str, Counter[str]] = {}
    bundles: dict[str, Counter[str]] = {}
    for each in archived["sessions"]:
        kind = bundles if each.get("holds") == "files" else places
        kind.setdefault(each["id"], Counter())[ARCHIVE] += 1
    for each in taken[0]["checkpoints"] if taken else ():
        checkpoints.setdefault(each["id"], Counter())[STORE] += 1
    kinds = {"checkpoint": checkpoints, "session": places, "archived_session": places}
    kinds["archived_files"] = bundles
    for each in trashed["trash"]:
        where = (BIN if each["kind"].startswith("archived_") else TRASH) + each["operation"]
        kind = kinds.get(each["kind"], trash)
        # A bundle is named by its file, which cannot always have the id of its session.
        of_session = kind is places or kind is bundles
        name = each["session"] if of_session else each["id"].removeprefix("sessions/")
        kind.setdefault(name, Counter())[where] += 1
    assert not log["problems"], f"the log has problems: {log['problems']}"
    return Seen(
        store=store,
        places=places,
        files={
            path.name: SeenFile(path.read_bytes(), path.stat().st_mtime)
            for path in world.files.glob("*")
            if path.is_file()
        },
        trash=trash,
        bundles=bundles,
        checkpoints=checkpoints,
        operations={each["id"]: each for each in log["operations"]},
    )


def _store(exported: str, listed: Sequence[dict[str, Any]]) -> dict[str, SeenSession]:
    rows = {each["id"]: each for each in listed}
    lines = {line["id"]: line for line in map(json.loads, exported.splitlines())}
    assert lines.keys() == rows.keys(), f"listed {sorted(rows)}, exported {sorted(lines)}"
    return {name: _seen(lines[name], row) for name, row in rows.items()}


def _seen(line: dict[str, Any], row: dict[str, Any]) -> SeenSession:
    exported, key = line.pop("parent_id"), line.pop("routing_key", None)
    parent = row["parent_id"]
    # An export also names a parent that is elsewhere, so that it can be found again.
    assert parent in (None, exported), f"{row['id']} has {parent} in a list, {exported} exported"
    assert row["routing_key"] == key, f"{row['id']} has another key in a list than exported"
    line.pop("pinned", None)
    if "hermes" in line and parent is None:
        line["relation"] = None  # there it follows from the parent
    kept = {name: row[name] for name in _OF_THE_LIST}
    return SeenSession(line=line, row=kept, parent_id=parent, key=key)
