"""What a host does to its machine without the command: agents connected, maintenance scheduled."""

from __future__ import annotations

import os
import plistlib
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.api import disks
from holdfast.api.agent_home import AgentHome
from holdfast.errors import (
    ClosedError,
    ConfigError,
    EmptyPolicyError,
    NotAHomeError,
    StalePlanError,
    StorageError,
    UsageError,
)
from holdfast.model.figures import DiskRoom
from holdfast.model.session import Search
from tests.stored import a_line, bring_in
from tests.trees import everything

_NOW = 1_700_000_000.0
DAY = 86_400.0
_SAYS_ALL = 'echo "$0 $@" >> "$HOME/said"'
_CRONTAB = """case "$1" in
  -l) [ -f "$HOME/tab" ] && cat "$HOME/tab" || { echo "no crontab for you" >&2; exit 1; } ;;
  -) cat > "$HOME/tab" ;;
esac"""


def _user(place: Path, **programs: str) -> Mapping[str, str]:
    """The environment of a user who has these programs."""
    tools = place / "tools"
    tools.mkdir()
    for name, script in programs.items():
        (tools / name).write_text(f"#!/bin/sh\n{script}\n")
        (tools / name).chmod(stat.S_IRWXU)
    return {"HOME": str(place), "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"}


def _machine(place: Path, environ: Mapping[str, str]) -> holdfast.Machine:
    return holdfast.machine(user_home=place, environ=environ, clock=lambda: _NOW)


def test_a_schedule_is_shown_installed_and_taken_away(tmp_path: Path) -> None:
    machine = _machine(tmp_path, _user(tmp_path, systemctl=_SAYS_ALL))
    schedule = machine.plan_schedule("systemd", program=("/opt/holdfast",))
    [path] = schedule.files
    assert path == tmp_path / ".config/systemd/user/holdfast-watch.service"
    assert b'ExecStart="/opt/holdfast" "maintain" "--watch"\n' in schedule.files[path]
    assert (path.exists(), schedule.installed()) == (False, [])
    done = schedule.install()
    assert (done.problem, done.replaced) == (None, False)
    assert path.read_bytes() == schedule.files[path]
    assert machine.plan_schedule("systemd").installed() == [str(path)]
    assert schedule.install().replaced
    assert schedule.uninstall().problem is None
    assert not path.exists()
    assert "--user disable --now holdfast-watch.service" in (tmp_path / "said").read_text()


@pytest.mark.parametrize("scheduler", ["systemd", "launchd"])
def test_a_unit_that_somebody_else_wrote_stays(scheduler: str, tmp_path: Path) -> None:
    """Nor is it turned off, whatever is in the other files of the job."""
    environ = _user(tmp_path, systemctl=_SAYS_ALL, launchctl=_SAYS_ALL)
    home = tmp_path / ".holdfast"
    holdfast.open(home, create=True).close()
    schedule = _machine(tmp_path, environ).plan_schedule(scheduler, home=home)
    *others, path = schedule.files
    path.parent.mkdir(parents=True)
    theirs = tmp_path / "dotfiles" / path.name
    theirs.parent.mkdir()
    theirs.write_bytes(schedule.files[path])

    def by_hand() -> None:
        path.write_text("[Service]\nExecStart=/usr/local/bin/my-watch\n")

    for put in (by_hand, lambda: path.symlink_to(theirs), path.mkdir):
        put()
        before = everything(path.parent)
        for act in (schedule.install, schedule.installed, schedule.uninstall):
            with pytest.raises(StorageError, match="was not written by Holdfast, so it was left"):
                act()
            assert everything(path.parent) == before
        assert not (tmp_path / "said").exists()
        assert not any(each.exists() for each in others)
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    assert schedule.install().problem is None


@pytest.mark.parametrize("scheduler", ["systemd", "launchd"])
@pytest.mark.parametrize("act", ["install", "uninstall"])
def test_what_the_user_changed_in_a_unit_is_kept_beside_it(
    scheduler: str, act: str, tmp_path: Path
) -> None:
    environ = _user(tmp_path, systemctl=_SAYS_ALL, launchctl=_SAYS_ALL)
    schedule = _machine(tmp_path, environ).plan_schedule(scheduler)
    [path] = schedule.files
    schedule.install()
    for number in (1, 2):
        changed = schedule.files[path] + b"\n# Mine, number %d\n" % number
        path.write_bytes(changed)
        done = getattr(schedule, act)()
        [kept] = done.kept
        assert Path(kept) == path.with_name(f"{path.name}.kept-{number}")
        assert Path(kept).read_bytes() == changed
        assert path.exists() == (act == "install")
    assert not getattr(schedule, act)().kept


