"""The watch over all homes of a machine: each when it is due, new ones too, and who grows."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

import holdfast
from holdfast.api.in_child import Child
from holdfast.api.machine import Machine
from holdfast.api.machine_watch import Listener, watch
from holdfast.errors import BusyError
from holdfast.homes.agents import signs_of_life as life
from holdfast.homes.growth_look import MachineEyes, Tops
from holdfast.model.alarm import Alarm
from holdfast.model.figures import Tally
from holdfast.model.maintenance import LookedAfter
from holdfast.policy.growth_alarm import Grown, grown
from holdfast.stores.alarm_file import AlarmFile
from holdfast.stores.counters import FileTallies
from holdfast.stores.maintenance_marker import FileMaintenanceGate
from tests.contract.agent_homes import make_claude, make_codex
from tests.contract.maintained import DAY, PATIENCE, a_home, configure, ids, listener

PRUNE = "[sessions]\nauto_prune = true\n"


class Nights:
    """A watch of a few days: each sleep is as long as it is asked to be, on a clock of its own.
    `during` happens in the sleep of that
    number, and none is shorter than so many `seconds`."""

    def __init__(
        self,
        sleeps: int,
        during: Mapping[int, Callable[[], object]] | None = None,
        *,
        seconds: float = 40.0,
    ) -> None:
        self._seconds = seconds
        self.now = time.time()
        self._left = sleeps
        self._during = during or {}
        self._slept = 0

    def clock(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.now

    def step(self, label: str, done: int, total: int | None) -> None: ...

    def stop_requested(self) -> bool:
        return self._slept >= self._left

    def sleep(self, seconds: float) -> None:
        self._slept += 1
        self._during.get(self._slept, lambda: None)()
        self.now += max(seconds, self._seconds)


@pytest.fixture
def user(tmp_path: Path) -> Path:
    return tmp_path


def looked_after(user: Path, nights: Nights, *, force: bool = False) -> list[LookedAfter]:
    seen: list[LookedAfter] = []
    machine = Machine(user, environ={}, clock=nights.clock)
    heard = Listener(in_words=lambda result: str(result.errors), looked_after=seen.append)
    watch(machine, nights, heard, clock=nights.clock, monotonic=nights.monotonic, force=force)
    return seen


def test_every_home_is_looked_after_and_one_that_fails_costs_itself_only(user: Path) -> None:
    a_home(user / ".holdfast", PRUNE, sessions=3)
    make_claude(user / ".claude")
    make_codex(user / ".codex")
    (user / ".codex" / ".holdfast").mkdir()
    (user / ".codex" / ".holdfast" / "config.toml").write_text("[nonsense]\n")
    done = {Path(each.home).name: each for each in looked_after(user, Nights(1))}
    assert ids(user / ".holdfast") == set()
    assert done[".holdfast"].ran
    assert done[".claude"].ran
    assert str(user / ".claude") in done[".claude"].folders
    assert "claude" in done[".claude"].programs
    assert done[".codex"].failed
    assert "unknown" in done[".codex"].did


def test_a_home_that_appears_is_found(user: Path) -> None:
    a_home(user / ".holdfast")
    nights = Nights(7, {2: lambda: make_claude(user / ".claude")})
    done = looked_after(user, nights)
    assert [Path(each.home).name for each in done if each.ran] == [".holdfast", ".claude"]


def test_a_home_that_goes_and_comes_back_is_told(user: Path) -> None:
    a_home(user / ".holdfast")
    make_codex(user / ".codex")
    home, away = user / ".codex", user / ".codex.away"
    nights = Nights(8, {3: lambda: home.rename(away), 6: lambda: away.rename(home)}, seconds=2.0)
    said: list[str] = []
    heard = Listener(in_words=lambda _: "", more=said.append)
    machine = Machine(user, environ={}, clock=nights.clock)
    watch(machine, nights, heard, clock=nights.clock, monotonic=nights.monotonic)
    told = [each.removeprefix(f"{home} ") for each in said if each.startswith(str(home))]
    assert told == ["is gone; it is watched again if it comes back", "is back"]


def test_what_holdfast_writes_by_itself_does_not_grow(tmp_path: Path) -> None:
    """The room that is set aside is written as fast as the disk takes it."""
    state = tmp_path / ".holdfast"
    tops = Tops(home=str(tmp_path), folders=(str(tmp_path),), state=str(state))
    eyes = MachineEyes([tops], clock=time.time)
    before = eyes.sizes()
    for name in ("reserve", "trash/1/0.0", "vault/names/a/units-0/0.0", "index/sessions.db", "log"):
        (state / name).parent.mkdir(parents=True, exist_ok=True)
        (state / name).write_bytes(b"-" * 200_000)
    [found] = grown(before, eyes.sizes(), 1_000.0)
    assert found.path == str(state / "log")


def test_a_home_that_another_process_watches_is_left_to_it(user: Path) -> None:
    a_home(user / ".holdfast")
    make_claude(user / ".claude")
    with FileMaintenanceGate(user / ".holdfast").watching("somebody"):
        done = looked_after(user, Nights(1))
        assert [Path(each.home).name for each in done] == [".claude"]
    with (
        FileMaintenanceGate(user / ".holdfast").watching("somebody"),
        FileMaintenanceGate(user / ".claude" / ".holdfast").watching("somebody"),
        pytest.raises(BusyError),
    ):
        looked_after(user, Nights(1))


def test_a_second_watcher_says_once_that_there_is_one(
    user: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A watcher never finishes, so nobody is told to wait for it."""
    a_home(user / ".holdfast")
    make_claude(user / ".claude")
    with (
        FileMaintenanceGate(user / ".holdfast").watching("maintain --watch"),
        FileMaintenanceGate(user / ".claude" / ".holdfast").watching("maintain --watch"),
        pytest.raises(BusyError) as raised,
    ):
        looked_after(user, Nights(1))
    assert "Wait" not in str(raised.value.hint)
    assert caplog.text == ""


