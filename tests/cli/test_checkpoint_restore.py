"""holdfast checkpoints diff and restore."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from holdfast.homes.checkpoints.open_store import checkpoint_store
from holdfast.model.checkpoint import Capturing
from holdfast.stores.checkpoints import restore_record
from tests.cli.checkpoint_bench import (
    ODD_TEXT,
    change,
    contents,
    listed,
    odd,
    ok,
    run,
    taken,
)
from tests.cli.inside import Inside
from tests.cli.machine import Machine, entries
from tests.cli.runner import COMMAND, PATIENCE

# --- After a kill -----------------------------------------------------------------------------


@pytest.fixture
def cut(machine: Machine, project: Path, first: str) -> str:
    """A restore that was killed before its first change; the id of its target."""
    change(project)
    store = checkpoint_store(machine.home, Capturing())
    target = store.get(first)
    safety = store.secure(target.id, now=target.time + 1)
    record = restore_record.Restoration(
        target=target.id, safety=safety, paths=None, started_at=target.time
    )
    restore_record.begin(store.layout.private(target.project), record)
    return target.id


def test_a_take_says_that_it_finished_a_restore(machine: Machine, project: Path, cut: str) -> None:
    result = ok(machine, "take", str(project))
    assert "was interrupted; it was finished first" in " ".join(result.err.split())
    assert cut[:12] in result.err
    assert "interrupted" not in ok(machine, "take", str(project)).err


def test_a_take_in_json_names_the_restore_that_it_finished(
    machine: Machine, project: Path, cut: str
) -> None:
    document = ok(machine, "take", str(project), "--json").document
    assert document["cut_restore"] == {"target": cut, "problem": ""}
    assert "cut_restore" not in ok(machine, "take", str(project), "--json").document


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


def test_diff_without_an_id_is_that_of_the_newest(
    machine: Machine, project: Path, first: str
) -> None:
    change(project)
    assert ok(machine, "diff", cwd=project / "src").out == ok(machine, "diff", first).out
    taken(machine, project)
    assert ok(machine, "diff", cwd=project).out == ""
    elsewhere = run(machine, "diff", cwd=machine.root)
    assert elsewhere.code == 2
    assert "There is no checkpoint of" in elsewhere.err


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


def test_diff_needs_no_id_before_a_path(
    inside: Inside, project: Path, first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    change(project)
    (project / "beef").write_text("x\n")
    monkeypatch.chdir(project)
    for path in ("src", "src/main.py", "with space", "beef"):
        whole = inside.ok("checkpoints", "diff", first, path).out
        assert whole
        assert inside.ok("checkpoints", "diff", path).out == whole
    both = inside.ok("checkpoints", "diff", "src", "new.txt").out
    assert both == inside.ok("checkpoints", "diff", first, "src", "new.txt").out
    missing = inside.run("checkpoints", "diff", "scr")
    assert missing.code == 2
    assert f"'scr' is neither in checkpoint {first[:8]}" in missing.err
    assert inside.run("checkpoints", "diff", "dead00dead").err.startswith("error: No checkpoint")
    monkeypatch.chdir(project.parent)
    assert "src/main.py" in inside.ok("checkpoints", "diff", "project").out
    assert "is not a checkpoint id" in inside.run("checkpoints", "diff", "scr").err


def test_a_captured_path_may_look_like_an_id(
    machine: Machine, inside: Inside, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "cafecafecafe").write_text("x\n")
    taken(machine, project)
    (project / "cafecafecafe").unlink()
    monkeypatch.chdir(project)
    assert "deleted file" in inside.ok("checkpoints", "diff", "cafecafecafe").out


def test_a_diff_without_changes_says_so(
    machine: Machine, inside: Inside, project: Path, first: str
) -> None:
    same = inside.ok("checkpoints", "diff", first)
    assert (same.out, same.err) == ("", f"No changes since checkpoint {first[:12]}.\n")
    assert inside.ok("checkpoints", "diff", first, "--stat").err == same.err
    change(project)
    second = taken(machine, project)
    assert inside.ok("checkpoints", "diff", second, second).err.startswith("No changes between")
    part = inside.ok("checkpoints", "diff", second, str(project / "src"))
    assert part.err == f"No changes in src since checkpoint {second[:12]}.\n"


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
        assert process.wait(PATIENCE) == 0


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
    assert "Restore (2)" in preview.words
    assert "Modify (1) src/main.py" in preview.words
    assert "Delete (1) new.txt" in preview.words

    done = ok(machine, "restore", first, "--yes")
    assert contents(project) == before
    assert "3 written, 1 deleted." in done.words
    assert "  holdfast undo 1" in done.lines

    machine.ok("undo", "1", "--yes")
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
    assert done["safety_checkpoint"] == listed(machine, project)[0].id
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
    assert "there is no terminal on which to confirm it" in silent.words
    with machine.terminal("checkpoints", "restore", first) as terminal:
        terminal.wait_for("[y/N]")
        terminal.type("n\n")
        result = terminal.end()
    assert result.code == 3
    assert "so `holdfast undo` can undo this. Restore " in result.words
    assert "deleting 1 of them? [y/N]" in result.words
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
    assert "Delete (30)" in some.words
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


def test_a_given_path_that_is_left_alone_is_a_failure(machine: Machine, project: Path) -> None:
    """The checkpoint has it, but it is ignored by now, so no safety checkpoint would."""
    (project / "notes").write_text("then\n")
    first = taken(machine, project)
    (project / ".gitignore").write_text("notes\n")
    (project / "notes").write_text("now\n")
    left = run(machine, "restore", first, "notes", "--yes")
    assert left.code == 1
    assert "notes ignored now, or created meanwhile: no safety checkpoint holds it" in left.words
    assert "not captured" not in left.words
    assert "nothing to restore" not in left.words
    assert (project / "notes").read_text() == "now\n"
    both = run(machine, "restore", first, "notes", ".gitignore", "--yes")
    assert both.code == 1
    assert not (project / ".gitignore").exists()


def test_the_undo_of_a_restore_that_left_a_path_alone_is_whole(
    machine: Machine, project: Path
) -> None:
    (project / "notes").write_text("then\n")
    first = taken(machine, project)
    (project / ".gitignore").write_text("notes\n")
    (project / "notes").write_text("now\n")
    change(project)
    before = contents(project)
    ok(machine, "restore", first, "--yes")
    undone = machine.run("undo", "--yes")
    assert contents(project) == before
    assert "in part" not in undone.words
    assert undone.code == 0


def test_what_changes_between_the_preview_and_yes_is_left_and_named(
    machine: Machine, project: Path, first: str
) -> None:
    change(project)
    with machine.terminal("checkpoints", "restore", first) as terminal:
        terminal.wait_for("[y/N]")
        (project / "new.txt").write_text("newer\n")
        (project / "src" / "main.py").write_text("written while you read\n")
        (project / "later.txt").write_text("nobody saw this\n")
        terminal.type("y\n")
        result = terminal.end()
    assert result.code == 1
    assert "1 written, 0 deleted." in result.words
    assert "Left alone (3 paths)" in result.words
    assert result.out.count("changed since the preview") == 3
    assert (project / "new.txt").read_text() == "newer\n"
    assert (project / "src" / "main.py").read_text() == "written while you read\n"
    assert (project / "later.txt").exists()
    assert (project / "with space").exists()


def test_undo_of_a_restore_shows_the_same_paths_before_and_after(
    machine: Machine, project: Path, first: str
) -> None:
    change(project)
    ok(machine, "restore", first, "--yes")
    (project / "src" / "main.py").write_text("after the restore\n")
    restored = entries(project)

    preview = machine.ok("undo", "--dry-run")
    assert "It would write 1 file and delete 1." in preview.words
    assert f"bring {project} back to how it was before the restore" in preview.words
    assert "Restore (1) new.txt" in preview.words
    assert "Delete (1) with space" in preview.words
    assert "src/main.py changed since the safety checkpoint" in preview.words
    assert "0 B" not in preview.words
    (foreseen,) = machine.json("undo", "--dry-run")["items"]
    assert foreseen["written"] == ["new.txt"]
    assert foreseen["deleted"] == ["with space"]
    assert [each["path"] for each in foreseen["kept"]] == ["src/main.py"]
    assert foreseen["workdir"] == str(project)
    assert foreseen["problem"] is None
    assert entries(project) == restored

    undone = machine.json("undo", "--yes", code=1)["report"]["items"][0]
    assert (undone["written"], undone["deleted"]) == (["new.txt"], ["with space"])
    assert not (project / "with space").exists()


def test_the_report_of_an_undone_restore_names_what_it_wrote_and_deleted(
    machine: Machine, project: Path, first: str
) -> None:
    change(project)
    ok(machine, "restore", first, "--yes")
    undone = machine.ok("undo", "--yes")
    assert "2 written, 1 deleted (operation 2)" in undone.words
    assert "Written (2) new.txt src/main.py" in undone.words
    assert "Deleted (1) with space" in undone.words
    assert "brought back" not in undone.words


def test_undo_of_a_restore_leaves_what_changed_after_it(
    machine: Machine, project: Path, first: str
) -> None:
    change(project)
    ok(machine, "restore", first, "--yes")
    (project / "src" / "main.py").write_text("after the restore\n")
    undone = machine.run("undo", "1", "--yes")
    assert undone.code == 1
    assert "src/main.py (changed since the safety checkpoint)" in undone.words
    assert (project / "src" / "main.py").read_text() == "after the restore\n"
    assert (project / "new.txt").exists()


def test_the_rest_of_a_restore_can_be_undone_later(
    inside: Inside, project: Path, first: str
) -> None:
    change(project)
    before = contents(project)
    inside.ok("checkpoints", "restore", first, "--yes")
    source = project / "src" / "main.py"
    restored = source.read_text()
    source.write_text("after the restore\n")
    assert "Undone only in part" in inside.run("undo", "--yes").out
    assert "partly undone" in inside.ok("log").out

    again = inside.run("undo", "--yes")
    assert again.code == 1, "nothing to do while the file is as it is"
    assert source.read_text() == "after the restore\n"

    source.write_text(restored)
    assert "(operation 4)" in inside.ok("undo", "1", "--yes").out
    assert contents(project) == before
    assert "3 paths changed; undone" in " ".join(inside.ok("log").out.split())
    assert "already undone" in inside.run("undo", "1").err