def test_a_launchd_file_of_an_earlier_version_is_ours(tmp_path: Path) -> None:
    """It has no mark."""
    environ = _user(tmp_path, launchctl=_SAYS_ALL)
    schedule = _machine(tmp_path, environ).plan_schedule("launchd")
    [path] = schedule.files
    schedule.install()
    path.write_bytes(plistlib.dumps(plistlib.loads(path.read_bytes())))
    assert schedule.installed() == [str(path)]
    schedule.uninstall()
    assert not path.exists()


def test_where_the_scheduler_does_not_answer_the_files_are_written(tmp_path: Path) -> None:
    environ = _user(tmp_path, launchctl="echo 'no such domain' >&2; exit 5")
    schedule = _machine(tmp_path, environ).plan_schedule("launchd")
    done = schedule.install()
    assert done.problem is not None
    assert "no such domain" in done.problem
    assert all(path.is_file() for path in schedule.files)


def test_the_crontab_keeps_the_lines_of_others(tmp_path: Path) -> None:
    home = tmp_path / "a home"
    holdfast.open(home, create=True).close()
    (tmp_path / "tab").write_bytes(b"0 1 * * * theirs \xff")
    machine = _machine(tmp_path, _user(tmp_path, crontab=_CRONTAB))
    schedule = machine.plan_schedule("cron", home=home)
    assert not schedule.installed()
    schedule.install()
    theirs, ours = (tmp_path / "tab").read_bytes().splitlines()
    assert theirs == b"0 1 * * * theirs \xff"
    assert ours.decode() == schedule.line
    assert f"--home '{home}' maintain --early 2h" in ours.decode()
    assert list(schedule.installed()) == [schedule.line]
    assert schedule.install().replaced
    schedule.uninstall()
    assert (tmp_path / "tab").read_bytes() == b"0 1 * * * theirs \xff\n"


@pytest.mark.parametrize("scheduler", ["systemd", "launchd", "cron"])
@pytest.mark.parametrize("program", [[1], [], [""], ["/bin/a", "b\0c"], 5, b"holdfast"])
def test_a_program_is_one_or_more_words(scheduler: str, program: Any, tmp_path: Path) -> None:
    machine = _machine(tmp_path, _user(tmp_path))
    with pytest.raises(UsageError, match=r"^program must be"):
        machine.plan_schedule(scheduler, program=program)


def test_what_would_never_run_is_not_scheduled(tmp_path: Path) -> None:
    machine = _machine(tmp_path, _user(tmp_path))
    with pytest.raises(UsageError, match="no scheduler 'systemdd'") as refused:
        machine.plan_schedule("systemdd")
    assert "Did you mean 'systemd'?" in str(refused.value.hint)
    with pytest.raises(UsageError, match="sequence of words"):
        machine.plan_schedule("cron", program="holdfast")
    with pytest.raises(UsageError, match="must be text"):
        machine.plan_schedule(["cron"])  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"A crontab line cannot contain '/bin/a\\n'\."):
        machine.plan_schedule("cron", program=["/bin/a\n"])
    with pytest.raises(NotAHomeError):
        machine.plan_schedule("cron", home=tmp_path / "nothing")
    home = tmp_path / "home"
    holdfast.open(home, create=True).close()
    (home / "config.toml").write_text("[sessions]\nretention_days = -1\n")
    with pytest.raises(UsageError, match="retention_days"):
        machine.plan_schedule("cron", home=home)


def test_an_agent_is_connected_and_disconnected(tmp_path: Path) -> None:
    settings = tmp_path / ".claude" / "settings.json"
    settings.parent.mkdir()
    before = '{"model": "opus"}\n'
    settings.write_text(before)
    machine = _machine(tmp_path, {"PATH": os.environ["PATH"]})
    planned = machine.plan_connect("claude")
    assert [each.path for each in planned.rewrites] == [str(settings)]
    assert settings.read_text() == before
    assert not (tmp_path / ".holdfast").exists()
    report = planned.apply()
    assert report.report.changed == 1
    [connected] = [each for each in machine.connections(project=tmp_path) if each.connected]
    assert (connected.agent, connected.scope, connected.path) == ("claude-code", "user", settings)
    assert (connected.home, connected.off) == (tmp_path / ".holdfast", "")
    with holdfast.open(tmp_path / ".holdfast") as home:
        assert [each.command for each in home.log.read().operations] == ["connect"]
    assert machine.plan_connect("claude-code").rewrites == []
    assert machine.plan_disconnect("claude-code").apply().report.changed == 1
    assert settings.read_text() == before
    machine.plan_connect("claude-code").apply().undo()
    assert settings.read_text() == before


