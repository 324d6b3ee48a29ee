"""Every byte of a home is counted, once: what is shown adds up to what the disk holds."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.api.sessions import open_sessions
from holdfast.cli.commands.status import _what
from holdfast.config.reader import load
from holdfast.homes.options import ArchiveOptions
from holdfast.model.plan import Action
from holdfast.model.session import Message, SessionFilter
from holdfast.policy.cap_use import cap_uses
from holdfast.policy.lifecycle import SessionOptions, Transcript
from holdfast.policy.planner import plan
from holdfast.policy.rules import DAY, Caps, Limits, Policy
from holdfast.ports.home import Home
from holdfast.services.plans import archive_inventory, plan_archive, plan_delete
from holdfast.services.status import status
from holdfast.spine.apply import apply
from holdfast.spine.undo import undo
from tests.archiving import NOW, clock, opened
from tests.compat.hermes_sessions import NOW as HERMES_NOW
from tests.compat.hermes_sessions import OLD, pruned, recorded
from tests.compat.hermes_sessions import opened as opened_hermes

FEW = settings(
    max_examples=max(6, settings().max_examples // 16),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    deadline=None,
)
#: Where somebody may have left something.
PLACES = (
    "notes.txt",
    "sessions/notes.txt",
    "sessions/deep/er/notes.txt",
    "archive/notes.gz",
    "archive/20260101_000000_abcdef.jsonl.gz",
    "archive/.trash/7/0-lost.tar.zst",
    "trash/99/0-lost.json",
    "operations/notes.txt",
    "checkpoints/notes.txt",
    "deep/er/still/notes.txt",
)
STEPS = st.sampled_from(["talk", "reset", "archive", "delete", "undo"])
JUNK = st.dictionaries(st.sampled_from(PLACES), st.integers(0, 20_000), max_size=4)


def on_disk(root: Path, without: Sequence[Path] = ()) -> int:
    """What a person would add up: all that is no folder."""
    total = 0
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if Path(folder, name) not in without]
        total += sum(os.lstat(Path(folder, name)).st_blocks * 512 for name in names)
    return total


def litter(root: Path, junk: dict[str, int]) -> None:
    for place, size in junk.items():
        path = root / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(size))


def live(root: Path, steps: Sequence[str], archive: ArchiveOptions | None = None) -> None:
    """Some days in the life of a home."""
    options = SessionOptions(transcripts={"default": Transcript.JSONL})
    for number, step in enumerate(["talk", *steps]):
        home = opened(root, archive)
        moment = partial(float, NOW + number)  # a dump is named by its time
        with open_sessions(root, options=options, clock=moment) as sessions:
            if step in ("talk", "reset"):
                session = sessions.current("key", source="cli")
                text = f"{number} {os.urandom(2_000).hex()}"
                sessions.append(session.id, Message(role="user", content=text))
                sessions.dump_request(session.id, {"n": number})
                if step == "reset":
                    sessions.reset("key")
                continue
            ended = [each.id for each in sessions.find(SessionFilter(ended=True))]
        if step == "undo":
            for latest in home.log.read().operations[-1:]:
                if latest.in_trash:
                    undo(home, latest.id, clock=clock)
        elif ended:
            leave(home, ended[0], archived=step == "archive")


def leave(home: Home, name: str, *, archived: bool, now: float = NOW) -> None:
    if archived:
        made, _ = plan_archive(
            home, home.archive, ids=[name], policy=Policy(), now=now, command="archive"
        )
    else:
        made = plan_delete(home, [name], now=now, command="delete")
    assert not apply(made, home, clock=lambda: now).failed


def check(home: Home, now: float, without: Sequence[Path] = ()) -> None:
    seen = status(home, load(None, {}), now=now)
    disk = on_disk(home.root, without)
    assert seen.inventory.total_bytes == disk
    assert sum(share.bytes for share in _what(seen)) == disk
    assert all(share.bytes >= 0 for share in _what(seen))
    assert seen.to_json()["total_bytes"] == disk


@FEW
@given(st.lists(STEPS, max_size=6), JUNK)
def test_what_status_shows_is_what_the_disk_holds(steps: list[str], junk: dict[str, int]) -> None:
    with tempfile.TemporaryDirectory() as made:
        root = Path(made) / "home"
        live(root, steps)
        litter(root, junk)
        home = opened(root)
        check(home, NOW)
        each_byte_has_one_cap(home)


CAPPED = Policy(everywhere=Limits(caps=Caps(max_bytes=1)))


def each_byte_has_one_cap(home: Home) -> None:
    """The caps of sessions, archive and checkpoints count every byte once between them."""
    inventory = home.scan(NOW)
    [sessions] = cap_uses(CAPPED, inventory)
    [archive] = cap_uses(CAPPED, archive_inventory(home))
    space = sum(item.bytes for item in inventory.space)
    counted = sessions.used + archive.used + inventory.checkpoint_bytes + space
    assert counted == inventory.total_bytes
    assert archive.used == on_disk(home.root / "archive")


def test_what_left_the_archive_for_its_trash_counts_once(tmp_path: Path) -> None:
    live(tmp_path / "home", ["reset", "archive"])
    home = opened(tmp_path / "home")
    for name in sorted({bundle.session for bundle in home.archive.items()}):
        leave(home, name, archived=False)
    home = opened(tmp_path / "home")
    assert archive_inventory(home).trash
    each_byte_has_one_cap(home)


@FEW
@given(st.lists(STEPS, max_size=6), JUNK, st.sampled_from(["", "cold", "../disk"]))
def test_caps_of_sessions_ignore_the_archive_whatever_its_folder(
    steps: list[str], junk: dict[str, int], folder: str
) -> None:
    """At a cap of just what is there beside the archive, no session goes."""
    with tempfile.TemporaryDirectory() as made:
        root = Path(made) / "home"
        root.mkdir()
        (root / "config.toml").write_text(f'[archive]\nfolder = "{folder}"\n')
        options = ArchiveOptions(folder=folder)
        live(root, ["reset", *steps], options)
        litter(root, junk)
        home = opened(root, options)
        inventory = home.scan(NOW)
        rest = on_disk(root, [root / (folder or "archive"), root / "checkpoints"])
        space = sum(item.bytes for item in inventory.space)
        [use] = cap_uses(CAPPED, inventory)
        assert use.used == rest - space
        policy = Policy(everywhere=Limits(caps=Caps(max_bytes=rest - space)))
        found = plan(policy, inventory, NOW, command="sessions prune")
        assert not [each for each in found.removals if each.action is Action.REMOVE]
        assert not found.shortfalls


@pytest.fixture(scope="module")
def pattern(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded(tmp_path_factory.mktemp("hermes"))


@FEW
@given(st.lists(st.sampled_from(["archive", "delete", "prune"]), max_size=3), JUNK)
def test_what_status_shows_of_a_home_of_hermes_is_what_the_disk_holds(
    pattern: Path, steps: list[str], junk: dict[str, int]
) -> None:
    with tempfile.TemporaryDirectory() as made:
        root = Path(made) / "home"
        shutil.copytree(pattern, root, symlinks=True)
        names = sorted(OLD)
        for step in steps:
            if step == "prune":
                pruned(root)
                break
            leave(opened_hermes(root), names.pop(), archived=step == "archive", now=HERMES_NOW)
        litter(root, junk)
        litter(root / ".holdfast", junk)
        check(opened_hermes(root), HERMES_NOW + DAY)
