"""What can be wrong with the place a home lies in: it is full, read-only, shut, or out of time."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

from holdfast.policy.rules import DAY
from tests.crash.bad_day_world import NOW

#: Places that a person, or a backup program, may take the rights from.
PLACES = (
    "home",
    "home/sessions",
    "home/sessions.db",
    "home/operations",
    "home/trash",
    "home/archive",
    "home/checkpoints",
    "home/checkpoints/store",
    "home/checkpoints/store/objects",
    "home/checkpoints/store/refs",
    "home/checkpoints/store/worktrees",
    "project",
    "project/folder",
)
_PIECE = 4096
_TEN_YEARS = 3_650 * DAY
#: By what it is called: how to bring it about around a world, and what time it is then.
Fault = tuple[Callable[[Path], AbstractContextManager[None]], float]


@contextlib.contextmanager
def read_only(root: Path) -> Iterator[None]:
    disk = root.parent
    _remount(disk, "ro")
    try:
        yield
    finally:
        _remount(disk, "rw")


def _remount(disk: Path, how: str) -> None:
    subprocess.run(["mount", "-o", f"remount,bind,{how}", str(disk)], check=True)


def full(left: int) -> Callable[[Path], AbstractContextManager[None]]:
    """So many bytes are left: enough to begin with, perhaps, and not to end."""

    @contextlib.contextmanager
    def filled(root: Path) -> Iterator[None]:
        filler = root.parent / "filler"
        with filler.open("wb", buffering=0) as file:
            with contextlib.suppress(OSError):
                while True:
                    file.write(bytes(_PIECE))
            file.truncate(max(0, file.tell() - left))
        try:
            yield
        finally:
            filler.unlink()

    return filled


def without_rights(place: str) -> Callable[[Path], AbstractContextManager[None]]:
    @contextlib.contextmanager
    def shut(root: Path) -> Iterator[None]:
        path = root / place
        inside = [path, *(each for each in path.rglob("*") if each.is_dir())]
        modes = {each: each.stat().st_mode for each in inside}
        for each in reversed(inside):
            each.chmod(modes[each] & ~0o222)
        try:
            yield
        finally:
            # What came beside it meanwhile was made with its rights, as SQLite does it.
            for each in (*inside, *path.parent.glob(f"{path.name}-*")):
                if os.path.lexists(each):
                    each.chmod(modes.get(each, modes[path]))

    return shut


def nothing(root: Path) -> AbstractContextManager[None]:
    return contextlib.nullcontext()


DISK: Mapping[str, Fault] = {
    "read-only": (read_only, NOW),
    **{f"{left} bytes left": (full(left), NOW) for left in (0, 16_384, 65_536, 262_144)},
}
CLOCK: Mapping[str, Fault] = {
    "ten years on": (nothing, NOW + _TEN_YEARS),
    "ten years back": (nothing, NOW - _TEN_YEARS),
    "before 1970": (nothing, -DAY),
}
RIGHTS: Mapping[str, Fault] = {place: (without_rights(place), NOW) for place in PLACES}
FAULTS: Mapping[str, Mapping[str, Fault]] = {"disk": DISK, "clock": CLOCK, "rights": RIGHTS}
