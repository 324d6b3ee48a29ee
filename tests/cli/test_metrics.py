"""holdfast metrics: from the last look, without a scan, and without a word that gives anything
away."""

from __future__ import annotations

import builtins
import http.client
import json
import os
import re
import shutil
import stat
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from holdfast.api.metrics import (
    AgentMetrics,
    Count,
    FoundHomes,
    MachineMetrics,
    MetricsSource,
    homes_of,
    write_textfile,
)
from holdfast.errors import StorageError, UsageError
from holdfast.homes.home import Home
from holdfast.metrics import server
from holdfast.metrics.exposition import exposed, families
from holdfast.model.alarm import Alarm
from holdfast.model.figures import Growth, HomeFigures, Point, Tally
from holdfast.policy.rules import DAY
from holdfast.stores.alarm_file import AlarmFile
from holdfast.stores.counters import FileTallies
from holdfast.stores.figures_file import FiguresFile
from tests.builders import NOW
from tests.cli.inside import Inside
from tests.cli.machine import Machine

DATA = Path(__file__).parents[1] / "data" / "prometheus"
GB = 10**9
needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool is not installed (Debian: prometheus)"
)


def shipped(name: str) -> str:
    return resources.files("holdfast.metrics").joinpath(name).read_text(encoding="utf-8")


def everything() -> MachineMetrics:
    """A machine of which everything is known."""
    figures = HomeFigures(
        at=NOW - 60,
        bytes=100,
        session_bytes=10,
        checkpoint_bytes=20,
        trash_bytes=30,
        vault_bytes=5,
        archive_bytes=6,
        leftover_bytes=7,
        sessions=3,
        reclaimable_bytes=8,
        disk_free=GB,
        disk_size=2 * GB,
        maintained_at=NOW - 60,
        maintenance_ok=True,
    )
    grown = Growth(
        points=(Point(at=NOW - 60, bytes=100),),
        latest=figures,
        bytes_per_day=5.0,
        over_days=9.0,
        disk_free=GB,
        full_in_days=12.5,
    )
    return MachineMetrics(
        at=NOW,
        agents=(AgentMetrics(agent="codex", homes=2, looked_at=2, growth=grown, alarms=1),),
        counts=tuple(Count(what=each, agent="codex", count=4) for each in Tally),
        together=grown,
        unreadable=1,
    )


def samples(known: MachineMetrics) -> dict[str, float]:
    """Name and labels as Prometheus writes them, with the value."""
    return {
        each.name + "".join(f" {name}={value}" for name, value in sorted(each.labels.items())): (
            each.value
        )
        for family in families(known)
        for each in family.samples
    }


# --- What they say --------------------------------------------------------------------------------


def test_every_figure_has_its_metric() -> None:
    found = samples(everything())
    assert found["holdfast_home_bytes agent=codex kind=sessions"] == 10
    by_kind = {key: value for key, value in found.items() if key.startswith("holdfast_home_bytes")}
    assert len(by_kind) == 7
    assert sum(by_kind.values()) == 100
    assert {
        "holdfast_homes agent=codex": 2,
        "holdfast_homes_looked_at agent=codex": 2,
        "holdfast_homes_unreadable": 1,
        "holdfast_sessions agent=codex": 3,
        "holdfast_reclaimable_bytes agent=codex": 8,
        "holdfast_growth_bytes_per_day agent=codex": 5,
        "holdfast_figures_timestamp_seconds agent=codex": NOW - 60,
        "holdfast_figures_age_seconds agent=codex": 60,
        "holdfast_maintenance_timestamp_seconds agent=codex": NOW - 60,
        "holdfast_maintenance_age_seconds agent=codex": 60,
        "holdfast_maintenance_success agent=codex": 1,
        "holdfast_disk_free_bytes": GB,
        "holdfast_disk_full_seconds": 12.5 * DAY,
        "holdfast_guard_refusals_total agent=codex": 4,
        "holdfast_hook_failures_total agent=codex": 4,
        "holdfast_growth_alarms_total agent=codex": 4,
        "holdfast_growth_alarms_active agent=codex": 1,
    }.items() <= found.items()


def test_labels_are_agents_and_kinds_alone() -> None:
    labels = {name for f in families(everything()) for each in f.samples for name in each.labels}
    assert labels == {"agent", "kind", "version"}


