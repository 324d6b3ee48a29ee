"""Session files that are too large are told of, and screens count what a home holds."""

from __future__ import annotations

import json
import os
import tarfile
import time
from pathlib import Path

import pytest

import holdfast
from holdfast.api.capture import open_recorder
from holdfast.config.reader import load
from holdfast.homes.registry import config_file, create_state, open_home
from holdfast.model.maintenance import EventKind
from holdfast.model.session import SessionFilter
from holdfast.ports.home import Home
from holdfast.services.stats import stats
from holdfast.services.status import AGES, count_checkpoints, status
from tests.compat import hermes_sessions as hermes
from tests.contract.maintained import DAY, a_home

LARGE = 15_000_000
CHECKPOINTS = hermes.RECORDED.with_name(hermes.RECORDED.name.replace("sessions", "checkpoints"))


@pytest.fixture(params=["holdfast", "hermes"])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Home:
    if request.param == "hermes":
        root = hermes.recorded(tmp_path)
    else:
        root = a_home(tmp_path / "home", sessions=3)
    return open_home(root, clock=lambda: now_in(root))


def now_in(root: Path) -> float:
    return hermes.NOW if (root / "state.db").exists() else time.time()


def write_large(home: Home, name: str, session: str) -> str:
    path = home.root / "sessions" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"session_id": session, "text": "x" * LARGE}))
    long_ago = now_in(home.root) - 3 * DAY
    os.utime(path, (long_ago, long_ago))
    return f"sessions/{name}"


FILES = {
    "a stored session": "session_{}.json",
    "a transcript": "{}.jsonl",
    "a dump": "request_dump_{}_20260101_000000.json",
}


@pytest.mark.parametrize("shape", FILES.values(), ids=FILES)
@pytest.mark.parametrize("stored", [True, False], ids=["owned", "orphan"])
def test_a_large_file_is_told_everywhere(home: Home, shape: str, stored: bool) -> None:
    store = home.session_store()
    assert store is not None
    known = "cron_backup_20260102_030405" if home.kind == "hermes" else "old-0001"
    session = known if stored else "20250101_000000_abcdef"
    file = write_large(home, shape.format(session), session)
    settings, now = load(config_file(home.root), {}), now_in(home.root)

    seen = status(home, settings, now=now)
    assert [each.file for each in seen.large_files] == [file]
    assert seen.to_json()["large_files"][0]["session"] == session
    counted = stats(home, settings, now=now)
    assert counted.largest_files[0].file == file
    assert counted.largest_files[0].bytes >= LARGE

    result = holdfast.maintain(home.root, clock=lambda: now)
    told = [each for each in result.events if each.kind is EventKind.FILE_TOO_LARGE]
    assert [each.subject for each in told] == [file]
    assert "10.0 MB" in told[0].message


@pytest.mark.parametrize("limit", [0, 20])
def test_the_limit_is_that_of_a_session(home: Home, limit: int) -> None:
    write_large(home, "session_20250101_000000_abcdef.json", "20250101_000000_abcdef")
    create_state(home.root)
    config_file(home.root).write_text(f"[sessions]\nmax_size_mb = {limit}\n")
    settings, now = load(config_file(home.root), {}), now_in(home.root)
    seen = status(home, settings, now=now)
    assert seen.large_files == ()
    assert not holdfast.maintain(home.root, clock=lambda: now).events


@pytest.mark.parametrize("days", [0, 0.03, 0.2, 0.7, 3, 8, 100, 400])
def test_classes_of_age_are_those_of_the_sessions(home: Home, days: float) -> None:
    store = home.session_store()
    assert store is not None
    newest = max(session.last_active_at for session in store.find(SessionFilter()))
    now = newest + days * DAY
    counted = {share.name: share.count for share in store.statistics(now=now, ages=AGES).by_age}
    expected = dict.fromkeys((name for name, _ in AGES), 0)
    for session in store.find(SessionFilter()):
        age = now - session.last_active_at
        expected[next((name for name, bound in AGES if age < bound), AGES[-1][0])] += 1
    assert counted == expected
    assert list(counted)[:4] == ["< 1 h", "< 6 h", "< 1 d", "< 7 d"]


def test_checkpoints_are_counted_with_their_bytes(tmp_path: Path) -> None:
    root, project = tmp_path / "home", tmp_path / "project"
    a_home(root, sessions=1)
    project.mkdir()
    recorder = open_recorder(root, enabled=True, user_home=tmp_path / "nobody")
    for turn in range(3):
        (project / "file.txt").write_text(str(turn))
        recorder.store.take(project, reason="test", now=time.time() + turn)
    home = open_home(root, clock=time.time)
    found = count_checkpoints(home, home.scan(time.time()))
    assert (found.count, found.projects) == (3, 1)
    assert found.bytes > 0
    document = stats(home, load(None, {}), now=time.time()).to_json()
    assert document["checkpoints"] == {
        "count": 3,
        "projects": 1,
        "bytes": found.bytes,
        "legacy_bytes": 0,
        "last_touch": found.last_touch,
    }
    assert found.last_touch


def test_checkpoints_of_hermes_are_counted_too(tmp_path: Path) -> None:
    root = hermes.recorded(tmp_path)
    with tarfile.open(CHECKPOINTS) as archive:
        archive.extractall(tmp_path, filter="tar")
    (tmp_path / "home" / "checkpoints").rename(root / "checkpoints")
    home = open_home(root, clock=lambda: hermes.NOW)
    found = count_checkpoints(home, home.scan(hermes.NOW))
    store = home.checkpoint_store()
    assert store is not None
    assert found.count == len(store.list()) > 0
    assert found.projects == len({each.workdir for each in store.list()})
    assert found.bytes > 0
