"""holdfast checkpoints take, list and show."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from holdfast.api.sessions import open_sessions
from tests.cli.checkpoint_bench import (
    ODD_TEXT,
    PROMISED,
    WITH_AN_ID,
    change,
    listed,
    odd,
    ok,
    run,
    taken,
)
from tests.cli.inside import Inside
from tests.cli.machine import Machine
from tests.cli.runner import COMMAND, PATIENCE

# --- take -------------------------------------------------------------------------------------


def test_take_captures_the_current_directory_and_says_how_to_go_back(
    machine: Machine, project: Path
) -> None:
    result = ok(machine, "take", cwd=project)
    known = listed(machine, project)[0].id
    assert f"Took checkpoint {known[:12]} of {project}" in result.words
    assert f"  holdfast checkpoints restore {known[:12]}" in result.lines
    assert not result.coloured
    machine.ok("status")  # a home that has nothing but checkpoints is a home


def test_take_takes_nothing_when_nothing_changed(
    machine: Machine, project: Path, first: str
) -> None:
    document = machine.json("checkpoints", "take", str(project))
    assert (document["outcome"], document["id"]) == ("unchanged", first)
    assert document.keys() == {"outcome", "id", "reason", "not_captured", "excluded"}
    assert "Nothing changed" in ok(machine, "take", str(project)).out
    assert len(listed(machine, project)) == 1


def test_take_names_what_it_could_not_capture(machine: Machine, project: Path) -> None:
    os.mkfifo(project / "pipe")
    (project / "huge").write_bytes(b"x" * 10_000_001)
    document = machine.json("checkpoints", "take", str(project))
    left = {each["path"]: each["reason"] for each in document["not_captured"]}
    assert left.keys() == {"pipe", "huge"}
    assert left["huge"].startswith("too large")
    (project / "new").write_text("x")
    shown = ok(machine, "take", str(project))
    assert "Not captured (2 paths)" in shown.words
    assert left["pipe"] in shown.words


def test_take_remembers_reason_session_and_turn(machine: Machine, project: Path) -> None:
    flags = ["--reason", "before: ä", "--session", "s1", "--turn", "7"]
    assert machine.json("checkpoints", "take", str(project), *flags)["outcome"] == "taken"
    found = listed(machine, project)[0]
    assert (found.reason, found.session, found.turn) == ("before: ä", "s1", "7")
    shown = ok(machine, "list", str(project))
    assert "before: ä" in shown.words
    assert "session s1 turn 7" in shown.words


def test_take_with_paths_looks_at_these_alone(machine: Machine, project: Path, first: str) -> None:
    change(project)
    ok(machine, "take", str(project), "--path", "main.py", cwd=project / "src")
    assert listed(machine, project)[0].files_changed == 1
    ok(machine, "take", str(project))
    assert listed(machine, project)[0].files_changed == 2


def test_a_path_outside_is_refused(machine: Machine, project: Path, first: str) -> None:
    for args in (
        ["take", str(project), "--path", "../outside"],
        ["restore", first, "/etc/passwd", "--yes"],
        ["diff", first, "src/../../outside"],
        ["diff", first, ""],
    ):
        result = run(machine, *args)
        assert result.code == 2, result
        assert "is not in" in result.words or "cannot be empty" in result.words
    assert len(listed(machine, project)) == 1


def test_too_broad_places_are_refused_with_a_reason(machine: Machine) -> None:
    machine.configure("")
    places = {
        Path("/"): "root of the file system",
        machine.user: "home directory",
        machine.home: "contains the checkpoint store",
        machine.root / "nowhere": "no such directory",
    }
    (machine.home / "checkpoints").mkdir()
    for place, why in places.items():
        result = run(machine, "take", str(place))
        code = 1 if place.is_dir() else 2
        assert result.code == code, result
        assert why in result.words, result
        document = machine.json("checkpoints", "take", str(place), code=code)
        assert (document["outcome"], document["id"]) == ("skipped", None)
        assert why in document["reason"]
    assert not (machine.home / "checkpoints" / "store").exists()


def test_a_file_or_an_empty_name_is_no_directory(machine: Machine, project: Path) -> None:
    assert run(machine, "take", str(project / "with space")).code == 2
    assert run(machine, "take", "").code == 2


@pytest.mark.deep  # it waits for half a minute before it gives up
def test_a_store_in_use_is_busy(machine: Machine, project: Path, first: str) -> None:
    change(project)
    (machine.home / "checkpoints" / "store" / "worktrees").mkdir(exist_ok=True)
    with held(machine.home / "checkpoints" / "lock"):
        begun = subprocess.Popen(
            [*COMMAND, "checkpoints", "take", str(project)],
            env=machine.env(),
            stderr=subprocess.PIPE,
        )
        _, err = begun.communicate(timeout=PATIENCE)
    assert begun.returncode == 4
    assert b"reclaiming space" in err
    assert len(listed(machine, project)) == 1


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Somebody else at work."""
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


