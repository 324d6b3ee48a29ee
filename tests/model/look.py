"""What a user finds in a home: with the commands, and with `ls`."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import Any

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """`places` and `checkpoints` count, for each id, where it was found; `trash` does it for the
    names of files."""

    store: dict[str, SeenSession]
    places: dict[str, Counter[str]]
    files: dict[str, bytes]
    trash: dict[str, Counter[str]]
    checkpoints: dict[str, Counter[str]]
    operations: dict[str, dict[str, Any]]


def look(world: World) -> Seen:
    store = _store(world)
    places: dict[str, Counter[str]] = {name: Counter([STORE]) for name in store}
    for each in _told(world, "sessions", "list", "--archived")["sessions"]:
        places.setdefault(each["id"], Counter())[ARCHIVE] += 1
    checkpoints: dict[str, Counter[str]] = {}
    for each in _checkpoints(world):
        checkpoints.setdefault(each["id"], Counter())[STORE] += 1
    trash: dict[str, Counter[str]] = {}
    for each in _told(world, "trash", "list")["trash"]:
        where = (BIN if each["kind"] == "archived_session" else TRASH) + each["operation"]
        if each["kind"] == "checkpoint":
            checkpoints.setdefault(each["id"], Counter())[where] += 1
        elif each["kind"] in ("session", "archived_session"):
            places.setdefault(each["id"], Counter())[where] += 1
        else:
            trash.setdefault(each["id"].removeprefix("sessions/"), Counter())[where] += 1
    files = {path.name: path.read_bytes() for path in world.files.glob("*") if path.is_file()}
    log = _told(world, "log", "--limit", "1000")
    assert not log["problems"], f"the log has problems: {log['problems']}"
    operations = {each["id"]: each for each in log["operations"]}
    return Seen(
        store=store,
        places=places,
        files=files,
        trash=trash,
        checkpoints=checkpoints,
        operations=operations,
    )


def _told(world: World, *args: str) -> Any:
    said = world.holdfast(*args)
    assert said.code == 0, f"{' '.join(args)} ended with {said.code}: {said.err}"
    return said.document


def _store(world: World) -> dict[str, SeenSession]:
    rows = {each["id"]: each for each in _told(world, "sessions", "list")["sessions"]}
    said = world.holdfast("sessions", "export", "--all", json_out=False)
    assert said.code == 0, f"export ended with {said.code}: {said.err}"
    lines = {line["id"]: line for line in map(json.loads, said.out.splitlines())}
    assert lines.keys() == rows.keys(), "list and export differ"
    return {name: _seen(lines[name], row) for name, row in rows.items()}


def _seen(line: dict[str, Any], row: dict[str, Any]) -> SeenSession:
    parent, key = line.pop("parent_id"), line.pop("routing_key", None)
    assert (row["parent_id"], row["routing_key"]) == (parent, key), "list and export differ"
    line.pop("pinned", None)
    kept = {name: row[name] for name in _OF_THE_LIST}
    return SeenSession(line=line, row=kept, parent_id=parent, key=key)


def _checkpoints(world: World) -> list[dict[str, Any]]:
    if not (world.home / "checkpoints").exists():
        return []
    found: list[dict[str, Any]] = _told(world, "checkpoints", "list", "--all-projects")[
        "checkpoints"
    ]
    return found
