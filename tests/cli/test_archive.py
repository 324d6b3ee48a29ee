"""`holdfast sessions archive` and `restore`, and the archive in `list` and `search`."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import holdfast
from holdfast import Message
from holdfast.api.plan import HomePlan, HomeReport
from holdfast.api.sessions import open_sessions
from holdfast.policy.lifecycle import SessionOptions, Transcript
from holdfast.ports.runs import Progress
from holdfast.stores.blobs import object_store
from tests.cli.every_command import say
from tests.cli.inside import Inside
from tests.cli.machine import DAY, Machine, entries
from tests.cli.runner import Result
from tests.object_servers import CREDENTIALS, HASTY, SECRET, an_address, rclone

OLD = "20250101_090000_aaaaaa"
OLDER = "20250102_090000_bbbbbb"
OPEN = "20250103_090000_cccccc"


@pytest.fixture
def kept(machine: Machine) -> Machine:
    """Two old sessions that ended, with transcripts and a word of their own each, and an open one
    of today."""
    options = SessionOptions(transcripts={"default": Transcript.JSONL})
    moment = time.time() - 100 * DAY
    with open_sessions(machine.home, options=options, clock=lambda: moment) as sessions:
        for session_id, source, word in (
            (OLD, "telegram", "zebra"),
            (OLDER, "cron", "quagga"),
            (OPEN, "cli", "okapi"),
        ):
            moment = time.time() if session_id == OPEN else moment + 1
            sessions.create(source=source, id=session_id, title=f"about the {word}")
            sessions.append(session_id, Message(role="user", content=f"the {word} runs", tokens=7))
            if session_id != OPEN:
                sessions.end(session_id, "done")
    return machine


def listed(machine: Machine, *flags: str) -> list[str]:
    document = machine.json("sessions", "list", *flags)
    return sorted(each["id"] for each in document["sessions"])


def test_archived_found_and_restored(kept: Machine) -> None:
    before = kept.json("sessions", "list")["sessions"]
    files = entries(kept.sessions)
    report = kept.ok("sessions", "archive", OLD, "--yes")
    assert "Archived 1 session" in report.words
    assert f"sessions restore {OLD}" in report.words
    assert listed(kept) == [OLDER, OPEN]
    [archived] = kept.json("sessions", "list", "--archived")["sessions"]
    was = next(each for each in before if each["id"] == OLD)
    assert {name: archived[name] for name in was} == was
    assert archived["file"] == f"{OLD}.tar.zst"
    assert archived["archive_bytes"] == (kept.home / "archive" / archived["file"]).stat().st_size
    assert archived["archived_at"] > was["ended_at"]
    assert f"{OLD}.jsonl" not in kept.names()
    assert "zebra" in kept.ok("sessions", "search", "zebra", "--archived").words
    assert not kept.json("sessions", "search", "zebra")["hits"]
    restored = kept.ok("sessions", "restore", OLD[:12])
    assert "1 brought back" in restored.words
    assert kept.json("sessions", "list")["sessions"] == before
    assert kept.json("sessions", "search", "zebra")["hits"]
    assert listed(kept, "--archived") == []
    assert {name: entry for name, entry in entries(kept.sessions).items() if name != "."} == {
        name: entry for name, entry in files.items() if name != "."
    }


def test_archived_is_not_called_removed(kept: Machine) -> None:
    done = kept.ok("sessions", "archive", OLD, OLDER, "--yes").words
    assert "2 archived with 2 files" in done
    assert "removed" not in done
    log = kept.ok("log").words
    assert "2 archived with 2 files" in log
    assert "removed" not in log
    [operation] = kept.json("log")["operations"]
    assert (operation["archived"], operation["archived_files"]) == (2, 2)
    assert operation["removed"] == 4, "what it was"


def test_maintenance_says_how_to_bring_back_what_it_archived(kept: Machine) -> None:
    kept.configure("[sessions]\nauto_archive = true\narchive_after_days = 20\n")
    done = kept.ok("maintain", "--force").words
    [operation] = kept.json("log")["operations"]
    assert "To bring back what was archived:" in done
    assert f"undo {operation['id']}" in done
    kept.ok("undo", "--yes", operation["id"])
    assert listed(kept) == [OLD, OLDER, OPEN]


def test_a_list_says_where_the_session_is_whose_files_were_archived(kept: Machine) -> None:
    options = SessionOptions(transcripts={"default": Transcript.JSONL})
    with open_sessions(kept.home, options=options) as sessions:
        reset = sessions.current("key", source="cli").id
        sessions.append(reset, Message(role="user", content="hello"))
        sessions.reset("key")

    def shown() -> str:
        return kept.ok("sessions", "list", "--archived").words

    assert "(files of a session in the store)" in shown()
    kept.ok("sessions", "archive", reset, "--yes")
    assert "(files of a session in the archive)" in shown()
    assert "in the store" not in shown()
    # Two bundles, of one session.
    assert "would restore 1 session," in kept.ok("sessions", "restore", reset, "--dry-run").words
    assert "1 brought back" in kept.ok("sessions", "restore", reset).words


def test_undo_brings_an_archived_session_back(kept: Machine) -> None:
    before = kept.json("sessions", "list")["sessions"]
    kept.ok("sessions", "archive", OLD, OLDER, "--yes")
    going = kept.json("undo", "--dry-run")["items"]
    assert sorted(each["kind"] for each in going) == ["session", "session", *["transcript"] * 2]
    done = kept.ok("undo").words
    assert "This brings back 4 items" in done
    assert "2 brought back with 2 files" in done
    assert "2 brought back with 2 files" in kept.ok("log").words
    assert kept.json("sessions", "list")["sessions"] == before
    assert listed(kept, "--archived") == []


def test_an_undo_counts_only_the_files_of_sessions_that_come_back(kept: Machine) -> None:
    kept.ok("sessions", "archive", OLD, OLDER, "--yes")
    kept.ok("sessions", "restore", OLD)
    assert "Undoing operation 1 would bring back 2 items" in kept.ok("undo", "-n", "1").words
    assert "1 brought back with 1 file " in kept.ok("undo", "--yes", "1").words


def test_redo_archives_the_files_as_well(kept: Machine) -> None:
    run = Inside(kept)
    before = entries(kept.sessions)
    run.ok("sessions", "archive", OLD, OLDER, "--yes")
    without = entries(kept.sessions)
    run.ok("undo", "--yes")
    assert "2 archived with 2 files" in run.ok("redo", "--yes").out
    assert entries(kept.sessions).keys() == without.keys() != before.keys()
    run.ok("undo", "--yes")
    assert entries(kept.sessions).keys() == before.keys()


def test_redo_leaves_a_file_that_changed_since(kept: Machine) -> None:
    run = Inside(kept)
    run.ok("sessions", "archive", OLD, "--yes")
    run.ok("undo", "--yes")
    [path] = kept.sessions.glob(f"*{OLD}*")
    path.write_text(path.read_text() + "more\n")
    said = run.ok("redo", "--yes").out
    assert "changed since the plan was made" in said
    assert path.exists()


def test_nothing_to_archive_is_called_that(kept: Machine) -> None:
    said = Inside(kept).ok("sessions", "archive", "--older-than", "900d", "--yes").out
    assert "Nothing to archive." in said
    assert "remove" not in said


def test_filters_pick_what_is_archived(kept: Machine) -> None:
    document = kept.json("sessions", "archive", "--min-messages", "1", "--dry-run")
    actions = {
        item["id"]: item["action"]
        for item in document["plan"]["items"]
        if item["kind"] == "session"
    }
    assert actions == {OLD: "archive", OLDER: "archive", OPEN: "keep"}
    assert not (kept.home / "archive").exists()
    kept.ok("sessions", "pin", OLDER)
    kept.ok("sessions", "archive", "--older-than", "30d", "--yes")
    assert listed(kept) == [OLDER, OPEN]


def test_gzip_by_choice(kept: Machine) -> None:
    kept.ok("sessions", "archive", OLD, "--codec", "gzip", "--yes")
    kept.configure('[archive]\ncodec = "gzip"\n')
    kept.ok("sessions", "archive", OLDER, "--yes")
    names = {path.name for path in (kept.home / "archive").glob("*.tar.*")}
    assert names == {f"{OLD}.tar.gz", f"{OLDER}.tar.gz"}
    assert kept.ok("sessions", "restore", "--all").words.startswith("2 brought back")


def test_an_archive_folder_of_its_own(kept: Machine) -> None:
    disk = kept.root / "disk"
    kept.configure(f'[archive]\nfolder = "{disk}"\n')
    assert listed(kept, "--archived") == []
    kept.ok("sessions", "archive", OLD, "--yes")
    assert (disk / f"{OLD}.tar.zst").exists()
    assert listed(kept, "--archived") == [OLD]
    disk.rename(kept.root / "not mounted")
    missing = kept.run("sessions", "archive", OLDER, "--yes")
    assert missing.code == 1
    assert "does not exist" in missing.err
    assert "mounted" in missing.err
    assert listed(kept) == [OLDER, OPEN]
    assert kept.run("sessions", "list", "--archived").code == 1
    assert kept.run("status").code == 0


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("archive",), "Name the sessions to archive"),
        (("archive", OLD, "--source", "cron"), "ids or filters"),
        (("archive", "nobody"), "There is no session"),
        (("archive", OLD, "--codec", "zip"), "zip"),
        (("archive", OLD, "--codec", "gzip", "--plan-out", "p.json"), "--plan-out"),
        (("restore",), "Name the sessions to restore"),
        (("restore", "--all", OLD), "--all"),
        (("restore", "nobody"), "There is no archived session"),
        (("restore", "../x"), "not a session id"),
    ],
)
def test_what_makes_no_sense_is_refused(kept: Machine, args: tuple[str, ...], said: str) -> None:
    result = kept.run("sessions", *args)
    assert result.code == 2
    assert said in result.words
    assert not (kept.home / "archive").exists()


def test_an_open_session_stays_and_that_is_no_success(kept: Machine) -> None:
    result = kept.run("sessions", "archive", OPEN, "--yes")
    assert result.code == 1
    assert "it has not ended" in result.words
    assert listed(kept) == [OLD, OLDER, OPEN]


def test_an_ambiguous_start_is_listed(kept: Machine) -> None:
    kept.ok("sessions", "archive", OLD, OLDER, "--yes")
    result = kept.run("sessions", "restore", "2025010")
    assert result.code == 2
    assert OLD in result.words
    assert OLDER in result.words


def test_an_empty_archive(kept: Machine) -> None:
    assert kept.ok("sessions", "list", "--archived").lines == ["The archive is empty."]
    assert kept.ok("sessions", "restore", "--all").lines == ["There are no archived sessions."]
    assert kept.json("sessions", "list", "--archived") == {"sessions": [], "total": 0}
    found = kept.json("sessions", "search", "zebra", "--archived")
    assert found == {"hits": [], "more": False, "problems": []}
    kept.ok("sessions", "archive", OLD, "--yes")
    no_match = kept.ok("sessions", "list", "--archived", "--source", "cron")
    assert no_match.lines == ["No sessions match."]


def test_a_damaged_bundle_is_named_and_costs_no_other(kept: Machine) -> None:
    kept.ok("sessions", "archive", OLD, OLDER, "--yes")
    bundle: Path = kept.home / "archive" / f"{OLD}.tar.zst"
    bundle.write_bytes(bundle.read_bytes()[:100])
    result = kept.run("sessions", "restore", "--all")
    assert result.code == 5
    assert "1 brought back" in result.words
    assert bundle.name in result.words
    assert listed(kept) == [OLDER, OPEN]
    assert bundle.exists()


def test_a_restore_can_be_looked_at_first(kept: Machine) -> None:
    kept.ok("sessions", "archive", OLD, "--yes")
    document = kept.json("sessions", "restore", "--all", "--dry-run")
    assert [each["id"] for each in document["sessions"]] == [OLD]
    assert document["applied"] is False
    assert "This would restore 1 session" in kept.ok("sessions", "restore", OLD, "-n").words
    assert listed(kept, "--archived") == [OLD]
    done = kept.json("sessions", "restore", OLD)
    assert done["applied"] is True
    assert done["report"]["brought_back"] == 1
    [operation] = [each for each in kept.json("log")["operations"] if each["action"] == "restore"]
    assert operation["brought_back"] == 1


def test_a_saved_plan_archives(kept: Machine) -> None:
    plan = kept.root / "plan.json"
    kept.ok("sessions", "archive", OLD, "--plan-out", str(plan))
    assert listed(kept) == [OLD, OLDER, OPEN]
    kept.ok("apply", str(plan), "--yes")
    assert listed(kept, "--archived") == [OLD]


def test_bundles_in_a_folder_that_is_no_longer_used_are_told(kept: Machine, tmp_path: Path) -> None:
    kept.ok("sessions", "archive", OLD, "--yes")
    kept.configure(f'[archive]\nfolder = "{tmp_path / "other"}"\n')
    told = f"holds 1 bundle out of use, because `folder` of [archive] is {tmp_path}"
    assert told in kept.ok("sessions", "list", "--archived").words
    assert told.split(" since", maxsplit=1)[0] in kept.run("doctor").words
    (tmp_path / "other").mkdir()
    for path in (kept.home / "archive").iterdir():
        path.rename(tmp_path / "other" / path.name)
    assert listed(kept, "--archived") == [OLD]
    assert "nothing reads" not in kept.run("doctor").words


def test_undo_passes_over_an_archive_that_came_back_piece_by_piece(kept: Machine) -> None:
    """Its files went for good with the bundles, which is nothing that anybody misses now."""
    kept.ok("sessions", "delete", OLDER, "--yes")
    kept.ok("sessions", "archive", OLD, "--yes")
    kept.ok("sessions", "restore", OLD)
    assert "Undoing operation 1" in kept.ok("undo", "--yes").words
    assert OLDER in listed(kept)


_NAMING = ["show {}", "export {}", "pin {}", "rename {} new", "end {}", "archive {} --yes"]


@pytest.mark.parametrize(
    ("left_by", "place", "back"),
    [
        ("archive", "in the archive", f"sessions restore {OLD}"),
        ("delete", "in the trash", "undo 1"),
    ],
)
def test_a_session_that_left_is_said_to_be_where_it_is(
    kept: Machine, left_by: str, place: str, back: str
) -> None:
    home = ["--home", str(kept.home)]
    kept.ok("sessions", left_by, OLD, "--yes")
    for words in _NAMING:
        said = say(*home, "sessions", *words.format(OLD[:15]).split())
        assert said.code == 2
        assert f"Session {OLD} is {place}" in said.text
        assert f"holdfast --home {kept.home} {back}\n" in said.text
    unknown = say(*home, "sessions", "show", "20991231")
    assert "There is no session" in unknown.text
    kept.ok(*back.split())
    assert say(*home, "sessions", "show", OLD).code == 0


def test_a_search_without_a_hit_points_at_the_archive(kept: Machine) -> None:
    assert "--archived" not in kept.ok("sessions", "search", "gnu").words
    kept.ok("sessions", "archive", OLD, "--yes")
    for words in (["zebra"], ["--part", "zebr"], ["gnu"]):
        result = kept.ok("sessions", "search", *words)
        assert "holdfast sessions search --archived " in result.words
        assert "--archived" not in kept.ok("sessions", "search", "runs").words
        assert "To search there" not in kept.ok("sessions", "search", "--archived", *words).words
    # The suggested command finds it.
    assert "zebra" in kept.ok("sessions", "search", "--archived", "--part", "zebr").words


def test_what_another_command_archived_meanwhile_is_not_ours(
    kept: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    apply = HomePlan.apply

    def second(plan: HomePlan, *, progress: Progress | None = None) -> HomeReport:
        with holdfast.open(kept.home) as home:
            apply(home.plan_archive([OLD]))
        return apply(plan, progress=progress)

    monkeypatch.setattr(HomePlan, "apply", second)
    said = Inside(kept).run("sessions", "archive", OLD, "--yes")
    assert said.code == 1
    assert "already gone" in said.out
    assert "Archived" not in said.out


def test_an_archive_on_an_object_store(kept: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every command that meets the archive, on a real server, then without it."""

    def run(*args: str, code: int = 0) -> Result:
        done = Inside(kept).run(*args, env=CREDENTIALS)
        assert done.code == code, done
        return done

    address = an_address(rclone().endpoint)
    kept.configure(f'[archive]\nurl = "{address.url}"\nendpoint = "{address.endpoint}"\n')
    archived = run("sessions", "archive", OLD, OLDER, "--yes")
    assert "Archived 2 sessions" in archived.words
    assert not (kept.home / "archive").exists()
    found = run("--json", "sessions", "list", "--archived").document
    assert sorted(each["id"] for each in found["sessions"]) == [OLD, OLDER]
    assert "zebra" in run("sessions", "search", "zebra", "--archived").words
    assert f"sessions restore {OLD}" in run("sessions", "show", OLD, code=2).err
    assert "archive 2" in run("status").words
    assert "archive" in run("doctor").words
    assert "1 removed" in run("sessions", "delete", OLD, "--yes").words
    assert "Nothing to remove" in run("sessions", "prune", "--archived", "--older-than", "1d").words
    assert "1 brought back" in run("undo").words
    assert "1 brought back" in run("sessions", "restore", OLD).words
    run("sessions", "delete", OLDER, "--now", "--yes")
    assert listed(kept) == [OLD, OPEN]
    monkeypatch.setattr(object_store, "Patience", lambda: HASTY)
    kept.configure(f'[archive]\nurl = "{address.url}"\nendpoint = "http://127.0.0.1:1"\n')
    refused = run("sessions", "archive", OLD, "--yes", code=1)
    assert SECRET not in refused.err
    assert f"The object store of the archive {address.url} did not answer." in refused.err
    run("sessions", "list", "--archived", code=1)
    run("status")
    assert "did not answer" in run("doctor").words