def test_a_check_up_tries_the_hooks_of_the_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".claude").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    machine = _machine(tmp_path, {"PATH": os.environ["PATH"]})
    machine.plan_connect("claude").apply()
    with holdfast.open(tmp_path / ".holdfast") as home:
        assert home.doctor().hooks == ()
        for hooks in (True, machine.hook_setup(project=tmp_path)):
            found = home.doctor(hooks=hooks)
            [report] = found.hooks
            assert (report.agent, report.problem, len(report.tried)) == ("claude-code", "", 5)
            assert "hook of claude-code" in {each.check for each in found.findings}
    with holdfast.open(tmp_path / "other", create=True) as other:
        assert other.doctor(hooks=machine.hook_setup(home=other.path)).hooks == ()


def test_who_has_to_be_connected_again_is_known(tmp_path: Path) -> None:
    (tmp_path / ".claude").mkdir()
    machine = _machine(tmp_path, {"PATH": os.environ["PATH"]})
    assert machine.connections_to_renew(fails_closed=True, project=tmp_path) == []
    machine.plan_connect("claude").apply()
    [told] = machine.connections_to_renew(fails_closed=True, project=tmp_path)
    assert (told.agent, told.scope) == ("claude-code", "user")
    assert machine.connections_to_renew(fails_closed=False, project=tmp_path) == []
    elsewhere = machine.connections_to_renew(fails_closed=True, home=tmp_path / "other")
    assert elsewhere == []


def test_a_project_is_connected_apart_from_the_user(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    machine = _machine(tmp_path, {"PATH": os.environ["PATH"]})
    machine.plan_connect("gemini", scope="project", project=project).apply()
    assert (project / ".gemini" / "settings.json").is_file()
    assert not (tmp_path / ".gemini").exists()
    found = {
        (each.agent, each.scope) for each in machine.connections(project=project) if each.connected
    }
    assert found == {("gemini", "project")}
    with pytest.raises(UsageError, match="scope must be"):
        machine.plan_connect("gemini", scope="everywhere")
    with pytest.raises(UsageError, match="There is no project at"):
        machine.plan_connect("gemini", scope="project", project=tmp_path / "typo")
    with pytest.raises(UsageError, match="must be text"):
        machine.plan_connect(["gemini"])  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="cannot connect to 'aider'"):
        machine.plan_connect("aider")


def test_advice_about_a_connection_names_methods(tmp_path: Path) -> None:
    machine = _machine(tmp_path, {"PATH": os.environ["PATH"]})
    machine.plan_connect("codex").apply()
    (tmp_path / ".codex" / "config.toml").write_text("")  # what Codex trusted is gone
    [codex] = [each for each in machine.connections(project=tmp_path) if each.connected]
    assert "`machine.plan_connect('codex')` puts that right" in codex.off


def test_no_plan_is_carried_out_on_a_closed_home(tmp_path: Path) -> None:
    folder, project = tmp_path / "home", tmp_path / "project"
    project.mkdir()
    (project / "a file").write_text("one")
    with holdfast.open(folder, create=True, clock=lambda: _NOW) as home:
        name, other = (home.sessions.create(source="cli").id for _ in range(2))
        for each in (name, other):
            home.sessions.end(each)
        home.archive_sessions(other)
        deleted = home.delete(name)
        home.undo(deleted.operation or "")
        home.checkpoints.take(project)
        [taken] = home.checkpoints.list(project)
        (project / "a file").write_text("two")
        plans: list[Any] = [
            home.plan_prune(max_count=1),
            home.plan_delete(name),
            home.plan_archive(name),
            home.plan_restore_sessions(other),
            home.plan_undo(),
            home.plan_redo(deleted.operation or ""),
            home.trash.plan_empty(),
            home.archive.plan_prune(older_than="1s"),
            home.checkpoints.plan_delete(taken),
            home.checkpoints.plan_clear(),
            home.checkpoints.plan_restore(taken),
        ]
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    for plan in plans:
        with pytest.raises(ClosedError, match="was closed"):
            plan.apply()
    with pytest.raises(ClosedError, match="was closed"):
        deleted.undo()
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}


