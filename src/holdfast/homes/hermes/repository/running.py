"""Whether a Hermes of this home may be running: asked before its references are moved.

Hermes moves a reference only from where it saw it. If we move it in between, its checkpoint is
lost: it tries again one turn later. So nothing that moves one is done beside it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from holdfast.homes.hermes.repository.layout import HermesLayout
from holdfast.stores import processes
from holdfast.stores.files import read_file

_PROCESSES = Path("/proc")
_OURS = ".holdfast"


def who_runs(layout: HermesLayout) -> str | None:
    """In words; None when nobody does. What cannot be known counts as running."""
    if not (_PROCESSES / "self" / "fd").is_dir():
        return "whether Hermes runs cannot be known on this system"
    if processes.hides_some():
        return "whether Hermes runs cannot be known: /proc hides the processes of others (hidepid)"
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
    """A Python with this home; a user's shell has the same environment and is none."""
    command = _read(process / "cmdline").split(b"\0")
    named = environment.get(b"HERMES_HOME")
    if named is not None:
        is_python = b"python" in command[0] or b"hermes" in b" ".join(command)
        return is_python and _is_same(Path(os.fsdecode(named)), home)
    usual = environment.get(b"HOME")
    if usual is None or not any(b"hermes" in word for word in command):
        return False
    return _is_same(Path(os.fsdecode(usual), ".hermes"), home)


def _opened_in(process: Path, home: Path) -> str | None:
    inside, ours = f"{home}/", f"{home}/{_OURS}/"
    try:
        descriptors = list((process / "fd").iterdir())
    except OSError:
        return "files that it does not show" if _may_be_hermes(process) else None
    for descriptor in descriptors:
        try:
            target = os.readlink(descriptor)  # noqa: PTH115 - as it is, not as a path
        except OSError:
            continue
        if target.startswith(inside) and not target.startswith(ours):
            return target
    return None


def _may_be_hermes(process: Path) -> bool:
    """Whether one that may not be looked into could be Hermes or its git: it belongs to another
    user, or does not let itself be traced. What it was started as can be read all the same."""
    command = _read(process / "cmdline").split(b"\0")
    if any(b"hermes" in word for word in command):
        return True
    try:
        ours = process.stat().st_uid == os.geteuid()
    except OSError:
        return False  # gone
    return ours and any(word in command[0] for word in (b"python", b"git"))


def _environment(process: Path) -> dict[bytes, bytes]:
    pairs = (line.partition(b"=") for line in _read(process / "environ").split(b"\0"))
    return {name: value for name, _, value in pairs}


def _read(path: Path) -> bytes:
    try:
        return read_file(path)
    except OSError:
        return b""


def _is_same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False
