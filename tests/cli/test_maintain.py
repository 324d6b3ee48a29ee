"""holdfast maintain, as a person and as a scheduler use it."""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import plistlib
import re
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.api.budget import HomeShare
from holdfast.api.machine import Machine as Homes
from holdfast.api.machine_watch import Listener, watch
from holdfast.cli.show_budget import done_words
from holdfast.model.maintenance import LookedAfter
from holdfast.model.plan import Plan
from holdfast.model.report import Report
from tests.cli.inside import Inside
from tests.cli.machine import Machine, entries
from tests.cli.runner import COMMAND, PATIENCE
from tests.contract.agent_homes import make_claude

PRUNE = "[sessions]\nauto_prune = true\n"
ALWAYS = "[maintenance]\nmin_interval_hours = 0.00001\n"


@contextmanager
def locked(machine: Machine, name: str) -> Iterator[None]:
    """Somebody else at work."""
    path = machine.home / "operations" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as held:
        held.write("process 4711, `holdfast maintain`")
        held.flush()
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def test_it_says_what_was_done_and_how_to_let_it_prune(used: Machine) -> None:
    before = used.names()
    result = used.ok("maintain")
    assert used.names() == before
    assert "auto_prune is off" in result.words
    assert "holdfast config set sessions.auto_prune true" in result.words
    assert "holdfast sessions prune --dry-run" in result.words
    assert "due again at" in result.words


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ("", "auto_prune is off"),
        (
            "[sessions]\nauto_prune = true\nretention_days = 0\n",
            "the policy has no rule and no cap",
        ),
    ],
)
def test_a_dry_run_says_plainly_why_everything_stays(
    used: Machine, settings: str, why: str
) -> None:
    used.configure(settings)
    used.transcript(days=0)  # touched just now: it stays for that
    plan = used.json("maintain", "--dry-run")["steps"][0]["plan"]
    reasons = Counter(item["reason"].partition(":")[0] for item in plan["items"])
    assert set(reasons) == {why, "in use"}
    assert not [item for item in plan["items"] if item["action"] != "keep"]
    assert re.search(rf"\d B +{why}|B {why}", used.ok("maintain", "--dry-run").words)


def test_with_auto_prune_it_prunes_and_says_how_to_undo(used: Machine) -> None:
    used.configure(PRUNE)
    before = used.names()
    result = used.ok("maintain")
    assert len(used.names()) == 2
    assert "5 removed" in result.words
    assert "auto_prune is off" not in result.words
    assert "holdfast undo 1" in result.words
    used.ok("undo", "--yes")
    assert used.names() == before
    assert "maintain" in used.ok("log").words


def test_the_document(used: Machine) -> None:
    used.configure(PRUNE)
    document = used.json("maintain")
    assert document["ran"] is True
    assert document["removed"] == 5
    assert [step["step"] for step in document["steps"]] == ["settle", "prune", "end", "log"]
    again = used.json("maintain")
    assert (again["ran"], again["skipped"], again["ok"]) == (False, "not_due", True)
    assert again["next_due"] == document["next_due"]


def test_not_due_is_no_failure_and_says_when(used: Machine) -> None:
    used.ok("maintain")
    result = used.ok("maintain")
    assert "Not due" in result.words
    assert "in 23 h" in result.words
    assert "holdfast maintain --force" in result.words
    assert "due again" in used.ok("maintain", "--force").words


def test_a_suggested_command_names_the_home(used: Machine) -> None:
    used.ok("--home", str(used.home), "maintain")
    words = used.ok("--home", str(used.home), "maintain").words
    assert f"holdfast --home {used.home} maintain --force" in words


def test_early_runs_what_is_due_soon(used: Machine) -> None:
    used.ok("maintain")
    assert used.json("maintain", "--early", "2h")["ran"] is False
    assert used.json("maintain", "--early", "1d")["ran"] is True


def test_a_dry_run_does_nothing(used: Machine) -> None:
    used.configure(PRUNE + "auto_gc = true\n")
    before = entries(used.home)
    result = used.ok("maintain", "--dry-run")
    assert entries(used.home) == before
    assert "The plan removes 5 items" in result.words
    assert result.lines[-1] == "Nothing was changed."
    document = used.json("maintain", "--dry-run")
    assert document["applied"] is False
    assert [step["step"] for step in document["steps"]] == ["prune", "gc", "end"]
    planned = [item["id"] for item in document["steps"][0]["plan"]["items"]]
    done = used.json("maintain")["steps"][1]["reports"][0]["items"]
    assert {item["id"] for item in done} <= set(planned)


