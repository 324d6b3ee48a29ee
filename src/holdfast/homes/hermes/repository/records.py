"""What Hermes notes of a project: its directory, and when it was first and last used."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from holdfast.homes.hermes.repository.layout import HermesLayout
from holdfast.stores.files import read_file, storage_errors, sync_dir

#: The name of a project's reference, record and index.
PROJECT = re.compile(r"[0-9a-f]{16}")


@dataclass(frozen=True, slots=True, kw_only=True)
class HermesRecord:
    """A project as Hermes's file says it. `text` is all of it: there may be more than we know."""

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
    """The record; None when there is none that can be read."""
    try:
        return parse(read_file(layout.records / f"{project}.json"))
    except OSError:
        return None


def parse(data: bytes) -> HermesRecord | None:
    """What such a file says; None for one that is damaged, or that names no directory."""
    try:
        text = data.decode("utf-8")
        said = json.loads(text)
        times = [float(said.get(key) or 0.0) for key in ("created_at", "last_touch")]
        workdir = said["workdir"]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
        return None
    usable = isinstance(workdir, str) and workdir and "\0" not in workdir
    if not usable or not all(map(math.isfinite, times)):
        return None
    return HermesRecord(workdir=workdir, created_at=times[0], last_touch=times[1], text=text)


def bring_back_record(layout: HermesLayout, project: str, record: HermesRecord) -> None:
    """Write a record as Hermes had it, unless there is one: it knows better by now."""
    path = layout.records / f"{project}.json"
    if path.exists():
        return
    known = {
        "workdir": record.workdir,
        "created_at": record.created_at,
        "last_touch": record.last_touch,
    }
    with storage_errors(f"write {path}"):
        layout.records.mkdir(exist_ok=True)
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        temporary.write_bytes((record.text or json.dumps(known)).encode("utf-8", "surrogateescape"))
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path)
        temporary.unlink()
        sync_dir(layout.records)


def remove_record(layout: HermesLayout, project: str, known: HermesRecord | None) -> None:
    """The record of a project without a checkpoint, unless Hermes wrote it since it was noted."""
    if known is not None and read_record(layout, project) == known:
        path = layout.records / f"{project}.json"
        with storage_errors(f"remove {path}"):
            path.unlink(missing_ok=True)


def forget_indexes(layout: HermesLayout, tips: Collection[str], *, before: float) -> None:
    """Remove the indexes of projects without a checkpoint, before what they name is removed: Hermes
    would trust them. One that was touched lately belongs to a first checkpoint under way."""
    with (
        storage_errors(f"clear {layout.indexes}"),
        contextlib.suppress(FileNotFoundError, NotADirectoryError),
    ):
        for path in layout.indexes.iterdir():
            if PROJECT.fullmatch(path.name) and path.name not in tips:
                with contextlib.suppress(FileNotFoundError):
                    if path.stat().st_mtime <= before:
                        path.unlink()