def test_a_home_that_nobody_can_look_into_is_named_once(
    user: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_home(user / ".holdfast")
    closed = user / ".gemini"
    closed.mkdir()
    iterdir = Path.iterdir

    def refused(path: Path) -> Iterator[Path]:
        if path == closed:
            raise PermissionError(13, "Permission denied", str(path))
        return iterdir(path)

    monkeypatch.setattr(Path, "iterdir", refused)
    looked_after(user, Nights(8))  # long enough to look for homes again
    assert caplog.text.count(f"not watching {closed}") == 1


def test_a_broken_configuration_is_said_once_and_costs_no_reserve(
    user: Path, caplog: pytest.LogCaptureFixture
) -> None:
    home = a_home(user / ".holdfast", "[guardian]\nreserve_mb = 1\n")
    assert list(Machine(user, environ={}).set_aside()) == [home]
    configure(home, "[guardian]\nreserve_mb = -1\n")
    machine = Machine(user, environ={})
    assert machine.keep_budget().limit is None
    machine.set_aside()
    assert caplog.text.count("the limits of this machine are unknown") == 1
    assert (home / "reserve").stat().st_size == 1_000_000


def test_it_runs_again_when_it_is_due(user: Path) -> None:
    a_home(user / ".holdfast", "[maintenance]\nmin_interval_hours = 0.1\n")
    done = looked_after(user, Nights(60))
    assert sum(each.ran for each in done) >= 3


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # the suite has threads
def test_what_a_child_breaks_is_tried_again(user: Path) -> None:
    """A round in a process of its own, which is killed: the watch goes on."""

    def killed() -> bytes:
        os.kill(os.getpid(), 9)
        return b""

    child = Child(killed)
    until = time.monotonic() + PATIENCE
    while (done := child.poll()) is None and time.monotonic() < until:
        time.sleep(0.01)
    assert done is not None
    assert done.result is None
    child = Child(lambda: b"x" * 300_000)
    while (done := child.poll()) is None and time.monotonic() < until:
        time.sleep(0.01)
    assert done is not None
    assert done.result is not None
    assert len(done.result) == 300_000


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_signal_that_comes_twice_still_lets_the_work_end(tmp_path: Path) -> None:
    """Ctrl-C reaches parent and child, and the parent passes it on."""
    heard: list[int] = []

    def usual(number: int, _: object) -> None:
        if heard:
            raise KeyboardInterrupt
        heard.append(number)

    def work() -> bytes:
        (tmp_path / "begun").touch()
        while not heard:
            time.sleep(0.001)
        time.sleep(0.05)  # in which the second one comes
        return b"ended"

    before = {each: signal.signal(each, usual) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        child = Child(work)
        until = time.monotonic() + PATIENCE
        while not (tmp_path / "begun").exists() and time.monotonic() < until:
            time.sleep(0.001)
        child.stop()
        child.stop()
        while (done := child.poll()) is None and time.monotonic() < until:
            time.sleep(0.01)
    finally:
        for each, former in before.items():
            signal.signal(each, former)
    assert done is not None
    assert done.result == b"ended"


# --- Growth ---------------------------------------------------------------------------------------

_WRITING = """
import sys, time
with open(sys.argv[1], "ab", buffering=0) as file:
    while True:
        file.write(bytes(100_000))
        print("wrote", flush=True)
        sys.stdin.readline()
"""


@contextmanager
def writing(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Somebody with the file open, who writes more each time a line comes."""
    process = subprocess.Popen(
        [sys.executable, "-c", _WRITING, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
    finally:
        process.kill()
        process.communicate()


def write_more(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    process.stdout.readline()


def test_the_process_that_writes_is_named(tmp_path: Path) -> None:
    root = tmp_path / "home"
    (root / "logs").mkdir(parents=True)
    path = root / "logs" / "debug.txt"
    (root / "link").symlink_to("/")
    eyes = MachineEyes([Tops(home=str(root), folders=(str(root),))], clock=time.time)
    with writing(path) as process:
        before = eyes.sizes()
        write_more(process)
        after = eyes.sizes()
        [found] = grown(before, after, 1_000.0)
        assert (found.path, found.folder) == (str(path), False)
        [writer] = eyes.writers(found)
        assert (writer.pid, writer.sure) == (process.pid, True)
        assert "python" in writer.command
        assert eyes.home_of(found.path) == str(root)
    assert list(eyes.writers(found)) == []


def test_who_names_the_file_is_probable_and_nobody_found_leaves_a_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loop of a shell opens the file for a moment, and somebody who reads it is not meant."""
    found = Grown(path="/h/my log", folder=False, bytes=1, bytes_per_minute=2.0)
    loop = ("sh", "-c", "while :; do date >> '/h/my log'; done")
    seen = {7: loop, 8: ("tail", "-f", "/h/my log"), 9: ("vim", "/h/other")}
    monkeypatch.setattr(life, "commands", lambda: seen)
    monkeypatch.setattr(life, "opened_files", lambda _: [(8, found.path, os.O_RDONLY)])
    eyes = MachineEyes([Tops(home="/h", folders=("/h",))], clock=time.time)
    assert [(each.pid, each.sure) for each in eyes.writers(found)] == [(7, False)]
    assert "lsof '/h/my log'" in an_alarm(found.path, 0.0).message


def test_an_alarm_is_told_noted_and_nothing_is_removed(user: Path) -> None:
    """With a limit that a small file exceeds: what is written, told and kept."""
    home = a_home(user / ".holdfast")
    command, heard = listener(user)
    configure(home, f"[guardian]\nalarm_mb_per_minute = 0.1\n[notify]\ncommand = '{command}'\n")
    path = home / "sessions" / "growing.jsonl"
    path.parent.mkdir(exist_ok=True)
    alarms: list[Alarm] = []
    with writing(path) as process:
        more = {n: lambda: write_more(process) for n in range(1, 9)}
        nights = Nights(9, more, seconds=5.0)
        machine = Machine(user, environ={}, clock=nights.clock)
        told = Listener(in_words=lambda _: "", grows=alarms.append)
        watch(machine, nights, told, clock=nights.clock, monotonic=nights.monotonic)
        assert alarms
        assert alarms[0].path == str(path)
        assert [each.pid for each in alarms[0].writers] == [process.pid]
        assert path.stat().st_size >= 800_000
        assert all(each.read_text().startswith("grows_too_fast") for each in heard.iterdir())
        assert any(heard.iterdir())
    [noted] = holdfast.open(home).alarms()
    assert (noted.path, noted.home) == (str(path), str(home))
    assert not noted.active, "nobody watches any more"
    assert [each.path for each in machine.alarms()] == [str(path)]
    assert FileTallies(home).total(Tally.ALARMS) == 1, "one alarm is counted once"


def an_alarm(path: str, at: float) -> Alarm:
    return Alarm(
        home="/h", path=path, folder=False, first_at=at, last_at=at, bytes=1, bytes_per_minute=2.0
    )


def test_alarms_are_bounded_and_a_damaged_file_is_none(tmp_path: Path) -> None:
    file = AlarmFile(tmp_path)
    now = 100 * DAY
    file.note([an_alarm(f"/h/{n}", now - n) for n in range(30)], now)
    assert [each.path for each in file.read()] == [f"/h/{n}" for n in range(20)]
    file.end_all(now)  # as the next watcher does after one that was killed
    assert not any(each.active for each in file.read())
    file.note([an_alarm("/h/new", now + 8 * DAY)], now + 8 * DAY)
    assert [each.path for each in file.read()] == ["/h/new"]
    for damaged in (b"", b"{", b"[]", b'{"alarms": [{}]}', b'{"alarms": 7}', b"\xff"):
        (tmp_path / "operations" / "alarms.json").write_bytes(damaged)
        assert list(file.read()) == []
    file.note([an_alarm("/h/again", now)], now)
    assert [each.path for each in file.read()] == ["/h/again"]


def test_an_alarm_of_a_watcher_that_was_killed_is_over_after_a_while(tmp_path: Path) -> None:
    file = AlarmFile(tmp_path)
    file.note([an_alarm("/h/f", 1_000.0)], 1_000.0)
    assert [each.active for each in file.read(1_060.0)] == [True]
    assert [each.active for each in file.read(2_000.0)] == [False]
