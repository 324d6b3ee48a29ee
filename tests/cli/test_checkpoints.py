"""holdfast checkpoints, as a person and as a script use it."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast import Message, open_sessions
from tests.cli.machine import Machine, entries
from tests.cli.runner import COMMAND, PATIENCE, Result

ODD = b"odd \xff\n\x1b[31mname"
ODD_TEXT = os.fsdecode(ODD)
#: What SPEC §9 promises.
PROMISED = {"id", "time", "reason", "session", "files_changed", "insertions", "deletions"}
WITH_AN_ID = ["show", "diff", "restore", "pin", "name"]


@pytest.fixture
def project(machine: Machine) -> Path:
    made = machine.root / "project"
    (made / "src").mkdir(parents=True)
    (made / "src" / "main.py").write_text("one\ntwo\n")
    (made / "with space").write_text("x\n")
    return made


@pytest.fixture
def first(machine: Machine, project: Path) -> str:
    """A checkpoint of the project as it is at first."""
    return taken(machine, project)


def taken(machine: Machine, project: Path, *more: str) -> str:
    document = machine.json("checkpoints", "take", str(project), *more)
    assert document["outcome"] == "taken"
    return str(document["id"])


def run(machine: Machine, *args: str | bytes, cwd: Path | None = None) -> Result:
    return machine.run("checkpoints", *args, cwd=cwd)


def ok(machine: Machine, *args: str | bytes, cwd: Path | None = None) -> Result:
    result = run(machine, *args, cwd=cwd)
    assert result.code == 0, result
    return result


def listed(machine: Machine, project: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = machine.json("checkpoints", "list", str(project))["checkpoints"]
    return found


def odd(project: Path) -> Path:
    return Path(os.fsdecode(os.fsencode(project) + b"/" + ODD))


def change(project: Path) -> None:
    """One file changes, one comes, one goes."""
    (project / "src" / "main.py").write_text("one\n2\nthree\n")
    (project / "new.txt").write_text("new\n")
    (project / "with space").unlink()


# --- take -------------------------------------------------------------------------------------


def test_take_captures_the_current_directory_and_says_how_to_go_back(
    machine: Machine, project: Path
) -> None:
    result = ok(machine, "take", cwd=project)
    known = listed(machine, project)[0]["id"]
    assert f"Took checkpoint {known[:12]} of {project}" in result.words
    assert f"  holdfast checkpoints restore {known[:12]}" in result.lines
    assert not result.coloured
    machine.ok("status")  # a home that has nothing but checkpoints is a home


def test_take_takes_nothing_when_nothing_changed(
    machine: Machine, project: Path, first: str
) -> None:
    document = machine.json("checkpoints", "take", str(project))
    assert (document["outcome"], document["id"]) == ("unchanged", first)
    assert document.keys() == {"outcome", "id", "reason", "not_captured"}
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
    taken(machine, project, "--reason", "before: ä", "--session", "s1", "--turn", "7")
    found = listed(machine, project)[0]
    assert (found["reason"], found["session"], found["turn"]) == ("before: ä", "s1", "7")
    shown = ok(machine, "list", str(project))
    assert "before: ä" in shown.words
    assert "session s1 turn 7" in shown.words


def test_take_with_paths_looks_at_these_alone(machine: Machine, project: Path, first: str) -> None:
    change(project)
    ok(machine, "take", str(project), "--path", "main.py", cwd=project / "src")
    assert listed(machine, project)[0]["files_changed"] == 1
    ok(machine, "take", str(project))
    assert listed(machine, project)[0]["files_changed"] == 2


@pytest.mark.parametrize("path", ["../outside", "/etc/passwd", "src/../../outside", ""])
def test_a_path_outside_is_refused(machine: Machine, project: Path, first: str, path: str) -> None:
    for args in (
        ["take", str(project), "--path", path],
        ["restore", first, path, "--yes"],
        ["diff", first, path],
    ):
        result = run(machine, *args)
        assert result.code == 2, result
        assert "is not in" in result.words or "empty name" in result.words
    assert len(listed(machine, project)) == 1


def test_too_broad_places_are_refused_with_a_reason(machine: Machine) -> None:
    machine.configure("")
    places = {
        Path("/"): "root of the file system",
        machine.user: "home directory",
        machine.root: "home directory is in it",
        machine.home: "checkpoint store is in it",
        machine.home / "checkpoints": "checkpoint store",
        machine.root / "nowhere": "no such directory",
    }
    (machine.home / "checkpoints").mkdir()
    for place, why in places.items():
        result = run(machine, "take", str(place))
        assert result.code == 1, result
        assert why in result.words, result
        document = machine.json("checkpoints", "take", str(place), code=1)
        assert (document["outcome"], document["id"]) == ("skipped", None)
        assert why in document["reason"]
    assert not (machine.home / "checkpoints" / "store").exists()


def test_a_file_or_an_empty_name_is_no_directory(machine: Machine, project: Path) -> None:
    assert run(machine, "take", str(project / "with space")).code == 1
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
        more = ["text"] if command == "name" else []
        result = run(machine, command, "abcd", *more)
        assert result.code == 2, result
        assert "has no checkpoints yet" in result.words
        assert "checkpoints take" in result.words


def test_without_a_home_it_says_so(machine: Machine) -> None:
    result = run(machine, "list")
    assert result.code == 2
    assert "There is no home" in result.words


def test_list_has_what_was_promised(machine: Machine, project: Path, first: str) -> None:
    change(project)
    second = taken(machine, project, "--reason", "second")
    newest, oldest = listed(machine, project)
    assert newest.keys() >= PROMISED
    assert (newest["id"], oldest["id"]) == (second, first)
    assert (newest["files_changed"], newest["insertions"], newest["deletions"]) == (3, 3, 2)
    shown = ok(machine, "list", cwd=project)
    assert [line.split()[0] for line in shown.lines[1:]] == [second[:12], first[:12]]
    assert "+3 -2" in shown.lines[1]
    assert len(ok(machine, "list", str(project), "--limit", "1").lines) == 2


def test_list_of_a_folder_below_names_the_project(
    machine: Machine, project: Path, first: str
) -> None:
    shown = ok(machine, "list", cwd=project / "src")
    said = shown.out.replace("\n", "").replace(" ", "")  # a long path is broken where it must be
    assert f"therearenocheckpointsof{project / 'src'}yet".lower() in said.lower()
    assert f"{project},whichitliesin,hassome." in said


def test_list_of_all_projects_and_of_a_session(machine: Machine, project: Path, first: str) -> None:
    other = machine.root / "other"
    other.mkdir()
    (other / "file").write_text("x")
    taken(machine, other, "--session", "s1")
    everything = machine.json("checkpoints", "list", "--all-projects")["checkpoints"]
    assert {each["workdir"] for each in everything} == {str(project), str(other)}
    mine = machine.json("checkpoints", "list", "--all-projects", "--session", "s1")["checkpoints"]
    assert [each["workdir"] for each in mine] == [str(other)]
    shown = ok(machine, "list", "--all-projects")
    assert str(other) in "".join(shown.out.split()), "a long name may be folded anywhere"
    assert run(machine, "list", str(project), "--all-projects").code == 2
    assert "No checkpoint is of that session" in ok(machine, "list", str(other), "--session=x").out


def test_a_project_that_is_gone_is_still_listed(
    machine: Machine, project: Path, first: str
) -> None:
    shutil.rmtree(project)
    assert listed(machine, project)[0]["id"] == first


def test_show_says_what_a_checkpoint_holds(machine: Machine, project: Path) -> None:
    odd(project).write_text("x")
    os.mkfifo(project / "pipe")
    known = taken(machine, project, "--reason", "why")
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
        ("name", "."),
    ],
)
def test_what_is_no_id_is_refused(
    machine: Machine, project: Path, first: str, command: str, wrong: str
) -> None:
    more = ["text"] if command == "name" else []
    result = run(machine, command, "--", wrong, *more)
    assert result.code == 2, result
    assert "checkpoints list" in result.words


def test_a_mistyped_id_gets_its_neighbour(machine: Machine, project: Path, first: str) -> None:
    last = "0" if first[7] != "0" else "1"
    result = run(machine, "show", first[:7] + last)
    assert result.code == 2
    assert f"Did you mean {first[:8]}?" in result.words
    assert run(machine, "show", "--al").code == 2


# --- diff -------------------------------------------------------------------------------------


def test_diff_reads_like_git_and_can_be_applied(
    machine: Machine, project: Path, first: str, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(project, copy)
    change(project)
    odd(project).write_bytes(b"caf\xe9\r\n")
    result = subprocess.run(
        [*COMMAND, "checkpoints", "diff", first],
        check=True,
        env=machine.env(),
        capture_output=True,
    )
    assert b"\x1b" not in result.stdout, "an odd name is quoted, and there are no colours"
    assert b"+++ b/src/main.py\n" in result.stdout
    assert b"-two\n+2\n+three\n" in result.stdout
    assert b"+caf\xe9\r\n" in result.stdout
    subprocess.run(["git", "apply"], check=True, cwd=copy, input=result.stdout)
    assert contents(copy) == contents(project)


def contents(folder: Path) -> dict[str, bytes]:
    return {name: each.content for name, each in entries(folder).items()}


def test_diff_is_coloured_on_a_terminal_and_nothing_steers_it(
    machine: Machine, project: Path, first: str
) -> None:
    (project / "src" / "main.py").write_text("one\n\x1b]0;gotcha\x07\n")
    with machine.terminal("checkpoints", "diff", first) as terminal:
        result = terminal.end()
    assert result.code == 0
    assert "\x1b[31m-two" in result.out
    assert "\x1b[32m+" in result.out
    assert "\x1b]0;" not in result.out
    assert r"\x1b]0;gotcha\x07" in result.out
    with machine.terminal("checkpoints", "diff", first, env={"NO_COLOR": "1"}) as terminal:
        assert "\x1b[31m" not in terminal.end().out


def test_diff_of_two_checkpoints_and_of_paths(machine: Machine, project: Path, first: str) -> None:
    change(project)
    second = taken(machine, project)
    (project / "later").write_text("x")
    both = ok(machine, "diff", first[:8], second[:8])
    assert "b/new.txt" in both.out
    assert "later" not in both.out
    part = ok(machine, "diff", first, second, "src")
    assert "new.txt" not in part.out
    assert part.out.startswith("diff --git a/src/main.py b/src/main.py")
    assert ok(machine, "diff", first, "main.py", cwd=project / "src").out == part.out
    assert ok(machine, "diff", second, first, "--stat").words.endswith(
        "3 files changed, 2 insertions(+), 3 deletions(-) delete mode 100644 new.txt "
        "create mode 100644 with space"
    )
    document = machine.json("checkpoints", "diff", first, second)
    kinds = {each["path"]: each["kind"] for each in document["changes"]}
    assert kinds == {"src/main.py": "modified", "new.txt": "added", "with space": "deleted"}
    assert (document["from"], document["to"]) == (first, second)


def test_diff_says_what_git_has_no_words_for(machine: Machine, project: Path) -> None:
    (project / "empty").mkdir()
    first = taken(machine, project)
    (project / "empty").rmdir()
    (project / "ä").mkdir()
    (project / "with space").chmod(0o600)
    lines = ok(machine, "diff", first).lines
    assert " delete directory empty" in lines
    assert r' create directory 040755 "\303\244"' in lines
    assert " mode change 100644 => 100600 with space" in lines
    assert ok(machine, "diff", first, "src").out == ""


def test_diff_takes_a_path_for_a_path_where_there_is_no_such_checkpoint(
    machine: Machine, project: Path, first: str
) -> None:
    (project / "beef").write_text("x\n")
    assert "b/beef" in ok(machine, "diff", first, "beef", cwd=project).out
    assert "b/beef" in ok(machine, "diff", first, "./beef").out
    unknown = run(machine, "diff", first, "dead" if not first.startswith("dead") else "feed")
    assert unknown.code == 2


def test_a_long_diff_may_be_cut_by_its_reader(machine: Machine, project: Path, first: str) -> None:
    (project / "long").write_text("".join(f"line {n}\n" for n in range(100_000)))
    with subprocess.Popen(
        [*COMMAND, "checkpoints", "diff", first],
        env=machine.env(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert b"Traceback" not in process.stderr.read()
        assert process.wait(PATIENCE) == 141


# --- restore ----------------------------------------------------------------------------------


def test_restore_previews_then_restores_and_undo_takes_it_back(
    machine: Machine, project: Path
) -> None:
    odd(project).write_text("x")
    (project / "src" / "main.py").chmod(0o750)
    before = contents(project)
    first = taken(machine, project)
    change(project)
    odd(project).unlink()
    changed = entries(project)

    preview = ok(machine, "restore", first, "--dry-run")
    assert entries(project) == changed
    assert "Come back (2)" in preview.words
    assert "Change (1) src/main.py" in preview.words
    assert "Go (1) new.txt" in preview.words

    done = ok(machine, "restore", first, "--yes")
    assert contents(project) == before
    assert "3 written, 1 deleted." in done.words
    assert "  holdfast undo 1" in done.lines

    machine.ok("undo", "1")
    assert contents(project) == {name: each.content for name, each in changed.items()}
    assert "checkpoints restore" in machine.ok("log").words


def test_the_document_of_a_restore(machine: Machine, project: Path, first: str) -> None:
    change(project)
    odd(project).write_text("x")
    preview = machine.json("checkpoints", "restore", first, "--dry-run")
    assert preview["applied"] is False
    assert preview["safety_checkpoint"] is None
    done = machine.json("checkpoints", "restore", first, "--yes")
    assert done["applied"] is True
    assert sorted(done["written"]) == preview["written"] == ["src/main.py", "with space"]
    assert done["deleted"] == preview["deleted"] == ["new.txt", ODD_TEXT]
    assert done["safety_checkpoint"] == listed(machine, project)[0]["id"]
    assert done["operation"] == "1"
    again = machine.json("checkpoints", "restore", first, "--yes")
    assert (again["applied"], again["written"], again["deleted"]) == (False, [], [])


def test_restore_of_paths_leaves_the_rest(machine: Machine, project: Path, first: str) -> None:
    change(project)
    ok(machine, "restore", first, "main.py", "--yes", cwd=project / "src")
    assert (project / "src" / "main.py").read_text() == "one\ntwo\n"
    assert (project / "new.txt").exists()
    assert not (project / "with space").exists()
    unknown = run(machine, "restore", first, "never was", "--yes")
    assert unknown.code == 2
    assert "never was" in unknown.words


def test_restore_asks_and_takes_no_for_an_answer(
    machine: Machine, project: Path, first: str
) -> None:
    change(project)
    changed = entries(project)
    silent = run(machine, "restore", first)
    assert silent.code == 3
    assert "there is no terminal to ask on" in silent.words
    with machine.terminal("checkpoints", "restore", first) as terminal:
        terminal.wait_for("[y/N]")
        terminal.type("n\n")
        result = terminal.end()
    assert result.code == 3
    assert "1 of them deleted? It can be undone." in result.words
    assert entries(project) == changed
    with machine.terminal("checkpoints", "restore", first) as terminal:
        terminal.wait_for("[y/N]")
        terminal.type("y\n")
        assert terminal.end().code == 0
    assert not (project / "new.txt").exists()


def test_restore_names_a_few_paths_and_all_of_them_on_request(
    machine: Machine, project: Path, first: str
) -> None:
    for number in range(30):
        (project / f"file{number:02}").write_text("x")
    some = ok(machine, "restore", first, "--dry-run")
    assert "Go (30)" in some.words
    assert "… and 20 more; --all lists them." in some.words
    assert "file29" in ok(machine, "restore", first, "--dry-run", "--all").out


def test_restore_when_nothing_differs_does_nothing(
    machine: Machine, project: Path, first: str
) -> None:
    assert "There is nothing to restore" in ok(machine, "restore", first).words
    assert len(listed(machine, project)) == 1


def test_restore_leaves_what_was_not_covered(machine: Machine, project: Path) -> None:
    (project / ".gitignore").write_text("*.secret\n")
    first = taken(machine, project)
    (project / "mine.secret").write_text("x")
    change(project)
    ok(machine, "restore", first, "--yes")
    assert (project / "mine.secret").read_text() == "x"


# --- pin, name --------------------------------------------------------------------------------


def test_pins_and_names_are_shown_and_taken_away(
    machine: Machine, project: Path, first: str
) -> None:
    assert "is pinned" in ok(machine, "pin", first[:8]).words
    assert "is now called 'good ä'" in ok(machine, "name", first, " good ä ").words
    found = listed(machine, project)[0]
    assert (found["pinned"], found["name"]) == (True, "good ä")
    shown = ok(machine, "list", str(project))
    assert "📌 good ä" in shown.out
    assert ok(machine, "show", first).lines[0] == "good ä"
    ok(machine, "pin", first, "--off")
    assert machine.json("checkpoints", "name", first, "")["checkpoint"]["name"] is None
    found = listed(machine, project)[0]
    assert (found["pinned"], found["name"], found["id"]) == (False, None, first)


def test_a_name_that_is_no_text_is_refused(machine: Machine, project: Path, first: str) -> None:
    result = run(machine, "name", first, b"bad\xff")
    assert result.code == 2
    assert "no valid text" in result.words


# --- status, prune, clear ---------------------------------------------------------------------


def test_status_has_what_was_promised(machine: Machine, project: Path, first: str) -> None:
    gone = machine.root / "gone"
    shutil.copytree(project, gone)
    taken(machine, gone)
    shutil.rmtree(gone)
    document = machine.json("checkpoints")
    assert document == machine.json("checkpoints", "status")
    assert document.keys() >= {
        "base",
        "total_bytes",
        "store_bytes",
        "legacy_bytes",
        "projects",
        "legacy_archives",
    }
    states = {each["workdir"]: each["state"] for each in document["projects"]}
    assert states == {str(project): "live", str(gone): "missing"}
    for each in document["projects"]:
        assert each["checkpoints"] == 1
        assert 0 < each["bytes"] < document["store_bytes"] <= document["total_bytes"]
    shown = ok(machine, "status")
    assert "2 checkpoints" in shown.words
    assert "missing" in shown.words
    assert "  holdfast checkpoints prune --dry-run" in shown.lines


def test_prune_shows_its_plan_asks_removes_and_can_be_undone(
    machine: Machine, project: Path, first: str
) -> None:
    change(project)
    second = taken(machine, project)
    preview = ok(machine, "prune", "--keep-last", "1", "--dry-run")
    assert first in preview.out
    declined = run(machine, "prune", "--keep-last", "1")
    assert declined.code == 3
    assert len(listed(machine, project)) == 2
    document = machine.json("checkpoints", "prune", "--keep-last", "1", "--yes")
    assert document["applied"] is True
    assert document["report"].keys() >= {"removed", "skipped", "failed", "bytes_freed", "operation"}
    going = [each for each in document["plan"]["items"] if each["action"] == "remove"]
    assert [(each["kind"], each["id"]) for each in going] == [("checkpoint", first)]
    assert [each["id"] for each in listed(machine, project)] == [second]
    machine.ok("undo")
    assert [each["id"] for each in listed(machine, project)] == [second, first]


def test_prune_keeps_orphans_only_when_asked(machine: Machine, project: Path, first: str) -> None:
    shutil.rmtree(project)
    kept = machine.json("checkpoints", "prune", "--keep-orphans", "--yes")
    assert not [each for each in kept["plan"]["items"] if each["action"] == "remove"]
    gone = machine.json("checkpoints", "prune", "--yes", "--now")
    assert gone["report"]["removed"] == 1
    assert gone["report"]["bytes_freed"] > 0
    assert machine.json("checkpoints")["projects"] == []


def test_prune_by_age_and_size(machine: Machine, project: Path, first: str) -> None:
    change(project)
    second = taken(machine, project)
    stale = machine.json("checkpoints", "prune", "--retention-days", "0.0000001", "--dry-run")
    assert sum(each["action"] == "remove" for each in stale["plan"]["items"]) == 2
    capped = machine.json("checkpoints", "prune", "--max-total-size", "1kB", "--yes")
    assert [each["id"] for each in listed(machine, project)] == [second]
    assert capped["plan"]["shortfalls"], "the newest stays, and the report says so"


@pytest.mark.parametrize(
    "flags",
    [
        ["--keep-last", "0"],
        ["--max-total-size", "0"],
        ["--max-total-size", "lots"],
        ["--keep-within", "soon"],
        ["--retention-days", "-1"],
        ["--keep-dialy", "3"],
    ],
)
def test_a_flag_that_makes_no_sense_is_refused(
    machine: Machine, project: Path, first: str, flags: list[str]
) -> None:
    result = run(machine, "prune", *flags, "--yes")
    assert result.code == 2, result
    assert len(listed(machine, project)) == 1


def test_clear_takes_all_of_them_with_force_and_undo_brings_them_back(
    machine: Machine, project: Path, first: str
) -> None:
    ok(machine, "pin", first)
    assert run(machine, "clear").code == 3
    ok(machine, "clear", "-f")
    assert listed(machine, project) == []
    assert "There are no checkpoints yet" in ok(machine, "status").words
    machine.ok("undo")
    assert listed(machine, project)[0]["id"] == first
    ok(machine, "clear", "--force", "--now")
    assert listed(machine, project) == []
    assert "Nothing to remove" in ok(machine, "clear", "--yes").out
    assert machine.json("checkpoints", "clear", "--yes")["applied"] is False


def older_repository(machine: Machine, project: Path) -> Path:
    """What an older layout left: a repository of its own for a directory, with one checkpoint."""
    place = machine.home / "checkpoints" / "0123456789abcdef"
    subprocess.run(["git", "init", "--quiet", "--bare", str(place)], check=True)
    (place / "HERMES_WORKDIR").write_text(f"{project}\n")
    (place / "info" / "exclude").write_text("*.tmp\n")
    git = ["git", f"--git-dir={place}", f"--work-tree={project}", "-c", "core.bare=false"]
    who = ["-c", "user.name=x", "-c", "user.email=x@example.invalid"]
    subprocess.run([*git, "add", "-A"], check=True)
    subprocess.run([*git, *who, "commit", "--quiet", "-m", "older"], check=True)
    return place


def test_checkpoints_of_an_older_layout_are_listed_compared_and_restored(
    machine: Machine, project: Path
) -> None:
    (project / "src" / "main.py").chmod(0o600)
    (project / "kept.tmp").write_text("x")
    older_repository(machine, project)
    change(project)
    (project / "empty").mkdir()
    changed = contents(project)
    known = listed(machine, project)[0]
    assert known["reason"] == "older (older layout)"
    assert "-two" in ok(machine, "diff", known["id"]).out
    result = ok(machine, "restore", known["id"][:8], "--yes")
    assert "is of an older layout" in result.err
    assert (project / "src" / "main.py").read_text() == "one\ntwo\n"
    assert (project / "src" / "main.py").stat().st_mode & 0o777 == 0o600, "it did not know better"
    assert (project / "kept.tmp").exists()
    assert (project / "empty").is_dir()
    assert not (project / "new.txt").exists()
    machine.ok("undo")
    assert contents(project) == changed
    assert [each["reason"] for each in listed(machine, project)][-1] == "older"


def test_clear_legacy_clears_what_an_older_layout_left(
    machine: Machine, project: Path, first: str
) -> None:
    old = older_repository(machine, project)
    change(project)
    taken(machine, project)
    assert not old.exists(), "moved aside on first use"
    document = machine.json("checkpoints")
    assert len(document["legacy_archives"]) == 1
    assert document["legacy_bytes"] > 0
    assert "older layout" in ok(machine, "status").words
    assert run(machine, "clear-legacy").code == 3
    ok(machine, "clear-legacy", "--force")
    assert machine.json("checkpoints")["legacy_archives"] == []
    assert len(listed(machine, project)) == 2
    machine.ok("undo")
    assert len(listed(machine, project)) == 3
    assert len(machine.json("checkpoints")["legacy_archives"]) == 1


# --- verify -----------------------------------------------------------------------------------


def test_verify_finds_everything_whole(machine: Machine, project: Path, first: str) -> None:
    assert "1 checkpoint: every one is whole." in ok(machine, "verify").words
    document = machine.json("checkpoints", "verify")
    assert (document["ok"], document["problems"]) == (True, [])


def test_verify_names_damage_and_ends_with_5(machine: Machine, project: Path, first: str) -> None:
    change(project)
    second = taken(machine, project)
    loose = (machine.home / "checkpoints" / "store" / "objects").glob("[0-9a-f][0-9a-f]/*")
    blob = next(path for path in loose if is_blob(machine, path))
    blob.chmod(0o600)
    blob.write_bytes(b"not an object")
    result = run(machine, "verify")
    assert result.code == 5
    assert second[:12] in result.words
    document = machine.json("checkpoints", "verify", code=5)
    assert document["ok"] is False
    assert [second] in [each["checkpoints"] for each in document["problems"]]
    assert first not in json.dumps(document["problems"])


def is_blob(machine: Machine, path: Path) -> bool:
    oid = path.parent.name + path.name
    store = str(machine.home / "checkpoints" / "store")
    said = subprocess.run(
        ["git", "--git-dir", store, "cat-file", "-t", oid], check=True, capture_output=True
    )
    content = subprocess.run(
        ["git", "--git-dir", store, "cat-file", "-p", oid], check=True, capture_output=True
    )
    return said.stdout == b"blob\n" and content.stdout == b"new\n"


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
        assert r"odd \udcff\n\x1b[31mname" in watch.line()
        code, out, err = watch.end(how)
    assert code == 0
    assert "no longer watching" in err
    document = json.loads(out)
    assert document["workdir"] == str(project)
    assert (document["taken"], document["failed"]) == (2, 0)
    found = listed(machine, project)
    assert document["last"] == found[0]["id"]
    assert [each["files_changed"] for each in found[:2]] == [1, 1]


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
        assert "looked at everything" in watch.line()
        assert watch.end(signal.SIGTERM)[0] == 0
    assert machine.json("checkpoints", "take", str(project))["outcome"] == "unchanged"


def test_what_cannot_be_watched_is_refused(machine: Machine, project: Path) -> None:
    result = run(machine, "watch", str(machine.user))
    assert result.code == 1
    assert "home directory" in result.words
    assert run(machine, "watch", str(project / "nowhere")).code == 1
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
    taken(machine, project, "--session", session.id, "--turn", "1")
    with closing(open_sessions(machine.home)) as sessions:
        sessions.append(session.id, Message(role="assistant", content="done"))
    change(project)
    taken(machine, project, "--session", session.id)
    other = taken_by_another_session(machine, project)
    first, second = [each["id"] for each in reversed(listed(machine, project))][:2]
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
    return taken(machine, project, "--session", "another")


def test_sessions_show_without_a_checkpoint_store_marks_nothing(machine: Machine) -> None:
    with closing(open_sessions(machine.home)) as sessions:
        session = sessions.create(source="cli")
        sessions.append(session.id, Message(role="user", content="please do"))
    assert machine.json("sessions", "show", session.id)["checkpoints"] == []
    assert "checkpoint" not in machine.ok("sessions", "show", session.id).out
