"""Events reach the log and the configured program, once, and never harm the run."""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path

import pytest

import holdfast
from holdfast import Message
from holdfast.api.sessions import open_sessions
from holdfast.config.reader import load, warnings
from holdfast.homes.holdfast import HoldfastHome
from holdfast.homes.maintenance import tell_unreached
from holdfast.model.maintenance import Step
from holdfast.model.plan import Shortfall
from holdfast.services.events import tell_shortfalls
from holdfast.stores.maintenance_marker import FileMaintenanceGate
from tests.contract.maintained import (
    DAY,
    PATIENCE,
    a_home,
    at,
    configure,
    heard_in,
    is_running,
    kinds,
    listener,
    step,
)

#: Two more than the cap, and nothing may go.
HELD = "[sessions]\nauto_prune = true\nmax_count = 2\npins = ['old-*']\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "home"


def notify(command: str, *more: str) -> str:
    return "\n".join(["[notify]", f"command = '''{command}'''", *more, ""])


def test_the_program_hears_what_a_run_could_not_reach(root: Path, tmp_path: Path) -> None:
    command, heard = listener(tmp_path)
    a_home(root, HELD + notify(command), sessions=4)
    result = holdfast.maintain(root)
    assert result.ok
    (event,) = heard_in(heard)
    assert event["event"] == "cap_not_reached"
    assert event["home"] == str(root)
    assert event["subject"] == "max_count"
    assert event["details"]["held_by"] == {"pinned": 4}
    assert "4 items remain" in event["message"]


def test_what_has_not_changed_is_not_told_again_within_the_interval(
    root: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    command, heard = listener(tmp_path)
    a_home(root, HELD + notify(command), sessions=4)
    now = time.time()
    for hours in (0, 1, 23):
        result = holdfast.maintain(root, force=True, clock=at(now + hours * 3600))
        assert [event.kind.value for event in result.events] == ["cap_not_reached"]
    assert len(heard_in(heard)) == 1
    assert len([record for record in caplog.records if "max_count" in record.getMessage()]) == 1
    holdfast.maintain(root, clock=lambda: now + 48 * 3600)
    assert len(heard_in(heard)) == 2


def test_what_has_changed_is_told_again(root: Path, tmp_path: Path) -> None:
    command, heard = listener(tmp_path)
    a_home(root, HELD + notify(command), sessions=4)
    holdfast.maintain(root)
    configure(root, HELD.replace("max_count = 2", "max_count = 1") + notify(command))
    holdfast.maintain(root, force=True)
    assert [event["details"]["limit"] for event in heard_in(heard)] == [2, 1]


@pytest.mark.parametrize(
    ("sessions", "state"), [(8, None), (9, "near"), (10, "near"), (11, "over")]
)
def test_a_cap_that_is_near(root: Path, tmp_path: Path, sessions: int, state: str | None) -> None:
    """Without auto_prune nothing goes, so a cap may be passed; that is told too."""
    command, heard = listener(tmp_path)
    a_home(root, "[sessions]\nmax_count = 10\n" + notify(command), sessions=sessions, days=1)
    holdfast.maintain(root)
    assert [(each["event"], each["state"]) for each in heard_in(heard)] == (
        [] if state is None else [("cap_near", state)]
    )


def test_how_near_is_near_can_be_set(root: Path, tmp_path: Path) -> None:
    command, heard = listener(tmp_path)
    config = "[sessions]\nmax_count = 10\n" + notify(command, "near_percent = 50")
    a_home(root, config, sessions=5, days=1)
    holdfast.maintain(root)
    (event,) = heard_in(heard)
    assert event["details"] == {"used": 5, "limit": 10, "percent": 50}


def test_a_cap_in_bytes_counts_the_trash(root: Path) -> None:
    a_home(root, "[sessions]\nauto_prune = true\n", sessions=300)
    assert holdfast.maintain(root).bytes_in_trash > 1_000_000
    configure(root, "[sessions]\nmax_total_size_mb = 2\n[notify]\nnear_percent = 50\n")
    (event,) = holdfast.maintain(root, force=True).events
    assert (event.kind.value, event.subject, event.state) == ("cap_near", "max_total_size", "near")


def test_a_session_that_grows_too_large(root: Path, tmp_path: Path) -> None:
    command, heard = listener(tmp_path)
    a_home(root, "[sessions]\nmax_messages = 10\n")
    with open_sessions(root) as store:
        large = store.create(source="cli", id="large")
        store.append(large.id, *[Message(role="user", content="hello")] * 8)
        configure(root, "[sessions]\nmax_messages = 10\n" + notify(command))
        holdfast.maintain(root)
    (event,) = heard_in(heard)
    assert (event["event"], event["subject"]) == ("session_too_large", "large messages")
    assert event["details"] == {"session": "large", "what": "messages", "value": 8, "limit": 10}


def test_a_run_that_failed(root: Path, tmp_path: Path) -> None:
    command, heard = listener(tmp_path)
    a_home(root, "[sessions]\nauto_prune = true\n" + notify(command))
    (root / "sessions.db").write_bytes(b"not a database at all" * 1000)
    assert not holdfast.maintain(root).ok
    assert set(kinds(heard_in(heard))) == {"maintenance_failed"}
    assert "prune" in {event["subject"] for event in heard_in(heard)}


def test_each_event_is_one_run_of_the_program(root: Path, tmp_path: Path) -> None:
    command, heard = listener(tmp_path)
    config = HELD + "[sessions.source.cli]\nmax_count = 3\n" + notify(command)
    a_home(root, config, sessions=4)
    holdfast.maintain(root)
    assert sorted(event["subject"] for event in heard_in(heard)) == [
        "max_count",
        "max_count of cli",
    ]


# --- Programs that do not do as they should -------------------------------------------------------


@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("false", "it exited with code 1"),
        ("/nowhere/at/all", "No such file or directory"),
        ("./config.toml", "Permission denied"),
        ("sh -c 'kill -9 $$'", "it exited with code -9"),
    ],
    ids=["fails", "missing", "no program", "killed"],
)
def test_a_program_that_fails_is_a_warning(
    root: Path, caplog: pytest.LogCaptureFixture, program: str, why: str
) -> None:
    a_home(root, HELD + notify(program), sessions=4)
    (root / "config.toml").chmod(0o600)
    result = holdfast.maintain(root)
    assert result.ok
    warnings = [
        each.getMessage() for each in caplog.records if "notify command" in each.getMessage()
    ]
    assert len(warnings) == 1
    assert why in warnings[0]


