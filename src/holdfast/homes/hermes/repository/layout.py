"""Where Hermes keeps checkpoints, records and references, and where Holdfast keeps notes on them.

checkpoints/store/                     a bare git repository that Hermes made
checkpoints/store/refs/hermes/<hash>   the newest checkpoint of a project; its parents are older
checkpoints/store/indexes/<hash>       the project's index, which Hermes rebuilds each time
checkpoints/store/projects/<hash>.json its directory, and when it was first and last used
checkpoints/store/shallow              where a chain ends although its last commit has a parent
checkpoints/legacy-<time>/<hash>/      an older layout: one repository per directory

Holdfast writes only references under `refs/holdfast-trash/` and the file `shallow` there, which git
and therefore Hermes understand.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from holdfast.errors import DamageError
from holdfast.model.json_value import NO_RECORD, JsonValue, fields_to_json
from holdfast.stores.checkpoints.repository import Layout
from holdfast.stores.files import read_file, storage_errors, sync_dir
from holdfast.stores.git.program import Git
from holdfast.stores.git.refs import each_ref
from holdfast.value import dataclass

FOLDER = "checkpoints"
REFS = "refs/hermes/"
#: Distinguishes Hermes's projects from those that Holdfast itself takes checkpoints of.
PROJECT_PREFIX = "hermes-"

#: The name of a project's reference, record and index.
PROJECT = re.compile(r"[0-9a-f]{16}")

#: Locks, half-written files, and files of file systems and desktops.
PASSING = re.compile(r"\..*|.*\.(?:lock|new|tmp)|tmp_.*|.*~|Thumbs\.db")


@dataclass(frozen=True, slots=True, kw_only=True)
class HermesLayout(Layout):
    """`folder` is the checkpoint folder of Hermes, `notes` a folder of Holdfast. Objects and
    references are where git keeps them, as in a store of Holdfast."""

    notes: Path

    @property
    def records(self) -> Path:
        return self.store / "projects"

    @property
    def indexes(self) -> Path:
        return self.store / "indexes"

    def git(self) -> Git:
        return Git(store=self.store, private=False)

    def exists(self) -> bool:
        return (self.store / "HEAD").is_file() and (self.store / "objects").is_dir()


@dataclass(frozen=True, slots=True, kw_only=True)
class HermesRecord(JsonValue):
    """A project as Hermes recorded it. `text` is the whole file, which may hold more."""

    workdir: str
    created_at: float
    last_touch: float
    text: str = ""


def read_records(layout: HermesLayout) -> Mapping[str, HermesRecord]:
    """Every record that can be read, by project."""
    try:
        names = sorted(path.stem for path in layout.records.iterdir() if path.suffix == ".json")
    except (FileNotFoundError, NotADirectoryError):
        return {}
    found = {name: read_record(layout, name) for name in names if PROJECT.fullmatch(name)}
    return {name: record for name, record in found.items() if record is not None}


def read_record(layout: HermesLayout, project: str) -> HermesRecord | None:
    """The record; None if it is missing or unreadable."""
    try:
        return parse_record(read_file(layout.records / f"{project}.json"))
    except OSError:
        return None


def parse_record(data: bytes) -> HermesRecord | None:
    """Parse a record; None if it is damaged or names no directory."""
    try:
        text = data.decode("utf-8")
        said = json.loads(text)
        times = [float(said.get(key) or 0.0) for key in ("created_at", "last_touch")]
        workdir = said["workdir"]
    except NO_RECORD:
        return None
    usable = isinstance(workdir, str) and workdir and "\0" not in workdir
    if not usable or not all(map(math.isfinite, times)):
        return None
    return HermesRecord(workdir=workdir, created_at=times[0], last_touch=times[1], text=text)


def bring_back_record(layout: HermesLayout, project: str, record: HermesRecord) -> None:
    """Restore a record as Hermes had it, unless there is a newer one."""
    path = layout.records / f"{project}.json"
    if path.exists():
        return
    known = fields_to_json(record, without=("text",))
    with storage_errors(f"write {path}"):
        layout.records.mkdir(exist_ok=True)
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        temporary.write_bytes((record.text or json.dumps(known)).encode("utf-8", "surrogateescape"))
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path)
        temporary.unlink()
        sync_dir(layout.records)


def remove_record(layout: HermesLayout, project: str, known: HermesRecord | None) -> None:
    """Remove the record of a project without checkpoints, unless Hermes has changed it since."""
    if known is not None and read_record(layout, project) == known:
        path = layout.records / f"{project}.json"
        with storage_errors(f"remove {path}"):
            path.unlink(missing_ok=True)


def forget_indexes(layout: HermesLayout, tips: Collection[str], *, before: float) -> None:
    """Remove the indexes of projects without checkpoints. This must happen before the objects that
    they name are removed: Hermes would trust them. A recently touched index may belong to a first
    checkpoint in progress."""
    with (
        storage_errors(f"clear {layout.indexes}"),
        contextlib.suppress(FileNotFoundError, NotADirectoryError),
    ):
        for path in layout.indexes.iterdir():
            if PROJECT.fullmatch(path.name) and path.name not in tips:
                with contextlib.suppress(FileNotFoundError):
                    if path.stat().st_mtime <= before:
                        path.unlink()


def tips_of(layout: HermesLayout) -> Iterator[tuple[str, str]]:
    """Each project with its newest checkpoint, without references that git cannot read."""
    for ref, commit in each_ref(layout.git(), REFS):
        project = ref.removeprefix(REFS)
        if PROJECT.fullmatch(project):
            yield project, commit


def unreadable(layout: HermesLayout) -> list[str]:
    """Projects whose reference cannot be read."""
    with storage_errors(f"read the references of {layout.store}"):
        there = {name for name in named(layout.store) if PROJECT.fullmatch(name)}
    # Listed again afterwards: a reference that Hermes removes in between is not in the second list,
    # and one that it adds is not in the first.
    lost = there - dict(tips_of(layout)).keys()
    with storage_errors(f"read the references of {layout.store}"):
        return sorted(lost & set(named(layout.store)))


def check_readable(layout: HermesLayout) -> None:
    """Raise `DamageError` if a reference cannot be read: its objects would count as unneeded."""
    lost = unreadable(layout)
    if lost:
        raise DamageError(
            f"The reference {REFS}{lost[0]} in {layout.store} cannot be read; no space is freed"
            " while it is damaged, because what it pointed to is unknown.",
            hint="`holdfast checkpoints verify` names all damage.",
        )


def named(store: Path) -> Iterator[str]:
    """The names below `refs/hermes/`, read without git: git skips references that it cannot read,
    and may not understand the store at all."""
    folder = store / REFS
    for path in sorted(folder.rglob("*")) if folder.is_dir() else ():
        name = str(path.relative_to(folder))
        if not path.is_dir() and not PASSING.fullmatch(path.name):
            yield name
    try:
        lines = read_file(store / "packed-refs").decode("utf-8", "replace").splitlines()
    except FileNotFoundError:
        return
    for line in lines:
        name = line.partition(" ")[2]
        if name.startswith(REFS) and not line.startswith("#"):
            yield name.removeprefix(REFS)