def test_what_is_not_known_is_not_said() -> None:
    """No figures is not the same as 0 bytes."""
    bare = AgentMetrics(agent="codex", homes=1, looked_at=0, growth=Growth())
    known = MachineMetrics(at=NOW, agents=(bare,), counts=(), together=Growth())
    assert set(samples(known)) == {
        "holdfast_info version=0.1.0",
        "holdfast_homes agent=codex",
        "holdfast_homes_looked_at agent=codex",
        "holdfast_homes_unreadable",
        # These begin with 0, or Prometheus would not see the first one.
        "holdfast_guard_refusals_total agent=codex",
        "holdfast_hook_failures_total agent=codex",
        "holdfast_growth_alarms_total agent=codex",
        "holdfast_growth_alarms_active agent=codex",
    }


@needs_promtool
def test_promtool_finds_nothing_wrong() -> None:
    for known in (everything(), MachineMetrics(at=NOW, agents=(), counts=(), together=Growth())):
        ran = subprocess.run(
            ["promtool", "check", "metrics"],
            input=exposed(known).decode(),
            text=True,
            capture_output=True,
            check=False,
        )
        assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


@needs_promtool
@pytest.mark.deep
def test_the_alert_rules_fire_when_they_should_and_only_then(tmp_path: Path) -> None:
    (tmp_path / "alerts.yml").write_text(shipped("alerts.yml"))
    tests = Path(shutil.copy(DATA / "alerts_test.yml", tmp_path))
    for words in (["check", "rules", "alerts.yml"], ["test", "rules", tests.name]):
        ran = subprocess.run(
            ["promtool", *words], cwd=tmp_path, text=True, capture_output=True, check=False
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
    # Every rule is tried, both ways.
    alerts = re.findall(r"alert: (\w+)", shipped("alerts.yml"))
    tried = re.findall(r"alertname: (\w+)", tests.read_text())
    assert sorted(tried) == sorted(alerts * 2)


@pytest.mark.parametrize("name", ["alerts.yml", "dashboard.json"])
def test_rules_and_dashboard_ask_for_metrics_that_exist(name: str) -> None:
    known = {each.partition(" ")[0] for each in samples(everything())}
    asked = set(re.findall(r"\bholdfast_[a-z_]+\b", shipped(name)))
    assert asked
    assert asked <= known


def test_the_dashboard_can_be_imported_anywhere() -> None:
    """It names no data source of its own, and no panel stands on another one."""
    board = json.loads(shipped("dashboard.json"))
    taken: set[tuple[int, int]] = set()
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    for panel in board["panels"]:
        assert panel["datasource"]["uid"] == "${datasource}"
        assert all(each["datasource"]["uid"] == "${datasource}" for each in panel["targets"])
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells


# --- Where they come from -------------------------------------------------------------------------


def a_source(*homes: tuple[str, Path], now: float = NOW) -> MetricsSource:
    return MetricsSource(lambda: FoundHomes(homes=homes), clock=lambda: now)


def an_alarm(path: str, *, ended: float | None) -> Alarm:
    return Alarm(
        home="",
        path=path,
        folder=False,
        first_at=NOW,
        last_at=NOW,
        ended_at=ended,
        bytes=1,
        bytes_per_minute=1,
        writers=(),
    )


def test_homes_of_one_agent_are_one_line(tmp_path: Path) -> None:
    one, other, hooks = tmp_path / "one", tmp_path / "other", tmp_path / "hooks"
    FiguresFile(one).add(HomeFigures(at=NOW - 5, bytes=3, maintained_at=NOW, maintenance_ok=True))
    FiguresFile(other).add(
        HomeFigures(at=NOW - 9, bytes=4, maintained_at=NOW - 9, maintenance_ok=False)
    )
    hooks.mkdir()
    FileTallies(hooks).add(Tally.REFUSALS, "codex")
    FileTallies(one).add(Tally.ALARMS)
    AlarmFile(one).note([an_alarm("log", ended=None), an_alarm("old", ended=NOW)], NOW)
    found = samples(a_source(("codex", one), ("codex", other), ("holdfast", hooks)).read())
    assert found["holdfast_home_bytes agent=codex kind=other"] == 7
    assert found["holdfast_figures_age_seconds agent=codex"] == 9
    assert found["holdfast_maintenance_success agent=codex"] == 0
    assert found["holdfast_maintenance_age_seconds agent=codex"] == 9
    assert found["holdfast_guard_refusals_total agent=codex"] == 1
    assert found["holdfast_guard_refusals_total agent=holdfast"] == 0
    assert found["holdfast_growth_alarms_total agent=codex"] == 1
    assert found["holdfast_growth_alarms_active agent=codex"] == 1


def test_what_was_read_holds_until_the_file_changes(tmp_path: Path) -> None:
    FiguresFile(tmp_path).add(HomeFigures(at=NOW - 9, bytes=1))
    source = a_source(("codex", tmp_path))
    source.read()
    with mock.patch.object(FiguresFile, "read", side_effect=AssertionError("read again")):
        assert samples(source.read())["holdfast_home_bytes agent=codex kind=other"] == 1
    FiguresFile(tmp_path).add(HomeFigures(at=NOW - 8, bytes=2))
    assert samples(source.read())["holdfast_home_bytes agent=codex kind=other"] == 2


def test_a_scrape_reads_no_file_and_knows_how_old_it_all_is(tmp_path: Path) -> None:
    """A disk that hangs must not hold up Prometheus."""
    FiguresFile(tmp_path).add(HomeFigures(at=NOW - 9, bytes=1))
    clock = mock.Mock(return_value=NOW)
    source = MetricsSource(lambda: FoundHomes(homes=[("codex", tmp_path)]), clock=clock)
    source.refresh()
    clock.return_value = NOW + 60
    with mock.patch("os.scandir", side_effect=AssertionError), mock.patch.object(Path, "stat"):
        found = samples(source.latest())
    assert found["holdfast_figures_age_seconds agent=codex"] == 69
    FileTallies(tmp_path).add(Tally.REFUSALS, "codex")
    source.refresh()
    assert samples(source.latest())["holdfast_guard_refusals_total agent=codex"] == 1


def test_a_scrape_opens_no_home_and_scans_nothing(used: Machine) -> None:
    from holdfast.api.machine import Machine as Homes

    Inside(used).ok("maintain")
    with (
        mock.patch.object(Home, "__init__", side_effect=AssertionError("opened")),
        mock.patch.object(Home, "scan", side_effect=AssertionError("scanned")),
        Homes(used.user, environ={}) as homes,
    ):
        source = MetricsSource(lambda: homes_of(homes), clock=time.time)
        found = samples(source.read())
    assert found["holdfast_home_bytes agent=holdfast kind=sessions"] > 0
    assert found["holdfast_maintenance_success agent=holdfast"] == 1


# --- The command ----------------------------------------------------------------------------------


def test_it_prints_and_says_what_is_missing(used: Machine) -> None:
    inside = Inside(used)
    first = inside.ok("metrics")
    assert 'holdfast_homes{agent="holdfast"} 1.0' in first.out
    assert "no figures for 1 home yet" in first.err
    assert "holdfast maintain" in first.err
    inside.ok("maintain")
    second = inside.ok("metrics")
    assert second.err == ""
    assert 'holdfast_home_bytes{agent="holdfast",kind="sessions"}' in second.out
    assert str(used.root) not in second.out


def test_one_home_alone(used: Machine) -> None:
    assert 'agent="holdfast"' in Inside(used).ok("--home", "holdfast", "metrics").out
    assert Inside(used).run("--home", str(used.root / "none"), "metrics").code == 2


def test_as_json_it_needs_no_package(used: Machine, without_prometheus: None) -> None:
    inside = Inside(used)
    document: Any = inside.json("metrics")
    assert [each["agent"] for each in document["agents"]] == ["holdfast"]
    failed = inside.run("metrics")
    assert failed.code == 2
    assert "prometheus_client" in failed.err
    assert "pip install 'prometheus-client" in failed.err
    assert inside.ok("metrics", "--rules").out == shipped("alerts.yml")


@pytest.fixture
def without_prometheus(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = builtins.__import__

    def refused(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.partition(".")[0] == "prometheus_client":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return usual(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refused)


def test_rules_and_dashboard_are_printed_as_they_are_shipped(used: Machine) -> None:
    inside = Inside(used)
    assert inside.ok("metrics", "--dashboard").out == shipped("dashboard.json")
    document: Any = inside.json("metrics", "--dashboard")
    assert document["content"] == json.loads(shipped("dashboard.json"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--listen 127.0.0.1:0 --rules", "cannot be combined"),
        ("--open-to-network", "works only with --listen"),
        ("--listen 0.0.0.0:9468", "--open-to-network"),
        ("--listen [::]:9468", "--open-to-network"),
        ("--listen example.org:9468", "--open-to-network"),
        ("--listen 127.0.0.1", "not an address"),
        ("--listen 127.0.0.1:http", "not an address"),
        ("--listen 127.0.0.1:70000", "not an address"),
        ("--listen ::1:9468", "not an address"),
    ],
)
def test_what_it_refuses(used: Machine, words: str, said: str) -> None:
    result = Inside(used).run("metrics", *words.split())
    assert result.code == 2
    assert said in result.err


# --- A file for a collector -----------------------------------------------------------------------


def test_a_textfile_is_written_as_a_whole_for_all_to_read(used: Machine) -> None:
    path = used.root / "holdfast.prom"
    with _umask(0o077):
        Inside(used).ok("metrics", "--textfile", str(path))
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert "holdfast_homes" in path.read_text()
    assert [each.name for each in used.root.iterdir() if "holdfast.prom" in each.name] == [
        path.name
    ]


def test_a_link_in_its_place_is_replaced_and_not_followed(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine")
    link = tmp_path / "holdfast.prom"
    link.symlink_to(precious)
    write_textfile(link, b"metrics")
    assert precious.read_text() == "mine"
    assert not link.is_symlink()
    assert link.read_text() == "metrics"


@pytest.mark.parametrize("kind", ["pipe", "folder"])
def test_what_is_no_file_is_not_replaced(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "holdfast.prom"
    os.mkfifo(place) if kind == "pipe" else place.mkdir()
    with pytest.raises(UsageError, match="not a file that could be replaced"):
        write_textfile(place, b"metrics")


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="There is no folder"):
        write_textfile(tmp_path / "none" / "holdfast.prom", b"metrics")


def test_a_write_that_fails_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "holdfast.prom"
    path.write_text("old")
    with (
        mock.patch("os.fsync", side_effect=OSError(28, "No space left on device")),
        pytest.raises(StorageError, match="No space left"),
    ):
        write_textfile(path, b"new")
    assert path.read_text() == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["holdfast.prom"]


class _umask:  # noqa: N801 - used like a function
    def __init__(self, mask: int) -> None:
        self._mask = mask

    def __enter__(self) -> None:
        self._before = os.umask(self._mask)

    def __exit__(self, *_: object) -> None:
        os.umask(self._before)


# --- Over HTTP ------------------------------------------------------------------------------------


class Stop:
    """Stops when told; sleeping ends with it."""

    def __init__(self) -> None:
        self._told = threading.Event()

    def stop_requested(self) -> bool:
        return self._told.is_set()

    def sleep(self, seconds: float) -> None:
        self._told.wait(seconds)

    def request(self) -> None:
        self._told.set()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[server.Address]:
    FiguresFile(tmp_path).add(HomeFigures(at=NOW - 9, bytes=1))
    stop, started = Stop(), threading.Event()
    found: list[server.Address] = []

    def tell(at: server.Address) -> None:
        found.append(at)
        started.set()

    thread = threading.Thread(
        target=server.serve,
        args=(a_source(("codex", tmp_path)), server.address("127.0.0.1:0"), stop),
        kwargs={"on_start": tell},
    )
    thread.start()
    assert started.wait(30)
    yield found[0]
    stop.request()
    thread.join(30)
    assert not thread.is_alive()


def test_a_scrape(served: server.Address) -> None:
    with urllib.request.urlopen(served.url, timeout=30) as answer:  # noqa: S310 - our own, on loopback
        assert answer.status == 200
        assert answer.headers["Content-Type"].startswith("text/plain; version=")
        assert b'holdfast_homes{agent="codex"} 1.0' in answer.read()
    for method in ("POST", "PUT", "DELETE"):
        peer = http.client.HTTPConnection(served.host, served.port, timeout=30)
        peer.request(method, "/metrics", body=b"x")
        assert peer.getresponse().status >= 400
        peer.close()


def test_what_cannot_be_read_for_a_moment_ends_no_server(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What was known is served on, and its age says so."""
    FiguresFile(tmp_path).add(HomeFigures(at=NOW - 9, bytes=1))
    source = a_source(("codex", tmp_path))
    source.refresh()
    with mock.patch.object(source, "find_homes", side_effect=StorageError("It is gone.")):
        server._look(source, for_homes=True)
    assert "It is gone." in caplog.text
    assert samples(source.latest())["holdfast_home_bytes agent=codex kind=other"] == 1


def test_a_port_that_is_taken_is_named(served: server.Address) -> None:
    with pytest.raises(UsageError, match=f"port {served.port}"):
        server.serve(a_source(), served, Stop(), on_start=lambda _: None)


@pytest.mark.parametrize(
    ("text", "host", "loopback", "url"),
    [
        ("9468", "127.0.0.1", True, "http://127.0.0.1:9468/metrics"),
        ("localhost:9468", "localhost", True, "http://localhost:9468/metrics"),
        ("[::1]:9468", "::1", True, "http://[::1]:9468/metrics"),
        ("0.0.0.0:9468", "0.0.0.0", False, "http://0.0.0.0:9468/metrics"),  # noqa: S104
        ("10.0.0.1:9468", "10.0.0.1", False, "http://10.0.0.1:9468/metrics"),
    ],
)
def test_addresses(text: str, host: str, loopback: bool, url: str) -> None:
    found = server.address(text)
    assert (found.host, found.is_loopback, found.url) == (host, loopback, url)