def test_a_program_that_does_not_read_is_fine(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    a_home(root, HELD + notify("true"), sessions=4)
    assert holdfast.maintain(root).ok
    assert "notify command" not in caplog.text


def test_a_program_that_hangs_is_ended_and_so_is_what_it_started(
    root: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    then = (
        "import subprocess\n"
        "child = subprocess.Popen(['sleep', '600'])\n"
        f"pathlib.Path({str(tmp_path / 'pids')!r}).write_text(f'{{os.getpid()}} {{child.pid}}')\n"
        "time.sleep(600)\n"
    )
    command, heard = listener(tmp_path, then)
    a_home(root, HELD + notify(command, "timeout_seconds = 2"), sessions=4)
    result = holdfast.maintain(root)
    assert result.ok
    assert len(heard_in(heard)) == 1
    assert "killed after 2 seconds" in caplog.text
    processes = [int(each) for each in (tmp_path / "pids").read_text().split()]
    assert len(processes) == 2
    assert not any(is_running(process) for process in processes)


def test_the_program_says_nothing_into_our_output(
    root: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    a_home(root, HELD + notify("sh -c 'echo out; echo err >&2'"), sessions=4)
    holdfast.maintain(root)
    assert "out" not in capfd.readouterr().out.split()


def test_there_is_no_shell(root: Path, tmp_path: Path) -> None:
    evil = tmp_path / "evil"
    a_home(root, HELD + notify(f"true; touch {evil}"), sessions=4)
    assert holdfast.maintain(root).ok
    assert not evil.exists()


# --- By hand, and while appending -----------------------------------------------------------------


def test_a_prune_by_hand_tells_as_well_and_maintenance_does_not_repeat_it(
    root: Path, tmp_path: Path
) -> None:
    command, heard = listener(tmp_path)
    a_home(root, HELD + notify(command), sessions=4)
    settings = load(root / "config.toml", {})
    held = Shortfall(cap="max_count", limit=2, remaining=4, held_by={"pinned": 4})
    for _ in range(2):
        home = HoldfastHome(root, clock=time.time)
        tell_unreached(home, settings, [held], now=time.time())
    assert len(heard_in(heard)) == 1
    assert holdfast.maintain(root).ran, "telling is not maintaining"
    assert len(heard_in(heard)) == 1


def test_telling_while_maintenance_runs_does_not_wait_for_it(root: Path) -> None:
    a_home(root)
    gate = FileMaintenanceGate(root)
    held = Shortfall(cap="max_count", limit=2, remaining=4, held_by={"pinned": 4})
    with gate.entered("maintain"):
        told = tell_shortfalls(
            str(root), [held], gate=gate, notifier=None, now=time.time(), interval=DAY
        )
    assert len(told) == 1
    assert gate.read().finished_at is None


def test_an_append_that_passes_a_limit_reaches_the_program_and_the_host(
    root: Path, tmp_path: Path
) -> None:
    command, heard = listener(tmp_path)
    a_home(root, "[sessions]\nmax_messages = 10\n" + notify(command))
    alerts: list[holdfast.Alert] = []
    with open_sessions(root, on_alert=alerts.append) as store:
        session = store.create(source="cli")
        store.append(session.id, *[Message(role="user", content="hello")] * 9)
    for thread in threading.enumerate():
        if thread.name == "holdfast-notify":
            thread.join(PATIENCE)
    assert len(alerts) == 1
    (event,) = heard_in(heard)
    assert event["event"] == "session_too_large"
    assert event["details"]["value"] == 9


def test_an_append_does_not_wait_for_the_program(root: Path, tmp_path: Path) -> None:
    """The program waits for a file that is made only after the append."""
    go = tmp_path / "go"
    then = f"while not pathlib.Path({str(go)!r}).exists():\n    time.sleep(0.01)\n"
    command, heard = listener(tmp_path, then)
    a_home(root, "[sessions]\nmax_messages = 10\n" + notify(command, "timeout_seconds = 60"))
    with open_sessions(root) as store:
        session = store.create(source="cli")
        appended = store.append(session.id, *[Message(role="user", content="hello")] * 9)
        assert len(appended.alerts) == 1
    go.touch()
    for thread in threading.enumerate():
        if thread.name == "holdfast-notify":
            thread.join(PATIENCE)
    assert len(heard_in(heard)) == 1


def test_the_variable_is_no_stranger_to_holdfast() -> None:
    assert warnings({"HOLDFAST_EVENT": "cap_near"}) == []


def test_without_a_program_the_log_has_it_all(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    a_home(root, HELD, sessions=4)
    with caplog.at_level(logging.WARNING, logger="holdfast"):
        result = holdfast.maintain(root)
    assert step(result, Step.PRUNE).shortfalls
    assert "cannot be brought below its cap max_count of 2 items" in caplog.text