def test_another_process_at_it_is_exit_code_4(used: Machine) -> None:
    with locked(used, "maintenance.lock"):
        result = used.run("maintain", "--force")
        assert result.code == 4
        assert "process 4711" in result.words
        assert used.json("maintain", code=4)["skipped"] == "busy"
    assert used.run("maintain").code == 0


def test_a_wrong_configuration_is_exit_code_2(used: Machine) -> None:
    used.configure("[session]\n")
    result = used.run("maintain")
    assert result.code == 2
    assert 'did you mean "sessions"?' in result.err


def test_a_step_that_failed_is_exit_code_1(used: Machine) -> None:
    used.configure(PRUNE)
    (used.home / "sessions.db").write_bytes(b"not a database at all" * 1000)
    result = used.run("maintain")
    assert result.code == 1
    assert "failed" in result.out
    assert "error: maintenance step prune failed" in result.err


def test_events_are_told_on_stderr(used: Machine) -> None:
    used.configure("[sessions]\nmax_count = 6\n")
    result = used.run("--json", "maintain")
    assert result.code == 0
    assert result.document["events"][0]["event"] == "cap_near"
    assert "warning: " in result.err
    assert "is near its cap max_count of 6 items" in result.err


@pytest.mark.parametrize(
    "flags",
    ["--watch --install cron", "--watch --dry-run", "--install cron --force", "--early soon"],
)
def test_flags_that_make_no_sense(used: Machine, flags: str) -> None:
    assert used.run("maintain", *flags.split()).code == 2


def test_a_mistyped_scheduler_gets_its_neighbour(used: Machine) -> None:
    result = used.run("maintain", "--install", "systmd")
    assert result.code == 2
    assert "Did you mean 'systemd'?" in result.words


def test_a_dry_run_shows_the_policies_that_are_on(stored: Machine) -> None:
    policies = "auto_archive = true\narchive_after_days = 20\nfiles_retention_days = 20\n"
    stored.configure(f"[sessions]\n{policies}")
    document = stored.json("maintain", "--dry-run")
    steps = {each["step"]: each["plan"]["items"] for each in document["steps"]}
    assert list(steps)[:3] == ["auto_archive", "upkeep", "files"]
    going = [each["id"] for each in steps["auto_archive"] if each["action"] == "archive"]
    assert going
    shown = stored.ok("maintain", "--dry-run")
    assert "Archive old sessions" in shown.words
    assert "Files of old sessions" in shown.words
    done = stored.ok("maintain")
    assert f"{len(going)} archived" in done.words
    archived = stored.json("sessions", "list", "--archived")["sessions"]
    assert sorted(each["id"] for each in archived) == sorted(going)


# --- Watching -------------------------------------------------------------------------------------


@contextmanager
def watching(machine: Machine, *flags: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [*COMMAND, *flags, "maintain", "--watch"],
        env=machine.env(),
        cwd=machine.root,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def lines_until(process: subprocess.Popen[str], phrase: str, times: int = 1) -> list[str]:
    """The log up to the line that says this so often."""
    assert process.stderr is not None
    seen: list[str] = []
    while sum(phrase in line for line in seen) < times:
        line = process.stderr.readline()
        assert line, seen
        seen.append(line)
    return seen


def test_a_watch_runs_whenever_it_is_due_and_ends_when_told(used: Machine) -> None:
    used.configure(PRUNE + ALWAYS)
    with watching(used) as process:
        seen = lines_until(process, ": done:", times=3)
        assert f"watching {used.home}" in seen[0]
        assert sum("5 removed" in line for line in seen) == 1
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
    assert len(used.names()) == 2


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT], ids=["term", "int"])
def test_a_watch_that_sleeps_ends_at_once(used: Machine, ending: signal.Signals) -> None:
    with watching(used, "--json") as process:
        lines_until(process, "next at")
        process.send_signal(ending)
        out, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0
    assert json.loads(out) == {"homes": 1, "runs": 1, "failed": 0}
    assert "Traceback" not in err


def test_a_watch_that_sleeps_wakes_when_the_configuration_changes(tmp_path: Path) -> None:
    """Without it the sleep would last a day."""
    runs: list[LookedAfter] = []

    class Sleeper:
        """It edits the configuration in its first sleep, and must not sleep much longer."""

        slept = 0

        def step(self, label: str, done: int, total: int | None) -> None: ...

        def stop_requested(self) -> bool:
            return len(runs) == 2

        def sleep(self, seconds: float) -> None:
            self.slept += 1
            assert self.slept < 3, "it did not see the change"
            (tmp_path / "config.toml").write_text(PRUNE)

    (tmp_path / "config.toml").write_text("")
    homes = Homes(tmp_path, environ={}, only=tmp_path)
    listener = Listener(in_words=lambda _: "", looked_after=runs.append)
    later = itertools.count(step=30.0)
    watch(homes, Sleeper(), listener, clock=time.time, monotonic=lambda: next(later))
    assert [run.ran for run in runs] == [True, True]


