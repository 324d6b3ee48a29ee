"""holdfast checkpoints pin, name, status, prune, clear and verify."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from holdfast.stores.checkpoints.older_layout import OLDER
from tests.checkpointing import loosen
from tests.cli.checkpoint_bench import (
    change,
    contents,
    listed,
    ok,
    run,
    taken,
)
from tests.cli.machine import Machine

# --- pin, name --------------------------------------------------------------------------------


def test_pins_and_names_are_shown_and_taken_away(
    machine: Machine, project: Path, first: str
) -> None:
    assert "is pinned" in ok(machine, "pin", first[:8]).words
    assert "is now called 'good ä'" in ok(machine, "rename", first, " good ä ").words
    found = listed(machine, project)[0]
    assert (found.pinned, found.name) == (True, "good ä")
    shown = ok(machine, "list", str(project))
    assert "📌 good ä" in shown.out
    assert ok(machine, "show", first).lines[0] == "good ä"
    ok(machine, "unpin", first)
    assert machine.json("checkpoints", "rename", first, "")["checkpoint"]["name"] is None
    found = listed(machine, project)[0]
    assert (found.pinned, found.name, found.id) == (False, None, first)


def test_a_name_that_is_no_text_is_refused(machine: Machine, project: Path, first: str) -> None:
    result = run(machine, "rename", first, b"bad\xff")
    assert result.code == 2
    assert "not valid UTF-8" in result.words


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
    assert (document["project_count"], document["checkpoint_count"]) == (2, 2)
    shown = ok(machine, "status")
    assert "2 checkpoints of 2 projects" in shown.words
    assert "store " in shown.words
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
    assert [each.id for each in listed(machine, project)] == [second]
    machine.ok("undo", "--yes")
    assert [each.id for each in listed(machine, project)] == [second, first]


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
    assert [each.id for each in listed(machine, project)] == [second]
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
    assert not listed(machine, project)
    assert "There are no checkpoints yet" in ok(machine, "status").words
    machine.ok("undo", "--yes")
    assert listed(machine, project)[0].id == first
    ok(machine, "clear", "--force", "--now")
    assert not listed(machine, project)
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
    [known] = machine.json("checkpoints", "list", str(project))["checkpoints"]
    assert known["reason"] == "older (older layout)"
    assert "-two" in ok(machine, "diff", known["id"]).out
    result = ok(machine, "restore", known["id"][:8], "--yes")
    assert "comes from an older layout" in result.err
    assert (project / "src" / "main.py").read_text() == "one\ntwo\n"
    assert (project / "src" / "main.py").stat().st_mode & 0o777 == 0o600, "it did not know better"
    assert (project / "kept.tmp").exists()
    assert (project / "empty").is_dir()
    assert not (project / "new.txt").exists()
    machine.ok("undo", "--yes")
    assert contents(project) == changed
    assert [each.reason for each in listed(machine, project)][-1] == "older"


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
    assert len(ok(machine, "list", str(project)).lines) == 3
    machine.ok("undo", "--yes")
    assert len(ok(machine, "list", str(project)).lines) == 4
    assert len(machine.json("checkpoints")["legacy_archives"]) == 1


def test_what_only_an_older_layout_left_is_shown(machine: Machine, project: Path) -> None:
    """Before the first use of the present layout, too."""
    (machine.home / "checkpoints").mkdir(parents=True)
    old = older_repository(machine, project)
    shown = ok(machine, "status")
    assert old.name in shown.words
    assert "older layouts " in shown.words
    assert "  holdfast checkpoints clear-legacy" in shown.lines
    [known] = machine.json("checkpoints")["legacy_archives"]
    assert (known["name"], known["workdir"]) == (old.name, str(project))
    assert machine.json("checkpoints", "prune", "--legacy", "--yes")["report"]["removed"] == 1
    assert not old.exists()
    machine.ok("undo", "--yes")
    assert old.is_dir()


def test_archives_of_an_older_layout_stay_whatever_prune_and_maintenance_do(
    machine: Machine, project: Path, first: str
) -> None:
    archive = machine.home / "checkpoints" / "legacy-20200101-000000"
    archive.mkdir()
    older_repository(machine, project).rename(archive / "0123456789abcdef")
    machine.configure("[checkpoints]\nmax_total_size_mb = 1\n")
    (archive / "0123456789abcdef" / "large").write_bytes(bytes(3_000_000))
    for command in (["prune", "--yes"], ["prune", "--max-size-mb", "0.5", "--yes"]):
        document = machine.json("checkpoints", *command)
        [short] = document["plan"]["shortfalls"]
        assert any("stay until you clear them" in why for why in short["held_by"])
    machine.ok("maintain", "--force")
    assert archive.is_dir()
    own = [each.id for each in listed(machine, project) if not each.reason.endswith(OLDER)]
    assert own == [first], "it costs nobody its place"


def test_orphans_stay_when_the_configuration_says_so(
    machine: Machine, project: Path, first: str
) -> None:
    shutil.rmtree(project)
    machine.configure("[checkpoints]\ndelete_orphans = false\n")
    machine.ok("maintain", "--force")
    assert machine.json("checkpoints", "prune", "--yes")["applied"] is False
    machine.ok("maintain", "--force", env={"HOLDFAST_CHECKPOINTS_DELETE_ORPHANS": "false"})
    assert [each.id for each in listed(machine, project)] == [first]
    gone = machine.json("checkpoints", "prune", "--delete-orphans", "--dry-run")
    assert [each["id"] for each in gone["plan"]["items"] if each["action"] == "remove"] == [first]
    machine.configure("[checkpoints]\ndelete_orphans = true\n")
    assert machine.json("checkpoints", "prune", "--keep-orphans", "--yes")["applied"] is False
    machine.ok("maintain", "--force")
    assert not listed(machine, project)


def test_status_is_one_line_a_project_however_long_its_path(
    machine: Machine, project: Path, first: str
) -> None:
    places = []
    for number in range(3):
        place = machine.root / ("deep " * 8) / "界" / ("x" * 60) / f"site{number}"
        shutil.copytree(project, place)
        taken(machine, place)
        places.append(place)
    for columns in ("60", "80", "120"):
        shown = machine.ok("--home", str(machine.home), "checkpoints", env={"COLUMNS": columns})
        rows = [line for line in shown.lines if "live" in line.split()]
        assert len(rows) == 4
        assert [row.split()[0][-5:] for row in rows[:3]] == ["site2", "site1", "site0"]
        assert all(row.startswith("…") for row in rows[:3])
        assert f"  holdfast --home {machine.home} checkpoints prune --dry-run" in shown.lines
    few = ok(machine, "status", "--limit", "2")
    assert sum("live" in line.split() for line in few.lines) == 2
    assert "and 2 more; --limit 4 shows them all" in few.words
    assert run(machine, "status", "--limit", "0").code == 2


def test_status_limits_itself_to_twenty(machine: Machine, project: Path, first: str) -> None:
    for number in range(21):
        place = machine.root / f"site{number}"
        place.mkdir()
        (place / "a").write_text(f"{number}")
        taken(machine, place)
    shown = ok(machine)
    assert sum("live" in line.split() for line in shown.lines) == 20
    assert "and 2 more; --limit 22 shows them all" in shown.words
    assert len(machine.json("checkpoints")["projects"]) == 22


def test_clear_warns_and_with_legacy_takes_everything(
    machine: Machine, project: Path, first: str
) -> None:
    old = older_repository(machine, project)
    shown = ok(machine, "clear", "--dry-run")
    assert "Warning: this removes 1 checkpoint of 1 project." in shown.words
    assert "You lose them unless you undo this" in shown.words
    assert "of an older layout stay" in shown.words
    everything = ok(machine, "clear", "--legacy", "--dry-run")
    assert "1 checkpoint of 1 project and" in everything.words
    ok(machine, "clear", "--legacy", "--force")
    assert not old.exists()
    assert machine.json("checkpoints")["projects"] == []
    assert machine.json("checkpoints")["legacy_archives"] == []
    machine.ok("undo", "--yes")
    assert old.is_dir()
    assert listed(machine, project)[0].id == first


@pytest.mark.parametrize("what", ["clear", "clear-legacy"])
def test_without_a_home_there_is_nothing_to_clear(machine: Machine, what: str) -> None:
    assert "Nothing to clear" in ok(machine, what).words
    assert machine.json("checkpoints", what, "--force")["applied"] is False
    assert not machine.home.exists()
    machine.home.mkdir()
    machine.configure("")
    assert "Nothing to remove" in ok(machine, what, "-f").words


def test_a_directory_without_checkpoints_gets_a_list_of_projects(
    machine: Machine, project: Path, first: str
) -> None:
    elsewhere = machine.root / "elsewhere"
    elsewhere.mkdir()
    shown = ok(machine, "list", cwd=elsewhere)
    assert shown.words.startswith("There are no checkpoints of")
    [row] = [line for line in shown.lines if "live" in line.split()]
    assert row.split()[0].endswith("/project")
    assert row.split()[1:3] == ["live", "1"]
    assert f"  holdfast checkpoints list {project}" in shown.lines
    document = machine.json("checkpoints", "list", str(elsewhere))
    assert document["checkpoints"] == []
    assert [each["workdir"] for each in document["projects"]] == [str(project)]


def test_takes_by_hand_stay_within_the_bounds(machine: Machine, project: Path) -> None:
    """Each is a process that ends at once: what it leaves above the cap goes all the same."""
    machine.configure("[checkpoints]\nmax_total_size_mb = 1\nmax_snapshots = 2\n")
    ids = []
    for number in range(4):
        data = random.Random(number).randbytes(400_000)
        (project / "data.bin").write_bytes(data)
        ids.append(machine.json("checkpoints", "take", str(project))["id"])
        assert len(machine.json("checkpoints", "list", str(project))["checkpoints"]) <= 2
    deadline = time.monotonic() + 60
    while machine.json("checkpoints")["total_bytes"] > 1_000_000:
        assert time.monotonic() < deadline, machine.json("checkpoints")
    said = machine.json("log")["operations"]
    assert said
    assert all(each["command"] == "checkpoints take (its bounds)" for each in said)
    assert listed(machine, project)[0].id == ids[-1]


# --- verify -----------------------------------------------------------------------------------


def test_verify_finds_everything_whole(machine: Machine, project: Path, first: str) -> None:
    assert "1 checkpoint, intact." in ok(machine, "verify").words
    document = machine.json("checkpoints", "verify")
    assert (document["ok"], document["problems"]) == (True, [])


def test_verify_names_damage_and_ends_with_5(machine: Machine, project: Path, first: str) -> None:
    change(project)
    second = taken(machine, project)
    loosen(machine.home / "checkpoints" / "store")
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