def test_a_closed_home_says_so(tmp_path: Path) -> None:
    home = holdfast.open(tmp_path / "home", create=True)
    sessions = home.sessions
    name = sessions.create(source="cli").id
    home.close()
    home.close()
    tries: list[Callable[[], object]] = [
        lambda: home.sessions,
        home.status,
        home.log.read,
        home.trash.list,
        home.archive.find,
        home.checkpoints.list,
        lambda: home.checkpoints.take(tmp_path),
        lambda: home.plan_delete(name),
        home.undo_latest,
        home.doctor,
        home.alarms,
        home.__enter__,
    ]
    for each in tries:
        with pytest.raises(ClosedError, match="was closed"):
            each()
    calls: list[Callable[[], object]] = [lambda: sessions.get(name), lambda: sessions.end(name)]
    for each in calls:
        with pytest.raises(ClosedError, match="was closed") as closed:
            each()
        assert isinstance(closed.value, StorageError)
        assert "open that with `holdfast.open(path)`" in (closed.value.hint or "")
        assert closed.value.kind == "closed"
    result = home.maintain(force=True)  # which never raises
    assert (result.ok, result.error_kind) == (False, "closed")
    assert home.path == tmp_path / "home"
    with holdfast.open(home.path) as again:
        assert again.sessions.get(name).id == name


# --- Work in several homes ------------------------------------------------------------------------


@pytest.fixture
def two(tmp_path: Path) -> Iterator[holdfast.Machine]:
    """Two homes with the same sessions, of which a retention of 90 days lets two go."""
    homes = (tmp_path / ".holdfast", tmp_path / "other")
    for home in homes:
        at = _NOW - 200 * DAY
        bring_in(
            home,
            [a_line("old-1", at=at, size=400_000), a_line("old-2", at=at), a_line("new", at=_NOW)],
            now=_NOW,
        )
    (homes[0] / "config.toml").write_text(f'homes = ["{homes[1]}"]\n')
    with _machine(tmp_path, {}) as machine:
        yield machine


def _sessions(machine: holdfast.Machine) -> list[list[str]]:
    found = []
    for home in machine.homes:
        with holdfast.open(home.path, clock=lambda: _NOW) as opened:
            found.append(sorted(each.id for each in opened.sessions.find()))
    return found


def test_a_plan_over_all_homes_is_one_run(two: holdfast.Machine) -> None:
    planned = two.plan(lambda home: home.plan_prune())
    assert [len(each.removals) for _, each in planned.plans] == [2, 2]
    planned.expect_same({home.name: each.fingerprint for home, each in planned.plans})
    with pytest.raises(StalePlanError):
        planned.expect_same({home.name: each.fingerprint for home, each in planned.plans[:1]})
    done = planned.apply()
    assert [each.report.removed for each in done if each.report] == [2, 2]
    assert _sessions(two) == [["new"], ["new"]]
    [run] = {each.run for _, log in two.logs().seen for each in log.operations}
    assert run is not None
    operations = two.operations_of_run(run)
    assert [(each.can("undo"), each.can("redo")) for each in operations] == [(True, False)] * 2
    assert len(two.plan_run(run, "undo").apply()) == 2
    assert _sessions(two) == [["new", "old-1", "old-2"]] * 2
    assert two.plan_run(run, "undo").plans == []
    assert [each.can("redo") for each in two.operations_of_run(run)] == [True, True]
    two.plan_run(run, "redo").apply()
    assert _sessions(two) == [["new"], ["new"]]


def test_a_run_that_no_log_has_is_an_error(two: holdfast.Machine) -> None:
    assert two.operations_of_run("0123") == []
    for run, verb in (("0123", "undo"), ("0123", "forget")):
        with pytest.raises(UsageError):
            two.plan_run(run, verb)


def test_a_plan_for_some_homes_raises_and_one_for_all_names_who_fails(
    two: holdfast.Machine,
) -> None:
    first, second = two.homes
    planned = two.plan(lambda home: home.plan_delete("old-1"), homes=[second])
    assert [home for home, _ in planned.plans] == [second]
    (second.path / "config.toml").write_text("[sessions]\nretention_days = -1\n")
    two.close()
    everywhere = two.plan(lambda home: home.plan_prune())
    assert [home for home, _ in everywhere.plans] == [first]
    assert [each.path for each in everywhere.unread] == [second.path]
    with pytest.raises(ConfigError):
        two.plan(lambda home: home.plan_prune(), homes=[second])