# --- list, show -------------------------------------------------------------------------------


def test_without_checkpoints_every_command_says_what_to_do(machine: Machine, project: Path) -> None:
    machine.configure("")
    assert "holdfast checkpoints take" in ok(machine, "list", cwd=project).out
    assert "holdfast checkpoints take" in ok(machine, "status", cwd=project).out
    assert "nothing to verify" in ok(machine, "verify").words
    assert machine.json("checkpoints", "list")["checkpoints"] == []
    assert machine.json("checkpoints", "verify")["ok"] is True
    for command in WITH_AN_ID:
        more = ["text"] if command == "rename" else []
        result = run(machine, command, "abcd", *more)
        assert result.code == 2, result
        assert "has no checkpoints yet" in result.words
        assert "checkpoints take" in result.words


def test_without_a_home_a_list_says_how_to_take_the_first(machine: Machine) -> None:
    result = run(machine, "list")
    assert result.code == 0
    assert "There are no checkpoints yet. To take the first one:" in result.words


def test_list_has_what_was_promised(machine: Machine, project: Path, first: str) -> None:
    change(project)
    second = taken(machine, project, reason="second")
    newest, oldest = machine.json("checkpoints", "list", str(project))["checkpoints"]
    assert newest.keys() >= PROMISED
    assert (newest["id"], oldest["id"]) == (second, first)
    assert (newest["files_changed"], newest["insertions"], newest["deletions"]) == (3, 3, 2)
    shown = ok(machine, "list", cwd=project)
    assert [line.split()[0] for line in shown.lines[1:]] == [second[:12], first[:12]]
    assert "+3 -2" in shown.lines[1]
    assert len(ok(machine, "list", str(project), "--limit", "1").lines) == 2


def test_list_of_a_folder_below_is_that_of_its_project(
    machine: Machine, project: Path, first: str
) -> None:
    shown = ok(machine, "list", cwd=project / "src")
    assert [line.split()[0] for line in shown.lines[1:]] == [first[:12]]
    said = shown.err.replace("\n", "").replace(" ", "")  # a long path is broken where it must be
    assert f"thesearethecheckpointsof{project},which{project / 'src'}isin." in said
    assert not ok(machine, "list", cwd=project).err


def test_list_of_all_projects_and_of_a_session(machine: Machine, project: Path, first: str) -> None:
    other = machine.root / "other"
    other.mkdir()
    (other / "file").write_text("x")
    taken(machine, other, session="s1")
    everything = machine.json("checkpoints", "list", "--all-projects")["checkpoints"]
    assert {each["workdir"] for each in everything} == {str(project), str(other)}
    mine = machine.json("checkpoints", "list", "--all-projects", "--session", "s1")["checkpoints"]
    assert [each["workdir"] for each in mine] == [str(other)]
    shown = ok(machine, "list", "--all-projects")
    assert str(other) in "".join(shown.out.split()), "a long name may be folded anywhere"
    assert run(machine, "list", str(project), "--all-projects").code == 2
    assert "That session has no checkpoints" in ok(machine, "list", str(project), "--session=s").out
    with closing(open_sessions(machine.home)) as sessions:
        bare = sessions.create(source="cli").id
    assert "That session has no checkpoints" in ok(machine, "list", "--session", bare).out
    unknown = run(machine, "list", str(other), "--session=ffffffff")
    assert unknown.code == machine.run("sessions", "show", "ffffffff").code != 0
    assert "an id that begins with 'ffffffff'" in unknown.err


