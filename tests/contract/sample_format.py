"""The format of an imaginary agent, Marmot: all that Holdfast must know of one.

VERSION            the version of this layout
chats/ID.jsonl     what was said, after a first line about the chat
files/ID/          what tools left
marmot.db          a row a chat, and its notes
recent.json        chats that its menu shows
history.jsonl      what the user typed, all chats together
pids/ID            the process that has the chat open
cache/             thumbnails that nobody misses
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from holdfast.model.part import (
    Facts,
    FilePart,
    FolderPart,
    Known,
    Leftover,
    LinePart,
    Part,
    Places,
    Role,
    Rows,
    RowsPart,
    Signs,
    Unit,
)
from holdfast.model.session import Message, Relation


class MarmotFormat:
    facts = Facts(
        name="marmot",
        agent="Marmot",
        folder=".marmot",
        environment="MARMOT_HOME",
        processes=("marmot-agent",),
        versions=("1",),
        places=Places(
            files=("chats/{id}.jsonl",),
            folders=("files/{id}",),
            stores=("marmot.db",),
            lines=("recent.json", "history.jsonl"),
        ),
    )

    def recognise(self, root: Path) -> bool:
        return (root / "marmot.db").is_file() and (root / "chats").is_dir()

    def doubt(self, root: Path) -> str | None:
        try:
            version = (root / "VERSION").read_text().strip()
        except OSError as error:
            return f"the version of this home cannot be read ({error.strerror})"
        return None if version in self.facts.versions else f"Marmot {version} is not known"

    def roots(self, root: Path) -> Sequence[Path]:
        return [root]

    def units(self, root: Path, known: Known) -> Iterator[Unit]:
        for path in sorted(root.glob("chats/*.jsonl")):
            unit = known(path) or self._read(path)
            yield replace(unit, parts=self._parts(root, path))

    def _read(self, path: Path) -> Unit:
        with path.open() as lines:
            said = json.loads(next(lines))
        return Unit(
            id=path.stem,
            active=path.stat().st_mtime,
            parts=(),
            started=said["started"],
            parent=said.get("parent", ""),
            relation=Relation.DELEGATE if said.get("parent") else None,
            cwd=said["cwd"],
            title=said["title"],
        )

    def _parts(self, root: Path, path: Path) -> tuple[Part, ...]:
        name = path.stem
        return (
            RowsPart(
                store=root / "marmot.db",
                rows=(Rows(table="chat", column="id", value=name, stamp="max(updated)"),),
            ),
            LinePart(path=root / "recent.json", at=("chats",), value=name),
            FilePart(path=path),
            FolderPart(path=root / "files" / name),
            LinePart(
                path=root / "history.jsonl", key="chat", value=name, lines=True, role=Role.TRACE
            ),
        )

    def leftovers(self, root: Path) -> Iterator[Leftover]:
        for path in sorted(root.glob("cache/*")):
            yield Leftover(
                kind="cache",
                id=path.name,
                active=path.lstat().st_mtime,
                parts=(FilePart(path=path),),
            )

    def messages(self, root: Path, unit: Unit) -> Iterator[Message]:
        with (root / "chats" / f"{unit.id}.jsonl").open() as lines:
            for line in list(lines)[1:]:
                said = json.loads(line)
                yield Message(role=said["role"], content=said["text"], timestamp=said["at"])

    def signs(self, root: Path, now: float) -> Signs:
        alive = {}
        for path in root.glob("pids/*"):
            if Path("/proc", path.read_text()).exists():
                alive[path.name] = f"process {path.read_text()} has it open"
        return Signs(units=alive)


def make_home(root: Path, chats: Sequence[str] = ("aa01", "bb02"), *, at: float = 1e9) -> None:
    """A home as Marmot leaves it. The chat `x` is a delegate of `y` when it is called `y-x`."""
    for folder in ("chats", "pids", "cache"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    (root / "VERSION").write_text("1\n")
    (root / "recent.json").write_text(json.dumps({"v": 1, "chats": list(chats)}, indent=2))
    (root / "cache" / "thumb.tmp").write_bytes(b"x" * 5000)
    with closing(sqlite3.connect(root / "marmot.db")) as db:
        db.execute("CREATE TABLE chat (id TEXT PRIMARY KEY, updated REAL)")
        db.execute("CREATE TABLE note (chat TEXT REFERENCES chat ON DELETE CASCADE, text TEXT)")
        for name in chats:
            db.execute("INSERT INTO chat VALUES (?, ?)", (name, at))
            db.execute("INSERT INTO note VALUES (?, 'n')", (name,))
        db.commit()
    for name in chats:
        parent = name.rpartition("-")[0]
        head = {"cwd": "/work", "title": f"Chat {name}", "started": at - 60, "parent": parent}
        said = [{"role": "user", "text": f"hello {name} zebra", "at": at - 50}]
        said.append({"role": "assistant", "text": "hi", "at": at})
        lines = "".join(json.dumps(each) + "\n" for each in (head, *said))
        (root / "chats" / f"{name}.jsonl").write_text(lines)
        (root / "files" / name / "deep").mkdir(parents=True)
        (root / "files" / name / "deep" / "out.bin").write_bytes(name.encode() * 2000)
        with (root / "history.jsonl").open("a") as history:
            history.write(json.dumps({"chat": name, "text": "hello"}) + "\n")
    for path in sorted(root.rglob("*"), reverse=True):
        os.utime(path, (at, at))
