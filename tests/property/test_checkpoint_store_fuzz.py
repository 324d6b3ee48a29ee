"""A checkpoint store with a damaged file: it is named, or harmless, and nothing worse.

No error but ours comes out, the working directory is not touched, and what can be read at all of a
checkpoint is what was captured.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from holdfast.errors import DamageError, HoldfastError
from holdfast.homes.holdfast import HoldfastHome
from holdfast.model.checkpoint import Checkpoint
from holdfast.stores.checkpoints import checkpoint_commit
from holdfast.stores.checkpoints.store import ShadowGitStore
from tests import tally
from tests.checkpointing import contents, on_disk
from tests.property.damage import changed, damaged

NOW = 1_800_000_000.0
ROOT: dict[str, Path] = {}
#: What each checkpoint holds, by its reason.
HELD: dict[str, dict[str, bytes]] = {}
#: Each looks at a whole store, with git.
FEW = settings(
    max_examples=settings().max_examples // 4, suppress_health_check=[HealthCheck.too_slow]
)


@pytest.fixture(autouse=True, scope="module")
def made() -> Iterator[None]:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name).resolve() / "world"
        project = root / "project"
        (project / "folder").mkdir(parents=True)
        store = ShadowGitStore(root / "home" / "checkpoints")
        for number in range(3):
            for file in ("one", "folder/two"):
                (project / file).write_bytes(b"%d %s\n" % (number, file.encode()) * 30)
            (project / "one").chmod(0o640 + number)
            store.take(project, reason=str(number), now=NOW + number)
            HELD[str(number)] = {path: data for path, (_, data) in on_disk(project).items()}
        ROOT["world"] = root
        yield


def _files() -> list[str]:
    root = ROOT["world"]
    return sorted(
        path.relative_to(root).as_posix()
        for path in (root / "home").rglob("*")
        if path.is_file() and "lock" not in path.name and path.stat().st_size
    )


@FEW
@given(st.data())
def test_a_damaged_store_is_named_or_harmless(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(_files()))
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve() / "world"
        shutil.copytree(ROOT["world"], root)
        target = root / name
        target.chmod(0o600)
        target.write_bytes(data.draw(damaged(target.read_bytes())))
        before = on_disk(root / "project")
        _use(root)
        assert on_disk(root / "project") == before
        tally.verified()


def _use(root: Path) -> None:
    """Everything that reads, and a take."""
    store = ShadowGitStore(root / "home" / "checkpoints")
    try:
        found = store.list()
    except HoldfastError:
        found = ()
    for checkpoint in found:
        _read(store, checkpoint)
    home = HoldfastHome(root / "home", clock=lambda: NOW)
    for attempt in (
        home.checkpoint_upkeep.verify,
        lambda: home.checkpoint_upkeep.scan(NOW),
        store.projects,
        lambda: store.take(root / "project", reason="next", now=NOW + 9),
    ):
        with suppress(HoldfastError):
            attempt()


def _read(store: ShadowGitStore, checkpoint: Checkpoint) -> None:
    try:
        held = {path: data for path, (_, data) in contents(store, checkpoint).items()}
    except HoldfastError:
        return
    assert held == HELD.get(checkpoint.reason, held), "something else came out"


DETAILS = {
    "format": 1,
    "project": "p" * 16,
    "workdir": "/work",
    "time": NOW,
    "session": None,
    "turn": None,
    "files_changed": 1,
    "insertions": 2,
    "deletions": 3,
    "not_captured": [{"path": "large", "reason": "too large"}],
    "origin": "hermes:0123:4567",
}
LINES = changed(DETAILS) | damaged(json.dumps(DETAILS).encode()) | st.binary(max_size=40)


@given(st.text(max_size=40), LINES)
@example("r", json.dumps(DETAILS | {"time": 10**400}).encode())
@example("r", json.dumps(DETAILS | {"files_changed": float("inf")}).encode())
@example("r", b"[" * 2_000)
def test_a_commit_is_a_checkpoint_or_damage(reason: str, line: bytes) -> None:
    message = f"{reason}\n\n{line.decode('utf-8', 'replace')}\n"
    try:
        found = checkpoint_commit.parse("c" * 40, "t" * 40, message)
    except DamageError:
        return
    assert isinstance(found, Checkpoint)
