"""The main screens as text: what the command prints at 60, 80 and 120 columns and into a pipe.

    .venv/bin/python -m tests.cli.screens       writes them to tests/data/screens

Run that after a screen changed on purpose, and read what changed. The commands run in this process,
on a sample home and on the homes of six agents, at a time that stands still.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import holdfast
from holdfast.cli.demo_home import build
from holdfast.cli.show_checkpoints import show_list, show_older, show_projects
from holdfast.cli.show_growth import show_growth
from holdfast.model.checkpoint import Checkpoint, Project, ProjectState
from holdfast.model.figures import HomeFigures
from holdfast.model.item import LEGACY, Item
from holdfast.policy.growth import growth
from tests.cli import scenes
from tests.cli.every_command import Said, captured, say

FOLDER = Path(__file__).parents[1] / "data" / "screens"
#: None is a pipe.
WIDTHS = (60, 80, 120, None)
_OWN = ".holdfast"
_BLOCK = 4096
_HOUR = 3600.0
_DAY = 24 * _HOUR

#: Screens of one home; `{bread}` is a session in it.
OWN = {
    "status": "status",
    "list": "sessions list --limit 8",
    "list-by-cost": "sessions list --sort cost --limit 4",
    "list-archived": "sessions list --archived --limit 4",
    "show": "sessions show {bread}",
    "show-ambiguous": "sessions show 2026",
    "search": "sessions search disk --limit 2",
    "search-next": "sessions search disk --limit 2 --offset 2",
    "stats": "sessions stats",
    "stats-cost": "sessions stats --cost",
    "prune": "sessions prune --dry-run",
    "prune-all-items": "sessions prune --source subagent --dry-run --all",
    "gc": "sessions gc --dry-run",
    "delete": "sessions delete {bread} --dry-run",
    "archive": "sessions archive --source telegram --older-than 180d --dry-run",
    "restore": "sessions restore --all --dry-run",
    "maintain": "maintain --dry-run",
    "log": "log",
    "trash": "trash list",
}
#: Screens of a command that changes the home: each run has a home of its own.
CHANGING = {
    "pruned": "sessions prune --source telegram --yes",
    "archived": "sessions archive --source cli --older-than 200d --yes",
    "deleted-for-good": "sessions delete {bread} --now --yes",
}
#: Screens of all homes of a machine.
MACHINE = {
    "machine-status": "status",
    "machine-list": "sessions list --limit 12",
    "machine-stats": "sessions stats",
    "machine-several": "sessions prune --dry-run",
}


def written() -> Iterator[tuple[str, str]]:
    """Every screen by its name."""
    _preload()
    with patched_blocks():
        yield from _of_one_home()
        yield from _of_a_machine()
    yield from _of_checkpoints()
    yield from _of_growth()


def _of_one_home() -> Iterator[tuple[str, str]]:
    with user() as home, standing_still(home, scenes.NOW):
        bread = build(home / _OWN, scenes.NOW)
        kept = home.with_name(f"{home.name}-kept")
        for name, words in CHANGING.items():
            yield name, _at_all_widths(home, words.format(bread=bread), before=_fresh(home, kept))
        _fresh(home, kept)()
        shutil.rmtree(kept)
        say("sessions", "archive", "--source", "discord", "--older-than", "160d", "--yes")
        say("sessions", "prune", "--source", "cli", "--yes")
        say("sessions", "prune", "--source", "subagent", "--older-than", "30d", "--yes")
        for name, words in OWN.items():
            yield name, _at_all_widths(home, words.format(bread=bread))


def _fresh(home: Path, kept: Path) -> Callable[[], None]:
    """What makes the home what it was."""
    if not kept.exists():
        shutil.copytree(home / _OWN, kept, symlinks=True)

    def again() -> None:
        shutil.rmtree(home / _OWN)
        shutil.copytree(kept, home / _OWN, symlinks=True)

    return again


def _of_a_machine() -> Iterator[tuple[str, str]]:
    with user() as home, standing_still(home, scenes.LATER):
        scenes.machine(home)
        for name, words in MACHINE.items():
            yield name, _at_all_widths(home, words)


def _of_checkpoints() -> Iterator[tuple[str, str]]:
    now = scenes.NOW
    for name, shown in {
        "checkpoints-list": lambda: show_list(_CHECKPOINTS, now, places=False),
        "checkpoints-list-all-projects": lambda: show_list(_CHECKPOINTS, now, places=True),
        "checkpoints-projects": lambda: show_projects(_PROJECTS, now, limit=4),
        "checkpoints-older": lambda: show_older(_OLDER, {_OLDER[1].id: _PROJECTS[0]}, now),
    }.items():
        with standing_still(Path("/"), now):
            yield name, _sections(lambda shown=shown: captured(shown))  # type: ignore[misc]


def _of_growth() -> Iterator[tuple[str, str]]:
    """As values, too: how much room there is depends on the disk."""

    def shown() -> None:
        for sizes, free in (
            ((310, 330, 370, 420, 420, 460, 500, 390, 430, 480, 520, 570, 610, 655), 30_000),
            ((100, 200, 300, 400, 500, 600, 700), 1_500),
            ((900, 800, 850, 700, 300, 250, 200), 90_000),
            ((500, 500, 500), 90_000),
            ((500, 600), 90_000),  # too little is known
        ):
            looks = [
                HomeFigures(
                    at=scenes.NOW - (len(sizes) - 1 - place) * _DAY,
                    bytes=size * 10**6,
                    disk_free=free * 10**6,
                )
                for place, size in enumerate(sizes)
            ]
            show_growth(growth(looks, scenes.NOW))

    with standing_still(Path("/"), scenes.NOW):
        yield "growth", _sections(lambda: captured(shown))


def _at_all_widths(home: Path, words: str, before: Callable[[], None] = lambda: None) -> str:
    def run() -> Said:
        before()
        return say(*words.split())

    return f"$ holdfast {words}\n" + _sections(run).replace(str(home), scenes.USER)


def _sections(run: Callable[[], Said]) -> str:
    parts = []
    for width in WIDTHS:
        with environment({} if width is None else {"COLUMNS": str(width)}):
            said = run()
        parts.append(f"\n=== {'pipe' if width is None else f'{width} columns'} ===\n")
        parts.append(said.out.decode())
        if said.err:
            parts.append(f"--- stderr ---\n{said.err.decode()}")
        if said.code:
            parts.append(f"--- exit {said.code} ---\n")
    return "".join(parts)


# --- A world that does not depend on where and when ----------------------------------------------


@contextmanager
def user() -> Iterator[Path]:
    """A home directory whose path is as long as the one that the screens name."""
    made = Path(tempfile.mkdtemp(prefix="", dir="/tmp"))
    assert len(str(made)) == len(scenes.USER)
    try:
        yield made
    finally:
        shutil.rmtree(made)


@contextmanager
def standing_still(home: Path, now: float) -> Iterator[None]:
    before = Path.cwd()
    with (
        patch("time.time", lambda: now),
        environment({"HOME": str(home), "TZ": "UTC", "PATH": os.environ.get("PATH", os.defpath)}),
    ):
        time.tzset()
        os.chdir(home)
        try:
            yield
        finally:
            os.chdir(before)
    time.tzset()


@contextmanager
def environment(more: Mapping[str, str]) -> Iterator[None]:
    """The environment of the user who runs a command, and nothing of the machine's own."""
    kept = {name: os.environ[name] for name in ("HOME", "TZ", "PATH") if name in os.environ}
    with patch.dict(os.environ, {**kept, **more}, clear=True):
        yield