def test_a_project_that_is_gone_is_still_listed(
    machine: Machine, project: Path, first: str
) -> None:
    shutil.rmtree(project)
    assert listed(machine, project)[0].id == first


def test_show_says_what_a_checkpoint_holds(machine: Machine, project: Path) -> None:
    odd(project).write_text("x")
    os.mkfifo(project / "pipe")
    known = taken(machine, project, reason="why")
    shown = ok(machine, "show", known[:6])
    assert shown.lines[0] == "why"
    assert known in shown.lines
    assert r"odd \xff\n\x1b[31mname" in shown.out
    assert "Captured (3 files)" in shown.words
    assert "pipe a named pipe" in shown.words
    document = machine.json("checkpoints", "show", known.upper())
    captured = {each["path"]: each["mode"] for each in document["captured"]}
    assert captured[ODD_TEXT] == captured["src/main.py"]
    assert document["not_captured"][0]["path"] == "pipe"
    assert document["checkpoint"].keys() >= PROMISED


@pytest.mark.parametrize(
    ("command", "wrong"),
    [
        ("show", "--all"),
        ("show", "../../etc"),
        ("show", "refs/holdfast"),
        ("diff", "HEAD"),
        ("diff", ""),
        ("restore", "-"),
        ("restore", "abc"),
        ("pin", "zzzz"),
        ("rename", "."),
    ],
)
def test_what_is_no_id_is_refused(
    machine: Machine, project: Path, first: str, command: str, wrong: str
) -> None:
    more = ["text"] if command == "rename" else []
    result = run(machine, command, "--", wrong, *more)
    assert result.code == 2, result
    assert "checkpoints list" in result.words


def test_a_mistyped_id_gets_its_neighbour(machine: Machine, project: Path, first: str) -> None:
    last = "0" if first[7] != "0" else "1"
    result = run(machine, "show", first[:7] + last)
    assert result.code == 2
    assert f"Did you mean {first[:8]}?" in result.words
    assert run(machine, "show", "--al").code == 2


def test_what_default_excludes_leave_out_is_counted_and_listed(
    machine: Machine, project: Path
) -> None:
    (project / "node_modules").mkdir()
    (project / "node_modules" / "x.js").write_text("x")
    (project / "app.log").write_text("x")
    (project / "logo.png").write_bytes(b"x")
    taken_now = run(machine, "take", str(project))
    assert "2 files and folders left out by default" in taken_now.err
    listed_now = ok(machine, "excluded", str(project))
    assert "app.log *.log" in listed_now.words
    assert "node_modules/ node_modules/" in listed_now.words
    assert machine.json("checkpoints", "take", str(project), "--hash")["excluded"] == 2
    document = machine.json("checkpoints", "excluded", str(project))
    assert document["excluded"] == [
        {"path": "app.log", "rule": "*.log", "directory": False},
        {"path": "node_modules", "rule": "node_modules/", "directory": True},
    ]


def test_looking_at_what_is_left_out_creates_nothing(machine: Machine, project: Path) -> None:
    (project / "node_modules").mkdir()
    (project / "node_modules" / "x.js").write_text("x")
    assert "node_modules/" in ok(machine, "excluded", str(project)).out
    assert not machine.home.exists()


def test_a_take_that_is_refused_makes_no_home(inside: Inside) -> None:
    assert inside.run("checkpoints", "take", "/").code == 1
    assert not inside.machine.home.exists()