def test_a_home_without_a_rule_is_passed_over_unless_none_has_one(two: holdfast.Machine) -> None:
    first, second = two.homes
    (second.path / "config.toml").write_text("[sessions]\nretention_days = 0\n")
    planned = two.plan(lambda home: home.plan_prune())
    assert [home for home, _ in planned.plans] == [first]
    with (first.path / "config.toml").open("a") as config:
        config.write("[sessions]\nretention_days = 0\n")
    two.close()
    with pytest.raises(EmptyPolicyError):
        two.plan(lambda home: home.plan_prune())


def test_a_home_that_fails_keeps_nobody_from_the_others(two: holdfast.Machine) -> None:
    first, second = two.homes
    planned = two.plan(lambda home: home.plan_prune(), homes=two.homes)
    two.open(first).close()
    done = {each.home: each for each in planned.apply()}
    assert isinstance(done[first].error, ClosedError)
    report = done[second].report
    assert report is not None
    undone = two.undo_each([(first, "77"), (second, str(report.operation))])
    assert [each.error is None for each in undone] == [False, True]
    assert _sessions(two) == [["new", "old-1", "old-2"]] * 2


def test_what_frees_most_comes_first_where_a_disk_is_nearly_full(
    two: holdfast.Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = two.homes

    def plan(home: AgentHome) -> holdfast.HomePlan:
        return two.open(home).plan_prune(use_trash=home == first)

    assert two.in_order_of_room(plan) == [first, second]
    full = DiskRoom(size=1 << 40, free=1 << 20)
    monkeypatch.setattr(disks, "disk_room", lambda _: full)
    assert two.in_order_of_room(plan) == [second, first]

    def fails(home: AgentHome) -> holdfast.HomePlan:
        if home == first:
            raise UsageError("it cannot be planned")
        return plan(home)

    assert two.in_order_of_room(fails) == [second, first]


# --- A machine takes what a home takes ------------------------------------------------------------


def test_a_machine_is_asked_like_a_home(tmp_path: Path) -> None:
    with holdfast.open(tmp_path / ".holdfast", create=True) as home:
        for source in ("cli", "cron"):
            made = home.sessions.create(source=source, id=source)
            home.sessions.append(made, holdfast.Message("user", "hello"))
    with holdfast.machine(user_home=tmp_path, environ={}) as machine:
        [found] = machine.list_sessions(source="cron", started_after="1d").found
        assert found.session.id == "cron"
        hits = machine.search_sessions("hello", source="cli", since="1d", limit=5).hits
        assert [hit.session.id for _, hit in hits] == ["cli"]
        assert machine.search_sessions("hello", homes="holdfast", until="1d").hits == []
        assert machine.search_sessions(Search(text="hello")).looked.seen
        [known] = machine.homes
        for way in (known, "holdfast", str(known.path), known.path):
            assert machine.open(way).path == known.path
            assert machine.list_sessions(homes=way).total == 2
            assert machine.list_sessions(homes=[way], archived=True).total == 0
            assert len(machine.disks(way)) == 1
        one = machine.open("holdfast")
        assert one.list_sessions(source="cli").total == 1
        assert one.search_sessions("hello", source="cli").hits[0].session.id == "cli"
        assert machine.located([found.session]) == [(known, ["cron"])]
        with pytest.raises(UsageError, match="No home of this machine is 'holdfst'") as caught:
            machine.open("holdfst")
        assert caught.value.hint == "Did you mean 'holdfast'? The homes are holdfast."
        with pytest.raises(UsageError, match="a Search has its own"):
            machine.search_sessions(Search(text="hello"), limit=1)
        wrong: Sequence[Callable[[], object]] = (
            lambda: machine.open(5),  # type: ignore[arg-type]
            lambda: machine.list_sessions(homes=[5]),  # type: ignore[list-item]
            lambda: machine.search_sessions(5),  # type: ignore[arg-type]
            lambda: machine.list_sessions(sauce="cli"),  # type: ignore[call-arg]
        )
        for call in wrong:
            with pytest.raises(UsageError, match=r"5|sauce"):
                call()
