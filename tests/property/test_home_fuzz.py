"""What Holdfast itself left, damaged: undo copies and journals are refused, never believed.

A damaged undo copy may not bring back something else than what went; a damaged journal may not make
anybody touch a file.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import HoldfastError
from holdfast.homes.holdfast import HoldfastHome
from holdfast.policy.planner import plan
from holdfast.policy.rules import DAY, Limits, Policy, Rules
from holdfast.spine.apply import apply
from holdfast.spine.settle import settle_if_needed
from holdfast.spine.undo import undo_latest
from tests import tally
from tests.property.damage import damaged
from tests.stored import Seen, a_line, bring_in, check_whole, see

NOW = 1_800_000_000.0
ROOT: dict[str, Path] = {}
BEFORE: dict[str, Seen] = {}


def clock() -> float:
    return NOW


@pytest.fixture(autouse=True, scope="module")
def pruned() -> Iterator[None]:
    """A home with three sessions and their files, all but one of them pruned."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name) / "home"
        ages = {"old": 90, "older": 100, "young": 1}
        bring_in(root, [a_line(key, at=NOW - days * DAY) for key, days in ages.items()], now=NOW)
        (root / "sessions").mkdir()
        (root / "sessions" / "session_old.json").write_text('{"session_id": "old"}')
        home = HoldfastHome(root, clock=clock, idle=DAY)
        BEFORE["home"] = see(root)
        policy = Policy(everywhere=Limits(rules=Rules(max_age=30 * DAY)))
        apply(plan(policy, home.scan(NOW), NOW, command="sessions prune"), home, clock=clock)
        store = home.session_store()
        assert store is not None
        store.close()
        ROOT["home"] = root
        yield


def _files(kind: str) -> list[str]:
    root = ROOT["home"]
    places = {"trash": root / "trash", "journal": root / "operations"}
    return sorted(
        path.relative_to(root).as_posix()
        for path in places[kind].rglob("*")
        if path.is_file() and path.suffix != ".lock" and path.stat().st_size
    )


def _undo(root: Path) -> None:
    home = HoldfastHome(root, clock=clock, idle=DAY)
    try:
        settle_if_needed(home, clock=clock)
        undo_latest(home, clock=clock)
    except HoldfastError:
        pass
    finally:
        store = home.session_store()
        if store is not None:
            store.close()


@pytest.mark.parametrize("kind", ["trash", "journal"])
@given(st.data())
def test_what_is_damaged_is_never_believed(kind: str, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(_files(kind)))
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "home"
        shutil.copytree(ROOT["home"], root)
        target = root / name
        target.write_bytes(data.draw(damaged(target.read_bytes())))
        _undo(root)
        check_whole(root)
        before, after = BEFORE["home"], see(root)
        assert after.sessions["young"] == before.sessions["young"]
        assert after.messages["young"] == before.messages["young"]
        for session, messages in after.messages.items():
            assert messages == before.messages[session], "something else came back"
        for file, seen in after.files.items():
            assert seen.content == before.files[file].content or kind == "trash"
        tally.verified()
