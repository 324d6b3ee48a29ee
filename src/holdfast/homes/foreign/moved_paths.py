"""Restores sessions of other agents under other paths: rewrites the fields that name a path, and
nothing else.

An agent finds a session by the place of its transcript, and by the working directory inside.
Messages stay unchanged, even if they mention an old path. Rows and shared lists are left behind:
Claude Code needs none, and Codex creates its own from a rollout that it finds. They point into the
rollout by byte offset, so they would be wrong there.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from holdfast.errors import HoldfastError
from holdfast.model.part import FilePart, FolderPart, Part, Role
from holdfast.model.path_map import mapped
from holdfast.parts.trees import below, is_folder, measure
from holdfast.parts.unit_record import BatchRecord, State, UnitRecord
from holdfast.stores.files import give_to, make_private_dir, sync_dir
from holdfast.value import replace

Maps = Mapping[str, str]

_PROJECTS = "projects"
#: Claude Code truncates a longer name and adds a digest.
_LONGEST = 200
#: A key and its string. Inside a string, every quote is escaped, so a match there is impossible.
_CWD = re.compile(rb'(?<!\\)"cwd"\s*:\s*("(?:[^"\\]|\\.)*")')
_ROOTS = re.compile(rb'(?<!\\)"[a-z_]*roots"\s*:\s*\[([^\[\]]*)\]')
_TEXT = re.compile(rb'"(?:[^"\\]|\\.)*"')
#: The records of a rollout with the working directory of a thread. The others are its content.
_WHERE = (b'"session_meta"', b'"turn_context"', b'"thread_settings_applied"', b'"world_state"')


class CannotMoveError(HoldfastError):
    """Why a session cannot be restored under other paths."""

    kind = "cannot_move"


class Moving(Protocol):
    """The changes with which an agent finds a session under another path."""

    def root(self, parts: Iterable[Part]) -> Path | None:
        """The home that a session was in, derived from the place of its transcript."""

    def place(self, relative: Path, copies: Mapping[Path, Path], maps: Maps) -> Path:
        """The new place of a part, relative to the home. `copies` are the parts by their old
        places."""

    def line(self, line: bytes, maps: Maps) -> bytes:
        """A line of a transcript with its paths replaced."""


class ClaudeCode:
    """A transcript is in a folder named after the working directory."""

    def root(self, parts: Iterable[Part]) -> Path | None:
        for part in parts:
            path = part.place
            if path.suffix == ".jsonl" and path.parent.parent.name == _PROJECTS:
                return path.parents[2]
        return None

    def place(self, relative: Path, copies: Mapping[Path, Path], maps: Maps) -> Path:
        if relative.parts[0] != _PROJECTS:
            return relative
        folder = relative.parts[1]
        for each, copy in copies.items():
            if each.parts[:2] == (_PROJECTS, folder) and copy.is_file():
                for cwd in _cwds(copy):
                    if _folder_of(cwd) == folder:
                        return Path(_PROJECTS, _folder_of(_here(cwd, maps)), *relative.parts[2:])
        raise CannotMoveError(f"no transcript records the directory that {folder} stands for")

    def line(self, line: bytes, maps: Maps) -> bytes:
        """Only the record's own field `cwd` is replaced; a field of that name in tool output
        stays."""
        for found in _CWD.finditer(line):
            new = _mapped_text(found[1], maps)
            changed = line[: found.start(1)] + new + line[found.end(1) :]
            if changed != line and _differ_in_cwd(line, changed):
                return changed
        return line


class Codex:
    """A rollout is found by its name, in any folder. Its first record has the working directory."""

    def root(self, parts: Iterable[Part]) -> Path | None:
        for part in parts:
            path = part.place
            if path.name.startswith("rollout-"):
                at = 1 if path.parent.name == "archived_sessions" else 4
                return path.parents[at]
        return None

    def place(self, relative: Path, copies: Mapping[Path, Path], maps: Maps) -> Path:
        if relative.name.startswith("rollout-"):
            for cwd in list(_cwds(copies[relative]))[:1]:
                _here(cwd, maps)  # raises if no mapping covers it
        return relative

    def line(self, line: bytes, maps: Maps) -> bytes:
        if not any(word in line for word in _WHERE) or b'"response_item"' in line[:200]:
            return line
        line = _CWD.sub(lambda found: _with(found, _mapped_text(found[1], maps)), line)
        return _ROOTS.sub(
            lambda found: _with(
                found, _TEXT.sub(lambda each: _mapped_text(each[0], maps), found[1])
            ),
            line,
        )


#: By the name of the agent's format.
MOVING: Mapping[str, Moving] = {"claude-code": ClaudeCode(), "codex": Codex()}


def move(
    moving: Moving, record: UnitRecord, root: Path, maps: Maps, *, into: Path, number: int
) -> None:
    """Turn the unpacked parts of a unit into copies that belong below `root`. `into` is their
    folder in the trash; its record is written last."""
    kept = [slot for slot in record.slots if _goes_along(slot.part)]
    old = moving.root(slot.part for slot in kept)
    if old is None:
        raise CannotMoveError("it has no transcript")
    inside = [slot for slot in kept if slot.part.place.is_relative_to(old)]
    copies = {slot.part.place.relative_to(old): slot.copy for slot in inside}
    moved = []
    make_private_dir(into)
    owner = root.stat()
    for index, slot in enumerate(inside):
        place = root / moving.place(slot.part.place.relative_to(old), copies, maps)
        kind = FolderPart if isinstance(slot.part, FolderPart) else FilePart
        part = kind(path=place, role=slot.part.role)
        new = replace(slot, number=number, index=index, part=part, folder=into)
        moved.append((slot.copy, new))
    slots = []
    for copy, new in moved:
        times = _times_of_folders(copy)
        for file in [copy] if not is_folder(copy) else below(copy):
            # A copy in the trash is named by number.
            if (new.part.place if file == copy else file).suffix == ".jsonl":
                _rewrite(moving, file, maps)
        for each in [copy, *(below(copy) if is_folder(copy) else ())]:
            give_to(each, owner.st_uid, owner.st_gid)
        for folder, at in times.items():
            os.utime(folder, ns=at)
        copy.rename(new.copy)
        tree = measure(new.copy)
        slots.append(replace(new, stamp="" if tree is None else tree.stamp))
    cwd = mapped(record.unit.cwd, maps) or record.unit.cwd
    unit = replace(record.unit, cwd=cwd, parts=tuple(slot.part for slot in slots))
    sync_dir(into)
    done = UnitRecord(number=number, unit=unit, slots=tuple(slots))
    BatchRecord(folder=into, records={number: done}, state=State.DROPPED).write()


def _goes_along(part: Part) -> bool:
    """True if a file is part of the session itself. A lock is not: it belongs to a process on the
    other machine."""
    return (
        isinstance(part, FilePart | FolderPart)
        and part.role is not Role.TRACE
        and part.path.suffix != ".lock"
    )


def _rewrite(moving: Moving, file: Path, maps: Maps) -> None:
    """Rewrite the lines that need it. A file without such a line stays untouched, including its
    mtime: agents sort by it."""
    status = file.lstat()
    aside = file.with_name(f"{file.name}.moved")
    changed = False
    with file.open("rb") as old, aside.open("xb") as new:
        for line in old:
            made = moving.line(line, maps)
            changed = changed or made != line
            new.write(made)
        new.flush()
        os.fsync(new.fileno())
    if not changed:
        aside.unlink()
        return
    aside.chmod(status.st_mode & 0o7777)
    os.utime(aside, ns=(status.st_atime_ns, status.st_mtime_ns))
    aside.replace(file)


def _times_of_folders(copy: Path) -> Mapping[Path, tuple[int, int]]:
    """The mtimes of folders, which rewriting a transcript must not change: a session counts as used
    when one of its folders changes, and copying is not using."""
    if not is_folder(copy):
        return {}
    folders = [copy, *(each for each in below(copy) if is_folder(each))]
    found = {each: each.stat() for each in folders}
    return {each: (at.st_atime_ns, at.st_mtime_ns) for each, at in found.items()}


def _cwds(file: Path) -> Sequence[str]:
    """The distinct working directories in a transcript."""
    found: dict[str, None] = {}
    with file.open("rb") as lines:
        for line in lines:
            for each in _CWD.finditer(line):
                found[str(json.loads(each[1]))] = None
    return list(found)


def _here(cwd: str, maps: Maps) -> str:
    new = mapped(cwd, maps)
    if new is None:
        raise CannotMoveError(f"there is no mapping for {cwd}; add --map {cwd}=DIR")
    return new


def _folder_of(cwd: str) -> str:
    name = re.sub(r"[^A-Za-z0-9]", "-", cwd)
    if len(name) > _LONGEST:
        raise CannotMoveError(f"the path {cwd} is too long for a folder of Claude Code")
    return name


def _mapped_text(text: bytes, maps: Maps) -> bytes:
    """A JSON string, mapped if it is a path that `maps` covers; otherwise byte for byte the
    same."""
    old = json.loads(text)
    new = mapped(old, maps) if isinstance(old, str) else None
    return text if new is None else json.dumps(new, ensure_ascii=False).encode("utf-8", "replace")


def _with(found: re.Match[bytes], inner: bytes) -> bytes:
    whole, start = found[0], found.start(0)
    return whole[: found.start(1) - start] + inner + whole[found.end(1) - start :]


def _differ_in_cwd(one: bytes, other: bytes) -> bool:
    """True if only the record's own field `cwd` differs."""
    try:
        old, new = json.loads(one), json.loads(other)
    except ValueError:
        return False
    return isinstance(old, dict) and {**old, "cwd": None} == {**new, "cwd": None}