def test_only_one_watches_a_home(used: Machine) -> None:
    with watching(used) as process:
        lines_until(process, "next at")
        second = used.run("maintain", "--watch")
        assert second.code == 4
        assert f"process {process.pid}, `holdfast maintain --watch`" in second.words
        assert used.json("--json", "maintain", "--watch", code=4)["error"]["kind"] == "busy"
        assert used.json("maintain")["skipped"] == "not_due", "watching is not running"
    with watching(used) as process:
        lines_until(process, "watching")


def test_a_failing_run_does_not_end_a_watch(used: Machine) -> None:
    used.configure(PRUNE + ALWAYS)
    (used.home / "sessions.db").write_bytes(b"not a database at all" * 1000)
    with watching(used) as process:
        lines_until(process, ": failed:", times=2)
        (used.home / "sessions.db").unlink()
        lines_until(process, ": done:")
        used.configure("[session]\n")
        lines_until(process, "unknown key")
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0


def test_a_watch_of_a_wrong_home_fails_at_once(machine: Machine) -> None:
    assert machine.run("--home", str(machine.home), "maintain", "--watch").code == 2


# --- Installing -----------------------------------------------------------------------------------


@pytest.fixture
def tools(used: Machine) -> Path:
    """A folder of programs in front of all others."""
    folder = used.root / "tools"
    folder.mkdir()
    used.environment = {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
    return folder


def program(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def units(machine: Machine) -> Path:
    return machine.user / ".config" / "systemd" / "user"


def test_the_units_are_shown_and_nothing_is_written(used: Machine) -> None:
    result = used.ok("--home", str(used.home), "maintain", "--install", "systemd", "--dry-run")
    assert f"{units(used)}/holdfast-maintain.service" in result.words.replace(" ", "")
    assert "OnCalendar=daily" in result.out
    assert "Persistent=true" in result.out
    assert "RandomizedDelaySec=1h" in result.out
    assert not units(used).exists()


def test_without_a_terminal_and_without_yes_nothing_is_installed(used: Machine) -> None:
    for scheduler in ("systemd", "cron"):
        result = used.run("--home", str(used.home), "maintain", "--install", scheduler)
        assert result.code == 3
        assert "no terminal" in result.err
    assert not units(used).exists()


def test_a_no_is_a_no(used: Machine) -> None:
    with used.terminal("--home", str(used.home), "maintain", "--install", "systemd") as terminal:
        terminal.wait_for("Install this? [y/N]")
        terminal.type("n\n")
        assert terminal.end().code == 3
    assert not units(used).exists()


def test_the_timer_is_written_and_turned_on(used: Machine, tools: Path) -> None:
    program(tools / "systemctl", f'echo "$@" >> "{tools}/said"')
    result = used.ok("--home", str(used.home), "maintain", "--install", "systemd", "--yes")
    service = (units(used) / "holdfast-maintain.service").read_text()
    assert f'"--home" "{used.home}" "maintain" "--early" "2h"' in service
    assert "WantedBy=timers.target" in (units(used) / "holdfast-maintain.timer").read_text()
    assert (tools / "said").read_text().splitlines() == [
        "--user daemon-reload",
        "--user enable --now holdfast-maintain.timer",
    ]
    assert f"holdfast --home {used.home} maintain --uninstall systemd" in result.err
    again = used.ok("--home", str(used.home), "maintain", "--install", "systemd", "--yes")
    assert "replaces the one that is there" in again.words


def test_where_systemctl_does_not_work_the_commands_are_told(used: Machine, tools: Path) -> None:
    program(tools / "systemctl", "echo 'Failed to connect to bus' >&2; exit 1")
    used.environment = {**used.environment, "XDG_CONFIG_HOME": str(used.root / "xdg")}
    result = used.ok("--home", str(used.home), "maintain", "--install", "systemd", "--yes")
    assert (used.root / "xdg" / "systemd" / "user" / "holdfast-maintain.timer").is_file()
    assert "Failed to connect to bus" in result.err
    assert "systemctl --user enable --now holdfast-maintain.timer" in result.err
    document = used.json("--home", str(used.home), "maintain", "--install", "systemd", "--yes")
    assert (document["installed"], document["turned_on"]) == (True, False)
    assert len(document["files"]) == 2


def test_what_the_unit_runs_is_what_was_meant(used: Machine, tools: Path) -> None:
    """A home whose name needs every kind of escape."""
    program(tools / "systemctl", "exit 0")
    home = used.root / "a \"b\" %h $HOME \\x41 'c' ;é"
    used.file(home / "sessions" / "sessions.json")
    document = used.json("--home", str(home), "maintain", "--install", "systemd", "--yes")
    service = next(each for each in document["files"] if each["path"].endswith(".service"))
    line = next(each for each in service["content"].splitlines() if each.startswith("ExecStart="))
    assert line.endswith(
        f'"--home" "{used.root}/a \\"b\\" %%h $$HOME \\\\x41 \'c\' ;é" "maintain" "--early" "2h"'
    )
    assert "holdfast-maintain-" in service["path"]


CRONTAB = """
case "$1" in
  -l) if [ -f "$0.tab" ]; then cat "$0.tab"; else echo "no crontab for you" >&2; exit 1; fi ;;
  -) cat > "$0.tab" ;;
  *) exit 2 ;;
esac
"""


def test_the_crontab_line_is_added_and_other_lines_stay(used: Machine, tools: Path) -> None:
    program(tools / "crontab", CRONTAB)
    table = tools / "crontab.tab"
    table.write_bytes(b"# mine\n*/5 * * * * true \xff%x")
    result = used.ok("--home", str(used.home), "maintain", "--install", "cron", "--yes")
    first, second, ours = table.read_bytes().splitlines()
    assert (first, second) == (b"# mine", b"*/5 * * * * true \xff%x")
    assert f"--home {used.home} maintain --early 2h >/dev/null # holdfast-maintain " in (
        ours.decode()
    )
    assert ours.decode() in result.out
    assert f"holdfast --home {used.home} maintain --uninstall cron" in result.err
    minute, hour = map(int, ours.split()[:2])
    assert 0 <= minute < 60
    assert 0 <= hour < 6


def test_installing_again_replaces_the_line_of_the_same_home_only(
    used: Machine, tools: Path
) -> None:
    program(tools / "crontab", CRONTAB)
    other = used.root / "other 100%"
    used.file(other / "sessions" / "sessions.json")
    for _ in range(2):
        used.ok("--home", str(used.home), "maintain", "--install", "cron", "--yes")
        used.ok("--home", str(other), "maintain", "--install", "cron", "--yes")
    lines = (tools / "crontab.tab").read_text().splitlines()
    assert len(lines) == 2
    assert f"--home '{used.root}/other 100\\%' maintain" in lines[1]


def test_the_line_runs_as_cron_would_run_it(used: Machine, tools: Path) -> None:
    program(tools / "crontab", CRONTAB)
    home = used.root / "it's 100% mine"
    used.file(home / "sessions" / "sessions.json")
    line = used.json("--home", str(home), "maintain", "--install", "cron", "--yes")["line"]
    command = line.split(" ", 5)[5].replace("\\%", "%")
    done = subprocess.run(["/bin/sh", "-c", command], env=used.env(), check=False, timeout=PATIENCE)
    assert done.returncode == 0
    assert (home / "operations" / "maintenance.json").is_file()


def test_a_crontab_that_cannot_be_read_is_not_overwritten(used: Machine, tools: Path) -> None:
    program(
        tools / "crontab", 'case "$1" in -l) echo "not allowed" >&2; exit 1 ;; esac; touch "$0.tab"'
    )
    result = used.run("--home", str(used.home), "maintain", "--install", "cron", "--yes")
    assert result.code == 1
    assert "not allowed" in result.err
    assert not (tools / "crontab.tab").exists()


def test_without_a_crontab_program_the_line_is_told(used: Machine, tools: Path) -> None:
    used.environment = {"PATH": str(tools)}
    result = used.run("--home", str(used.home), "maintain", "--install", "cron", "--yes")
    assert result.code == 1
    assert "maintain --early 2h" in result.words
    assert "There is no `crontab` program here" in result.err
    assert (
        used.json("--home", str(used.home), "maintain", "--install", "cron", "--yes", code=1)[
            "installed"
        ]
        is False
    )


# --- All homes ------------------------------------------------------------------------------------


def test_a_watch_of_the_machine_watches_every_home(used: Machine) -> None:
    make_claude(used.user / ".claude")
    with watching(used, "--json") as process:
        seen = lines_until(process, "next at", times=2)
        for home in (used.home, used.user / ".claude"):
            assert any(f"watching {home}" in line for line in seen), seen
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, err
    assert json.loads(out) == {"homes": 2, "runs": 2, "failed": 0}


@pytest.fixture
def inside(used: Machine, tools: Path) -> Inside:
    for each in ("systemctl", "launchctl"):
        program(tools / each, f'echo "{each} $@" >> "{tools}/said"')
    program(tools / "crontab", CRONTAB)
    return Inside(used)


def test_the_service_keeps_running_and_is_taken_away_again(inside: Inside, tools: Path) -> None:
    used = inside.machine
    inside.ok("maintain", "--install", "systemd", "--yes")
    unit = units(used) / "holdfast-watch.service"
    text = unit.read_text()
    assert text.count('"holdfast" "maintain" "--watch"\n') == 1
    for line in ("Restart=on-failure", "NoNewPrivileges=yes", "MemoryMax=", "SuccessExitStatus=4"):
        assert line in text
    verified = shutil.which("systemd-analyze") and subprocess.run(
        ["systemd-analyze", "--user", "verify", unit],
        env={**used.env(), "XDG_RUNTIME_DIR": str(used.root)},
        capture_output=True,
        check=False,
        text=True,
    )
    assert not verified or "nknown" not in verified.stderr, verified
    inside.ok("maintain", "--uninstall", "systemd", "--yes")
    assert not unit.exists()
    assert "nothing to remove" in inside.ok("maintain", "--uninstall", "systemd", "--yes").out
    assert (tools / "said").read_text().splitlines() == [
        "systemctl --user daemon-reload",
        "systemctl --user enable --now holdfast-watch.service",
        "systemctl --user disable --now holdfast-watch.service",
        "systemctl --user daemon-reload",
    ]


def test_launchd_gets_a_file_that_it_can_read(inside: Inside, tools: Path) -> None:
    used = inside.machine
    odd = used.root / "a <b> & 'c' é"
    used.file(odd / "sessions" / "sessions.json")
    folder = used.user / "Library" / "LaunchAgents"
    inside.ok("maintain", "--install", "launchd", "--yes")
    inside.ok("--home", str(odd), "maintain", "--install", "launchd", "--yes")
    found = {path.name: plistlib.loads(path.read_bytes()) for path in folder.iterdir()}
    standing = found.pop("holdfast.watch.plist")
    assert standing["ProgramArguments"][-2:] == ["maintain", "--watch"]
    assert standing["KeepAlive"] == {"SuccessfulExit": False}
    [nightly] = found.values()
    assert nightly["ProgramArguments"][-5:] == ["--home", str(odd), "maintain", "--early", "2h"]
    assert nightly["StartCalendarInterval"].keys() == {"Hour", "Minute"}
    inside.ok("maintain", "--uninstall", "launchd", "--yes")
    assert len(list(folder.iterdir())) == 1
    said = (tools / "said").read_text()
    assert f"launchctl bootout gui/{os.getuid()}/holdfast.watch" in said


def test_the_line_of_cron_is_taken_away_and_others_stay(inside: Inside, tools: Path) -> None:
    (tools / "crontab.tab").write_bytes(b"# mine\n")
    inside.ok("maintain", "--install", "cron", "--yes")
    inside.ok("--home", str(inside.machine.home), "maintain", "--install", "cron", "--yes")
    lines = (tools / "crontab.tab").read_text().splitlines()
    assert "maintain --all-homes --early 2h" in lines[1]
    inside.ok("maintain", "--uninstall", "cron", "--yes")
    assert (tools / "crontab.tab").read_text().splitlines() == [lines[0], lines[2]]
    assert inside.run("maintain", "--uninstall", "cron").code == 0
    assert inside.run("maintain", "--uninstall", "systemd", "--watch").code == 2


def test_a_budget_is_not_forgotten_when_it_says_what_goes(inside: Inside) -> None:
    """It does not say that nothing is pruned where a budget prunes, nor name an operation that did
    not happen."""
    inside.machine.configure("[guardian]\nmax_total_size_mb = 1\nreserve_mb = 0\n")
    said = inside.ok("maintain", "--force").out
    assert "prunes only the sessions that the budget of all homes requires" in " ".join(
        said.split()
    )
    empty = Plan(home="/h", command="maintain", made_at=0.0, items=())
    share = HomeShare(home="/h", bytes=1, plan=empty, report=Report(operation=None))
    assert "None" not in done_words(share)
