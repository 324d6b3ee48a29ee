"""holdfast checkpoints watch; and what `sessions show` says of checkpoints."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from holdfast import Message
from holdfast.api.sessions import open_sessions
from tests.cli.checkpoint_bench import (
    change,
    listed,
    odd,
    run,
    taken,
)
from tests.cli.machine import Machine
from tests.cli.runner import COMMAND, PATIENCE

# --- watch ------------------------------------------------------------------------------------


class Watch:
    """`holdfast checkpoints watch` in the background."""

    def __init__(self, machine: Machine, *args: str) -> None:
        self.process = subprocess.Popen(
            [*COMMAND, *args],
            env=machine.env(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def line(self) -> str:
        assert self.process.stderr is not None
        return self.process.stderr.readline()

    def end(self, how: signal.Signals) -> tuple[int, str, str]:
        self.process.send_signal(how)
        out, err = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, out, err


@contextmanager
def watching(machine: Machine, *args: str) -> Iterator[Watch]:
    started = Watch(machine, *args)
    try:
        yield started
    finally:
        if started.process.poll() is None:
            started.process.kill()
            started.process.communicate()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_watch_takes_what_changes_until_it_is_told_to_end(
    machine: Machine, project: Path, how: signal.Signals
) -> None:
    with watching(machine, "--json", "checkpoints", "watch", str(project)) as watch:
        assert watch.line().startswith(f"watching {project} since checkpoint")
        (project / "src" / "main.py").write_text("changed\n")
        assert watch.line().rstrip().endswith("src/main.py")
        odd(project).write_text("x")
        assert r"odd \xff\n\x1b[31mname" in watch.line()
        code, out, err = watch.end(how)
    assert code == 0
    assert "no longer watching" in err
    document = json.loads(out)
    assert document["workdir"] == str(project)
    assert (document["taken"], document["failed"]) == (2, 0)
    found = listed(machine, project)
    assert document["last"] == found[0].id
    assert [each.files_changed for each in found[:2]] == [1, 1]


def test_watch_is_one_process_at_a_time(machine: Machine, project: Path) -> None:
    with watching(machine, "checkpoints", "watch", str(project)) as watch:
        watch.line()
        second = run(machine, "watch", str(project))
        assert second.code == 4
        assert f"watching {project}" in second.words
        assert watch.end(signal.SIGTERM)[0] == 0


def test_watch_survives_being_stopped_while_more_happens_than_the_kernel_keeps(
    machine: Machine, project: Path
) -> None:
    most = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    with watching(machine, "checkpoints", "watch", str(project)) as watch:
        watch.line()
        watch.process.send_signal(signal.SIGSTOP)
        for number in range(most // 2 + 10):
            os.close(os.open(project / f"file{number}", os.O_CREAT | os.O_WRONLY, 0o600))
        (project / "src" / "last").write_text("x")
        watch.process.send_signal(signal.SIGCONT)
        assert "full scan" in watch.line()
        assert watch.end(signal.SIGTERM)[0] == 0
    assert machine.json("checkpoints", "take", str(project))["outcome"] == "unchanged"


def test_what_cannot_be_watched_is_refused(machine: Machine, project: Path) -> None:
    result = run(machine, "watch", str(machine.user))
    assert result.code == 1
    assert "home directory" in result.words
    assert run(machine, "watch", str(project / "nowhere")).code == 2
    assert run(machine, "watch", str(project), "--settle", "soon").code == 2


def test_watch_ends_when_its_directory_is_gone(machine: Machine, project: Path) -> None:
    with watching(machine, "checkpoints", "watch", str(project)) as watch:
        watch.line()
        project.rename(machine.root / "elsewhere")
        _, err = watch.process.communicate(timeout=PATIENCE)
    assert watch.process.returncode == 1
    assert "is gone" in err


# --- sessions show ----------------------------------------------------------------------------


def test_sessions_show_marks_where_checkpoints_were_taken(machine: Machine, project: Path) -> None:
    with closing(open_sessions(machine.home)) as sessions:
        session = sessions.create(source="cli")
        sessions.append(session.id, Message(role="user", content="please do"))
    taken(machine, project, session=session.id, turn="1")
    with closing(open_sessions(machine.home)) as sessions:
        sessions.append(session.id, Message(role="assistant", content="done"))
    change(project)
    taken(machine, project, session=session.id)
    other = taken_by_another_session(machine, project)
    first, second = [each.id for each in reversed(listed(machine, project))][:2]
    shown = machine.ok("sessions", "show", session.id)
    asked, marked, answered, after = (
        shown.out.index(text)
        for text in ("please do", f"checkpoint {first[:12]} before this", "done", second[:12])
    )
    assert asked < marked < answered < after
    assert f"holdfast checkpoints restore {first[:12]}" in shown.words
    assert other[:12] not in shown.out
    document = machine.json("sessions", "show", session.id)
    assert [each["id"] for each in document["checkpoints"]] == [first, second]
    assert document["checkpoints"][0].keys() == {"id", "time", "reason", "turn"}
    last = machine.ok("sessions", "show", session.id, "--last", "1")
    assert first[:12] in last.out


def taken_by_another_session(machine: Machine, project: Path) -> str:
    (project / "more").write_text("x")
    return taken(machine, project, session="another")


def test_sessions_show_without_a_checkpoint_store_marks_nothing(machine: Machine) -> None:
    with closing(open_sessions(machine.home)) as sessions:
        session = sessions.create(source="cli")
        sessions.append(session.id, Message(role="user", content="please do"))
    assert machine.json("sessions", "show", session.id)["checkpoints"] == []
    assert "checkpoint" not in machine.ok("sessions", "show", session.id).out