@contextmanager
def patched_blocks() -> Iterator[None]:
    """Every file system counts in blocks of the same size here."""
    name = "allocated_bytes"

    def blocks(status: os.stat_result, doubled: object = ()) -> int:
        return -(-status.st_size // _BLOCK) * _BLOCK

    modules = [each for key, each in sys.modules.items() if key.startswith("holdfast.")]
    before = {module: vars(module)[name] for module in modules if name in vars(module)}
    for module in before:
        setattr(module, name, blocks)
    try:
        yield
    finally:
        for module, own in before.items():
            setattr(module, name, own)


def _preload() -> None:
    """All modules, so that none keeps a patched function."""
    for module in pkgutil.walk_packages(holdfast.__path__, "holdfast."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)


# --- Checkpoints, as values: their ids depend on the path of their project -----------------------


@dataclass(frozen=True, slots=True)
class _Taken:
    id: str
    hours: float
    reason: str


def _checkpoint(taken: _Taken, number: int) -> Checkpoint:
    return Checkpoint(
        id=taken.id,
        project="0" * 16,
        tree="0" * 40,
        time=scenes.NOW - taken.hours * _HOUR,
        reason=taken.reason,
        workdir=f"{scenes.USER}/work/customers/a-rather-long-name/site",
        session="20261115_080000_6995d1" if number else None,
        turn=str(number) if number else None,
        name="works on all machines" if number == 2 else None,
        pinned=number == 3,
        files_changed=3**number,
        insertions=10**number,
        deletions=2 * number,
    )


_CHECKPOINTS = [
    _checkpoint(taken, number)
    for number, taken in enumerate(
        (
            _Taken("3f2a1b9c77e0d2aa3f2a1b9c77e0d2aa3f2a1b9c", 0.1, "by hand"),
            _Taken("77e0d2aa3f2a1b9c77e0d2aa3f2a1b9c77e0d2aa", 2, "before write_file"),
            _Taken("9014d36c38f79014d36c38f79014d36c38f79014", 30, "before the agent changed it"),
            _Taken("aa0d2aa3f2a1b9c77e0d2aa3f2a1b9c77e0d2aab", 300, "before shell: rm -r build"),
        )
    )
]
_PROJECTS = [
    Project(
        id=f"{number:016x}",
        workdir=f"{scenes.USER}/{path}",
        state=state,
        checkpoints=7**number,
        last_touch=scenes.NOW - 3**number * _DAY,
        bytes=1234**number,
    )
    for number, (path, state) in enumerate(
        (
            ("work/customers/a-rather-long-name/site", ProjectState.LIVE),
            ("work/shop", ProjectState.STALE),
            ("moved/with/its/folder", ProjectState.UNKNOWN),
            (
                "work/a/folder/that/is/deep/in/other/folders/and/is/gone",
                ProjectState.MISSING,
            ),
            ("disk/usb", ProjectState.UNMOUNTED),
        )
    )
]
_OLDER = [
    Item(kind=LEGACY, id=name, bytes=size, last_active_at=scenes.NOW - 40 * _DAY, version="")
    for name, size in (("legacy-20261006_120000", 12_345_678), ("0123456789abcdef", 45_678))
]


def main() -> None:
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    for name, text in written():
        (FOLDER / f"{name}.txt").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
