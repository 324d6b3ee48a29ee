"""A link to nothing is not an absent file: the disk that it leads to may not be mounted. What it
may protect stays, as with a file that is damaged or cannot be read."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import holdfast
from holdfast.errors import SchemaError, StorageError
from holdfast.policy.rules import CheckpointPolicy, Rules
from holdfast.stores.checkpoints.repository import project_of
from holdfast.stores.files import read_file
from tests.checkpointing import Bench
from tests.contract.agent_homes import FOUR, NOW, session_ids

CODEX = next(each for each in FOUR if each.name == "codex")


def lead_away(path: Path) -> None:
    """As if the file had been moved to another disk, which is not mounted now."""
    path.unlink()
    path.symlink_to("/media/another/disk/file")


def damage(path: Path) -> None:
    path.write_bytes(b"{")


def test_no_reader_takes_it_for_an_absent_file(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "nothing")
    with pytest.raises(OSError, match="is a symbolic link to nothing") as raised:
        read_file(tmp_path / "link")
    assert not isinstance(raised.value, FileNotFoundError)
    with pytest.raises(FileNotFoundError):
        read_file(tmp_path / "nothing")


def test_our_pins_in_the_home_of_an_agent(tmp_path: Path) -> None:
    root = tmp_path / ".codex"
    CODEX.make(root)
    with holdfast.open(root, clock=lambda: NOW) as home:
        home.pin_sessions([CODEX.whole])
        pins = home.path / ".holdfast" / "pins.json"
        before = session_ids(home)
    assert json.loads(pins.read_text()) == [CODEX.whole]
    lead_away(pins)
    with holdfast.open(root, clock=lambda: NOW) as home:
        with pytest.raises(StorageError, match="so nothing may be removed here"):
            home.plan_prune(older_than="30d", use_trash=False)
        with pytest.raises(StorageError, match="so nothing may be removed here"):
            home.pin_sessions([CODEX.whole])
    assert pins.is_symlink()
    pins.unlink()
    with holdfast.open(root, clock=lambda: NOW) as home:
        assert session_ids(home) == before


def test_the_database_that_has_the_pins_of_an_agent(tmp_path: Path) -> None:
    root = tmp_path / ".codex"
    CODEX.make(root)
    lead_away(root / "state_5.sqlite")
    with holdfast.open(root, clock=lambda: NOW) as home:
        before = session_ids(home)
        with pytest.raises(SchemaError, match=r"is a link to .* which is not there"):
            home.plan_prune(older_than="30d", use_trash=False).apply()
        assert session_ids(home) == before


@pytest.mark.parametrize("spoil", [lead_away, damage])
def test_the_record_that_pins_checkpoints(spoil: Callable[[Path], None], tmp_path: Path) -> None:
    bench = Bench(tmp_path, max_snapshots=3)
    workdir = bench.project()
    first, *_ = bench.takes(workdir, 3)
    [pinned] = [each for each in bench.store.list() if each.id == first]
    bench.store.pin(pinned, True)
    record = bench.folder / "projects" / f"{project_of(workdir.resolve())}.json"
    good = record.read_bytes()
    spoil(record)
    newest = bench.take(workdir)
    bench.apply(bench.plan(CheckpointPolicy(rules=Rules(keep_last=1))))
    assert {first, newest} <= {*bench.ids()}
    with pytest.raises(StorageError, match="so it was not changed"):
        bench.store.pin(pinned, False)
    record.unlink()
    record.write_bytes(good)
    bench.apply(bench.plan(CheckpointPolicy(rules=Rules(keep_last=1))))
    assert bench.ids() == [first, newest]
