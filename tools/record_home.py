"""Record the home of a real agent as a sample for tests: small, and without what others wrote.

    python tools/record_home.py HOME PROJECT OUT.tar.gz [FOLDER-TO-LEAVE-OUT ...]

Long texts (system prompts, lists of tools) become runs of `x` of the same length, because some
agents keep byte offsets into their transcripts. The paths of HOME and PROJECT become neutral ones
of the same length. Databases are copied without their write-ahead log. Times stay.
"""

from __future__ import annotations

import io
import platform
import re
import shutil
import sqlite3
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

from holdfast.stores.sqlite.foreign import add_newer_functions

#: Longer texts are somebody's prose or a listing, not structure.
MOST_KEPT = 120
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')
_PROSE = re.compile(rb"[A-Za-z]{3,}(?=.{%d})" % MOST_KEPT)
#: Somebody's prose from end to end: skills, rules, git's samples, compiled templates.
_PROSE_FILES = (".md", ".sample", ".cache")
_ESCAPE = re.compile(rb"\\u[0-9a-fA-F]{4}|\\.|[A-Za-z]", re.DOTALL)
#: What tells one machine or one run from another: a machine's id, a kernel's version, a token.
_IDENTITY = re.compile(
    rb'linux:[0-9a-f]{32}|(?<=Linux )\d[\w.-]+|(?<=kernel )\d[\w.-]+|(?<="peerToken":")[^"]+'
    rb'|(?<="ipcToken": ")[^"]+|(?<="procStart": ")[0-9a-f-]{36}'
)


def neutral_text(raw: bytes) -> bytes:
    """JSON with every long string blanked out, of the same length."""
    return _STRING.sub(
        lambda found: _blank(found[0]) if len(found[0]) > MOST_KEPT else found[0], raw
    )


def _blank(literal: bytes) -> bytes:
    return _ESCAPE.sub(lambda each: b"x" if len(each[0]) == 1 else each[0], literal)


def neutral_path(path: Path, name: str) -> bytes:
    """A path that says nothing about a machine, as long as the one that it replaces."""
    length = len(str(path))
    plain = f"/home/me/{name}"
    return (plain + "/" + "w" * length)[:length].rstrip("/").ljust(length, "w").encode()


def scrub(places: dict[bytes, bytes]) -> Callable[[bytes], bytes]:
    def scrubbed(raw: bytes) -> bytes:
        for old, new in places.items():
            raw = raw.replace(old, new).replace(_dashed(old), _dashed(new))
        raw = _IDENTITY.sub(lambda found: re.sub(rb"[0-9A-Za-z]", b"0", found[0]), raw)
        return neutral_text(raw)

    return scrubbed


def _dashed(path: bytes) -> bytes:
    return re.sub(rb"[^A-Za-z0-9]", b"-", path)


def scrub_database(path: Path, clean: Callable[[bytes], bytes]) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA foreign_keys = OFF")
        add_newer_functions(db)
        found_triggers = db.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'")
        triggers = found_triggers.fetchall()
        for name, _ in triggers:
            db.execute(f'DROP TRIGGER "{name}"')
        # The tables of a full-text index follow from the index itself.
        tables = db.execute(
            "SELECT name, wr FROM pragma_table_list WHERE schema = 'main' AND type IN ('table',"
            " 'virtual') AND name NOT LIKE 'sqlite_%'"
        ).fetchall()
        for table, without_rowid in tables:
            info = db.execute(f'PRAGMA table_info("{table}")').fetchall()
            keys = [f'"{name}"' for _, name, _, _, _, place in info if place]
            row = ", ".join(keys) if without_rowid else "rowid"
            for _, column, *_ in info:
                texts = (
                    f"""SELECT "{column}", {row} FROM "{table}" WHERE typeof("{column}") = 'text'"""  # noqa: S608 - names from its own schema
                )
                for text, *key in db.execute(texts).fetchall():
                    fresh = _clean_cell(text, clean)
                    if fresh != text:
                        marks = ", ".join("?" * len(key))
                        change = f'UPDATE "{table}" SET "{column}" = ? WHERE ({row}) = ({marks})'  # noqa: S608 - as above
                        db.execute(change, (fresh, *key))
        for _, statement in triggers:
            db.execute(statement)
        db.commit()
        db.execute("VACUUM")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _clean_cell(text: str, clean: Callable[[bytes], bytes]) -> str:
    raw = clean(text.encode())
    if raw[:1] not in b"{[" and len(raw) > MOST_KEPT:
        raw = re.sub(rb"[A-Za-z]", b"x", raw)
    return raw.decode()


def files_below(root: Path, left_out: set[str]) -> Iterator[Path]:
    for path in sorted(root.rglob("*")):
        inside = path.relative_to(root)
        if not left_out & {str(each) for each in (inside, *inside.parents)}:
            yield path


def _cleaned(path: Path, clean: Callable[[bytes], bytes], scratch: Path) -> bytes:
    """The content of a file without what it says of a machine and of other people."""
    content = path.read_bytes()
    if content.startswith(b"SQLite format 3"):
        copy = scratch / "copy.db"
        for end in ("", "-wal"):
            beside = path.with_name(path.name + end)
            if beside.exists():
                shutil.copyfile(beside, str(copy) + end)
        scrub_database(copy, clean)
        content = copy.read_bytes()
        for each in scratch.iterdir():
            each.unlink()
        return content
    # aider's conversations are Markdown.
    if path.suffix in _PROSE_FILES and "history" not in path.name and len(content) > MOST_KEPT:
        return re.sub(rb"[A-Za-z]", b"x", content)
    if ".git" in path.parts or b"\0" in content[:8000]:
        return content
    content = clean(content)
    if path.suffix not in (".json", ".jsonl") and content[:1] != b"{":
        content = _PROSE.sub(lambda found: b"x" * len(found[0]), content)
    return content


def record(home: Path, project: Path, out: Path, left_out: set[str]) -> None:
    places = {
        str(project).encode(): neutral_path(project, "project"),
        str(home).encode(): neutral_path(home, "home"),
        str(home.parents[2]).encode(): neutral_path(home.parents[2], "lab"),
        str(Path.home()).encode() + b"/": neutral_path(Path.home(), "user") + b"/",
        platform.release().encode(): re.sub(r"\w", "0", platform.release()).encode(),
    }
    clean = scrub(places)
    with tempfile.TemporaryDirectory() as scratch, tarfile.open(out, "w:xz") as tar:
        for path in files_below(home, left_out):
            name = str(path.relative_to(home))
            if name.endswith(("-wal", "-shm")) or not (path.is_dir() or path.is_file()):
                continue
            info = tar.gettarinfo(path, clean(name.encode()).decode())
            info.uid = info.gid = 0
            info.uname = info.gname = "me"
            info.linkname = clean(info.linkname.encode()).decode()
            if path.is_symlink() or path.is_dir():
                tar.addfile(info)
                continue
            content = _cleaned(path, clean, Path(scratch))
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))


if __name__ == "__main__":
    record(Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), set(sys.argv[4:]))
