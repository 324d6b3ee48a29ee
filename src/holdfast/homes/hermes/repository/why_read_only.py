"""Reasons not to change Hermes's checkpoint store: an unknown layout, or a running Hermes.

Hermes writes no version into its store, so the content has to serve instead: names that neither git
nor a known Hermes creates, references in another form, a newer git format. Such a store is
read-only for us.

Hermes moves a reference only from the value it read. If Holdfast moves it in between, Hermes loses
a checkpoint and retries one turn later. So nothing that moves a reference runs while Hermes does.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

from holdfast.errors import SchemaError
from holdfast.homes.hermes.repository.layout import PASSING, PROJECT, REFS, HermesLayout, named
from holdfast.stores import processes
from holdfast.stores.files import read_file, storage_errors

#: The files and folders that git and Hermes create in the store.
_NAMES = frozenset(
    {
        "branches",
        "COMMIT_EDITMSG",
        "config",
        "config.worktree",
        "description",
        "FETCH_HEAD",
        "gc.log",
        "gc.pid",
        "HEAD",
        "HERMES_WORKDIR",
        "hooks",
        "index",
        "indexes",
        "info",
        "lfs",
        "logs",
        "MERGE_HEAD",
        "modules",
        "objects",
        "ORIG_HEAD",
        "packed-refs",
        "projects",
        "refs",
        "shallow",
        "worktrees",
    }
)
_OUR_PREFIX = "holdfast-"
_VERSION_KEYS = ("version", "format", "schema", "layout")
_EXTENSIONS = re.compile(r"^\s*\[extensions\b", re.IGNORECASE | re.MULTILINE)
_GIT_FORMAT = re.compile(r"^\s*repositoryformatversion\s*=\s*(\S+)", re.IGNORECASE | re.MULTILINE)

_PROCESSES = Path("/proc")
_OUR_FOLDER = ".holdfast"


def doubt(layout: HermesLayout) -> str | None:
    """Why this store must not be changed; None if its layout is known."""
    with storage_errors(f"look at {layout.store}"):
        return next(_doubts(layout), None)


def check_known(layout: HermesLayout) -> None:
    """Raise `SchemaError` if the store may only be read."""
    why = doubt(layout)
    if why is not None:
        raise SchemaError(
            f"{layout.store} is not changed: {why}.",
            hint="What only reads still works, and so does `holdfast checkpoints import`."
            " Upgrade Holdfast to change it.",
        )


def _doubts(layout: HermesLayout) -> Iterator[str]:
    for path in sorted(layout.store.iterdir()):
        if not (
            path.name in _NAMES or path.name.startswith(_OUR_PREFIX) or PASSING.fullmatch(path.name)
        ):
            yield f"it holds {path.name!r}, which no known version of Hermes creates"
    for path in sorted(layout.folder.glob("store?*")):
        yield f"next to it is {path.name!r}, which no known version of Hermes creates"
    yield from _in_git(layout.store / "config")
    for name in named(layout.store):
        if not PROJECT.fullmatch(name):
            yield f"its reference {REFS}{name} has an unknown form"
    yield from _in_records(layout.records)


def _in_git(config: Path) -> Iterator[str]:
    try:
        text = read_file(config).decode("utf-8", "replace")
    except FileNotFoundError:
        return
    if any(version != "0" for version in _GIT_FORMAT.findall(text)) or _EXTENSIONS.search(text):
        yield "its git format is newer than Holdfast supports"


def _in_records(folder: Path) -> Iterator[str]:
    for path in sorted(folder.glob("*.json")) if folder.is_dir() else ():
        try:
            data = json.loads(read_file(path))
        except (OSError, ValueError, RecursionError):
            continue  # damage, which `verify` reports
        if isinstance(data, dict) and not data.keys().isdisjoint(_VERSION_KEYS):
            yield f"{path.name} names another format"


def who_runs(layout: HermesLayout) -> str | None:
    """Why Hermes may be running, as a message; None if it is not. Unknown counts as running."""
    if not (_PROCESSES / "self" / "fd").is_dir():
        return "this system does not show whether Hermes is running"
    if processes.hides_some():
        return (
            "it is unknown whether Hermes is running: /proc hides other users' processes (hidepid)"
        )
    home = layout.folder.parent
    for process in _others():
        why = _why(process, home, layout.store)
        if why is not None:
            return f"Hermes may be running (process {process.name}, {why})"
    return None


def _others() -> Iterator[Path]:
    mine = str(os.getpid())
    for path in _PROCESSES.iterdir():
        if path.name.isdecimal() and path.name != mine:
            yield path


def _why(process: Path, home: Path, store: Path) -> str | None:
    environment = _environment(process)
    if environment.get(b"GIT_DIR") == os.fsencode(store):
        return "which is git"
    if _is_hermes(process, environment, home):
        return "which has it as its home"
    opened = _opened_in(process, home)
    return None if opened is None else f"which has {opened} open"


def _is_hermes(process: Path, environment: dict[bytes, bytes], home: Path) -> bool:
    """A Python process with this home. A user's shell with the same environment is not Hermes."""
    command = _proc_text(process / "cmdline").split(b"\0")
    named = environment.get(b"HERMES_HOME")
    if named is not None:
        is_python = b"python" in command[0] or b"hermes" in b" ".join(command)
        return is_python and _is_same(Path(os.fsdecode(named)), home)
    usual = environment.get(b"HOME")
    if usual is None or not any(b"hermes" in word for word in command):
        return False
    return _is_same(Path(os.fsdecode(usual), ".hermes"), home)


def _opened_in(process: Path, home: Path) -> str | None:
    inside, ours = f"{home}/", f"{home}/{_OUR_FOLDER}/"
    try:
        descriptors = list((process / "fd").iterdir())
    except OSError:
        return "files that it does not show" if _may_be_hermes(process) else None
    for descriptor in descriptors:
        try:
            target = os.readlink(descriptor)  # noqa: PTH115 - the raw string, not a path
        except OSError:
            continue
        if target.startswith(inside) and not target.startswith(ours):
            return target
    return None


def _may_be_hermes(process: Path) -> bool:
    """True if a process that hides its open files could be Hermes or its git: it belongs to another
    user, or cannot be traced. Its command line is readable anyway."""
    command = _proc_text(process / "cmdline").split(b"\0")
    if any(b"hermes" in word for word in command):
        return True
    try:
        ours = process.stat().st_uid == os.geteuid()
    except OSError:
        return False  # it ended in the meantime
    return ours and any(word in command[0] for word in (b"python", b"git"))


def _environment(process: Path) -> dict[bytes, bytes]:
    pairs = (line.partition(b"=") for line in _proc_text(process / "environ").split(b"\0"))
    return {name: value for name, _, value in pairs}


def _proc_text(path: Path) -> bytes:
    try:
        return read_file(path)
    except OSError:
        return b""


def _is_same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False
