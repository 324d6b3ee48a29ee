"""Kill a process at every call while it archives sessions, restores them, or drops their bundles.

`python -m tests.crash.archive_harness SCENARIO`, in the manner of `harness`.
"""

from __future__ import annotations

import io
import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from holdfast.homes.sessions.files import HomeSessionFiles
from holdfast.model.archive import Holds
from holdfast.model.session import SessionFilter
from holdfast.policy.plan_by_name import plan_all
from holdfast.services.exchange.session_import import import_sessions
from holdfast.spine.apply import apply
from holdfast.spine.settle import settle
from holdfast.spine.undo import undo
from holdfast.stores.sqlite.session_import import SqliteImport
from tests.archiving import (
    NOW,
    STAMPED,
    Everything,
    Files,
    a_stored_session,
    archive,
    bring,
    clock,
    everything,
    files,
    fill,
    folder_of,
    opened,
    store_of,
    with_files,
)
from tests.crash.harness import NEVER, Tally, points_of, run_killed, scratch
from tests.stored import remove_rows

ALL = ("leaf", "middle", STAMPED)


def make(root: Path) -> None:
    home = opened(root)
    fill(home, messages=3)
    a_stored_session(home)
    with_files(home, STAMPED)
    store_of(home).close()


def archive_some(root: Path) -> None:
    home = opened(root)
    archive(home, *ALL)
    store_of(home).close()


def restore_all(root: Path) -> None:
    home = opened(root)
    bring(home)
    store_of(home).close()


def undo_the_latest(root: Path) -> None:
    home = opened(root)
    undo(home, home.log.read().operations[-1].id, clock=clock)
    store_of(home).close()


def drop_bundles(root: Path) -> None:
    home = opened(root)
    items = home.archive.items()
    plan = plan_all(items, str(root), NOW, command="prune", reason="old", undoable=True)
    apply(plan, home, clock=clock)


def put_files_away(root: Path) -> None:
    home = opened(root)
    HomeSessionFiles(home, clock).archive(STAMPED)
    store_of(home).close()


def replace_some(root: Path) -> None:
    """What an import does with sessions that it replaces, in one transaction."""
    home = opened(root)
    store = store_of(home)
    lines = io.BytesIO(
        b"".join(
            json.dumps({"id": name, "source": "cli", "started_at": NOW, "messages": []}).encode()
            + b"\n"
            for name in ("leaf", STAMPED)
        )
    )
    with home.replacing("sessions import") as kept:
        import_sessions(SqliteImport(store, kept.keep), lines, replace=True, now=NOW)
    store.close()


def look(root: Path) -> tuple[Everything, Files]:
    home = opened(root)
    seen = everything(home), files(home)
    store_of(home).close()
    return seen


def settle_only(root: Path) -> None:
    home = opened(root)
    with home.log.writing("settle") as log:
        settle(log, home, clock=clock)
    store_of(home).close()


def places(root: Path) -> tuple[set[str], set[str], set[str]]:
    """The sessions in the store, in the archive, and in the trash of the archive: whole ones."""
    home = opened(root)
    folder = folder_of(home)
    in_archive = {
        each.session.id
        for each in home.archive.find(SessionFilter())
        if folder.verify(each.file).session.id == each.session.id
        if each.holds is Holds.SESSION
    }
    in_trash = {
        path.name.partition("-")[2].removesuffix(".tar.zst").removesuffix(".files")
        for path in root.glob("archive/.trash/*/*")
    }
    stored = set(everything(home))
    store_of(home).close()
    return stored, in_archive, in_trash


def verify(root: Path, original: tuple[Everything, Files]) -> None:
    """Nothing is lost; after settling each session is in exactly one place; all comes back."""
    sessions, original_files = original
    _take_back_replacements(root)
    stored, in_archive, in_trash = places(root)
    assert stored | in_archive | in_trash == sessions.keys(), "lost"
    assert original_files.items() >= look(root)[1].items() or _is_unfinished(root)
    settle_only(root)
    stored, in_archive, in_trash = places(root)
    assert stored | in_archive | in_trash == sessions.keys(), "lost while settling"
    assert not stored & in_archive, "in the store and in the archive"
    assert not in_archive & in_trash, "in the archive and in its trash"
    assert not list(root.rglob("*.tmp")), "something half-made was left behind"
    home = opened(root)
    assert not home.archive.problems()
    catalogued = {each.file for each in folder_of(home).catalogue.entries()}
    there = {each.file for each in home.archive.find(SessionFilter())}
    assert catalogued == there, "the catalogue does not say what is there"
    assert all(each.finished_at is not None for each in home.log.read().operations)
    for operation in reversed(home.log.read().operations):
        if operation.in_trash and in_trash:
            undo(home, operation.id, clock=clock)
            in_trash = set()
    bring(home)
    store_of(home).close()
    assert look(root) == original, "not everything came back"


def _take_back_replacements(root: Path) -> None:
    """A session that was replaced is in the archive: the new one makes room for it."""
    home = opened(root)
    store = store_of(home)
    for name in (each.id for each in store.find(SessionFilter()) if each.started_at == NOW):
        assert name in {each.session.id for each in home.archive.find(SessionFilter())}, "lost"
        remove_rows(store, name)
    store.close()


def _is_unfinished(root: Path) -> bool:
    return any(each.finished_at is None for each in opened(root).log.read().operations)


@dataclass(frozen=True)
class Scenario:
    killed: Callable[[Path], None]
    before: tuple[Callable[[Path], None], ...] = ()


SCENARIOS = {
    "archive": Scenario(archive_some),
    "undo": Scenario(undo_the_latest, (archive_some,)),
    "restore": Scenario(restore_all, (archive_some,)),
    "drop": Scenario(drop_bundles, (archive_some,)),
    "undo-drop": Scenario(undo_the_latest, (archive_some, drop_bundles)),
    "files": Scenario(put_files_away),
    "undo-files": Scenario(undo_the_latest, (put_files_away,)),
    "restore-files": Scenario(restore_all, (put_files_away,)),
    "replace": Scenario(replace_some),
}


def fresh(root: Path) -> None:
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(root.with_name("pattern"), root, symlinks=True)


def main(name: str, times: str = "once", every: str = "1") -> None:
    """Killed once at each EVERY-th call that differs from those before. With `twice`, at each, and
    again at each EVERY-th of settling: after each first kill another one is the first, so every
    call is met."""
    tally, killed = Tally(), SCENARIOS[name].killed
    with scratch() as place:
        root = place / "home"
        (place / "original").mkdir()
        make(place / "original")
        original = look(place / "original")
        shutil.copytree(place / "original", place / "pattern", symlinks=True)
        for step in SCENARIOS[name].before:
            step(place / "pattern")
        fresh(root)
        points = points_of(killed, root)
        if times == "once":
            for kill_at in (*points[:: int(every)], NEVER):
                fresh(root)
                tally.kills += not run_killed(killed, root, kill_at)
                verify(root, original)
                tally.states += 1
        else:
            for number, kill_at in enumerate(points):
                fresh(root)
                run_killed(killed, root, kill_at)
                settling = points_of(settle_only, root)
                for settle_at in settling[number % int(every) :: int(every)]:
                    fresh(root)
                    tally.kills += not run_killed(killed, root, kill_at)
                    tally.kills += not run_killed(settle_only, root, settle_at)
                    verify(root, original)
                    tally.states += 1
    tally.tell()


if __name__ == "__main__":
    main(*sys.argv[1:])
