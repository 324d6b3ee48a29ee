"""Bad days in recorded homes of real agents: a clear word, nothing lost, nothing alive touched, and
no file that is another's."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import holdfast
from holdfast import Home
from holdfast.errors import HoldfastError, SchemaError, StorageError
from holdfast.homes.agents import claude_code, gemini
from holdfast.homes.agents import signs_of_life as life
from holdfast.homes.agents.json_lines import INJECTED
from holdfast.homes.agents.signs_of_life import start_ticks
from holdfast.homes.foreign import session_figures
from holdfast.homes.foreign import sessions as format_sessions
from holdfast.model.item import SESSION
from holdfast.model.part import Unit
from holdfast.model.report import Result
from holdfast.model.session import Search, Session
from holdfast.parts.unit_record import RECORD
from holdfast.spine import carry_out
from tests.contract.agent_homes import NOW, session_ids
from tests.contract.agents.home import append
from tests.contract.factory import HOMES, files_and_rows
from tests.trees import everything

AGENTS = ("claude-code", "codex", "gemini", "opencode")

pytestmark = pytest.mark.usefixtures("bad_day", "_no_temporary_folder")


@pytest.fixture
def _no_temporary_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Claude Code's folder in /tmp is the same for every home of a user."""
    monkeypatch.setattr(claude_code, "TEMPORARY", tmp_path / "temporary")


def home_of(agent: str, place: Path) -> Path:
    root = place / "home"
    HOMES[agent].make(root)
    return root


def opened(root: Path) -> Home:
    return holdfast.open(root, clock=lambda: NOW)


def remove_all(home: Home) -> dict[str, Result]:
    report = home.plan_prune(older_than="1d").apply()
    return {each.id: each.result for each in report.outcomes if each.kind == SESSION}


def comes_and_goes(root: Path) -> set[str]:
    """Everything leaves and returns exactly; what left."""
    before = files_and_rows(root)
    with opened(root) as home:
        report = home.plan_prune(older_than="1d").apply()
        assert not [each for each in report.outcomes if each.result is not Result.REMOVED]
        done = {each.id for each in report.outcomes if each.kind == SESSION}
        home.undo_latest()
        assert done <= {each.id for each in home.sessions.find()}
    assert files_and_rows(root) == before
    return done


# --- What stands in files -------------------------------------------------------------------------


@pytest.mark.parametrize("agent", ["claude-code", "codex", "gemini"])
def test_a_torn_last_line_costs_that_line(agent: str, tmp_path: Path) -> None:
    root = home_of(agent, tmp_path)
    for path in root.rglob("*.jsonl"):
        if path.name != "history.jsonl":
            with path.open("ab") as file:
                file.write(b'{"type":"assistant","message":{"content":"tor\xff')
    with opened(root) as home:
        said = {each: list(home.sessions.messages(each)) for each in session_ids(home)}
    assert all(said.values())
    comes_and_goes(root)


@pytest.mark.parametrize("agent", ["claude-code", "codex", "gemini"])
def test_a_file_with_nothing_in_it_is_a_session_like_others(agent: str, tmp_path: Path) -> None:
    """An agent that was killed as it began."""
    root = home_of(agent, tmp_path)
    path = max(
        (each for each in root.rglob("*.jsonl") if each.name != "history.jsonl"),
        key=lambda each: (each.parent.name != "subagents", each.name),
    )
    path.write_bytes(b"")
    with opened(root) as home:
        assert session_ids(home)
        home.status()
    comes_and_goes(root)


def test_a_torn_row_costs_that_row(tmp_path: Path) -> None:
    root = home_of("opencode", tmp_path)
    with opened(root) as home:
        before = {each: len([*home.sessions.messages(each)]) for each in session_ids(home)}
    with closing(sqlite3.connect(root / "opencode.db")) as db, db:
        db.execute("UPDATE part SET data = substr(data, 1, 20) WHERE rowid % 2")
    with opened(root) as home:
        said = {each: len([*home.sessions.messages(each)]) for each in session_ids(home)}
    assert said.keys() == before.keys()
    assert all(said.values())
    comes_and_goes(root)


def test_what_an_agent_put_into_a_chat_is_marked(tmp_path: Path) -> None:
    root = home_of("codex", tmp_path)
    with opened(root) as home:
        for each in session_ids(home):
            said = list(home.sessions.messages(each))
            users = [one for one in said if one.role == "user" and not one.extra.get(INJECTED)]
            assert any(one.extra.get(INJECTED) for one in said)
            assert not any(str(one.content).startswith("<") for one in users)


def test_sessions_of_earlier_releases_of_gemini_are_read(tmp_path: Path) -> None:
    root = home_of("gemini", tmp_path)
    chats = next(root.glob("tmp/*/chats"))
    name = "0b5f2a1e-aaaa-4bbb-8ccc-123456789abc"
    said = {
        "sessionId": name,
        "projectHash": "00",
        "startTime": "2026-01-01T00:00:00.000Z",
        "lastUpdated": "2026-01-02T00:00:00.000Z",
        "messages": [
            {"id": "1", "timestamp": "2026-01-01T00:00:01.000Z", "type": "user", "content": "hi"},
            {"id": "2", "type": "gemini", "content": "zebra", "model": "gemini-2"},
        ],
        "summary": "An old one",
    }
    (chats / f"session-2026-01-01T00-00-{name[:8]}.json").write_text(json.dumps(said))
    later = {**said, "lastUpdated": "2026-01-03T00:00:00.000Z", "kind": "main"}
    del later["messages"]
    second = chats / f"session-2026-01-03T00-00-{name[:8]}.jsonl"
    message = {"id": "3", "type": "user", "content": "again"}
    second.write_text(f"{json.dumps(later)}\n{json.dumps(message)}\n")
    (chats.parent / name / "plans").mkdir(parents=True)
    (chats.parent / name / "plans" / "plan.md").write_text("a plan")
    with opened(root) as home:
        shown = home.sessions.get(name)
        assert shown.title == "An old one"
        assert [each.content for each in home.sessions.messages(name)] == ["again"]
        home.plan_delete([name]).apply()
        assert not [*root.rglob(f"*{name[:8]}*.json*")]
        assert not (chats.parent / name).exists()
        home.undo_latest()
    second.unlink()
    with opened(root) as home:
        assert [each.content for each in home.sessions.messages(name)] == ["hi", "zebra"]
    assert name in comes_and_goes(root)


def test_subagents_of_gemini_go_with_their_chat(tmp_path: Path) -> None:
    root = home_of("gemini", tmp_path)
    with opened(root) as home:
        [parent, *_] = sorted(session_ids(home))
    chats = next(root.glob("tmp/*/chats"))
    head = next(chats.glob(f"session-*{parent[:8]}.jsonl")).read_text().splitlines()[0]
    own = {**json.loads(head), "sessionId": "look-around-1", "kind": "subagent"}
    (chats / parent).mkdir()
    message = {"id": "1", "type": "gemini", "content": "I looked"}
    (chats / parent / "look-around-1.jsonl").write_text(
        f"{json.dumps(own)}\n{json.dumps(message)}\n"
    )
    (chats.parent / "tool-outputs" / "session-look-around-1").mkdir(parents=True)
    (chats.parent / "tool-outputs" / "session-look-around-1" / "out").write_text("much")
    with opened(root) as home:
        assert parent in session_ids(home)
        [child] = home.sessions.find(parent_id=parent)
        assert [each.content for each in home.sessions.messages(child)] == ["I looked"]
        home.plan_delete([parent]).apply()
    assert not [*(root / "tmp").rglob("*look-around-1*")]
    with opened(root) as home:
        home.undo_latest()
    comes_and_goes(root)


def test_subagents_beside_transcripts_are_delegates(tmp_path: Path) -> None:
    """As earlier releases of Claude Code left them."""
    root = home_of("claude-code", tmp_path)
    transcript = next(root.glob("projects/*/541d5a9b*.jsonl"))
    said = {"type": "user", "sessionId": transcript.stem, "isSidechain": True}
    message = {"role": "user", "content": "look"}
    beside = transcript.with_name("agent-12345678.jsonl")
    beside.write_text(json.dumps({**said, "message": message, "timestamp": "2026-01-01T00:00:00Z"}))
    with opened(root) as home:
        [child] = home.sessions.find(parent_id=transcript.stem)
        assert (child.id, child.relation) == ("agent-12345678", "delegate")
        home.plan_delete([transcript.stem]).apply()
        assert not beside.exists()
        home.undo_latest()
    comes_and_goes(root)


def test_a_session_in_two_working_directories_is_one(tmp_path: Path) -> None:
    root = home_of("claude-code", tmp_path)
    transcript = next(root.glob("projects/*/541d5a9b*.jsonl"))
    other = root / "projects" / "-somewhere-else"
    other.mkdir()
    shutil.copy(transcript, other)
    with opened(root) as home:
        home.plan_delete([transcript.stem]).apply()
        assert not [*root.glob(f"projects/*/{transcript.name}")]
        home.undo_latest()
    assert len([*root.glob(f"projects/*/{transcript.name}")]) == 2


def test_a_transcript_that_cannot_be_read_costs_itself_and_stays(tmp_path: Path) -> None:
    """Here it is a folder; a file of another user is the same. Nobody knows when it was used."""
    root = home_of("claude-code", tmp_path)
    broken = next(root.glob("projects/*/541d5a9b*.jsonl"))
    was = broken.read_bytes()
    broken.unlink()
    broken.mkdir()
    os.utime(broken, (0, 0))
    with opened(root) as home:
        found = {each.id: each for each in home.list_sessions().sessions}
        assert broken.stem in found
        assert not found[broken.stem].counted
        result = home.search_sessions(Search(text="hello"))
        assert any(each.path == broken.stem for each in result.problems)
        assert broken.stem not in remove_all(home)
        home.undo_latest()
    broken.rmdir()
    broken.write_bytes(was)
    with opened(root) as home:
        again = {each.id: each for each in home.list_sessions().sessions}
        assert again[broken.stem].message_count
        assert again[broken.stem].counted


def test_a_transcript_that_goes_while_it_is_read_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Claude Code sweeps by itself, whenever it likes."""
    root = home_of("claude-code", tmp_path)
    gone = next(root.glob("projects/*/541d5a9b*.jsonl"))
    read = claude_code._read

    def swept(path: Path) -> Unit:
        gone.unlink(missing_ok=True)
        return read(path)

    monkeypatch.setattr(claude_code, "_read", swept)
    with opened(root) as home:
        assert gone.stem not in session_ids(home)
        assert session_ids(home)


def test_a_list_reads_no_more_than_so_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it did not count it does not claim to know; the next list goes on."""
    monkeypatch.setattr(format_sessions, "MOST_LISTED_BYTES", 50_000)
    monkeypatch.setattr(session_figures, "_LARGE", 0)
    root = home_of("claude-code", tmp_path)
    with opened(root) as home:
        exact = {each.id: home.sessions.get(each.id).message_count for each in home.sessions.find()}
    shutil.rmtree(root / ".holdfast")
    seen: list[list[Session]] = []
    while not seen or (not all(each.counted for each in seen[-1]) and len(seen) < 50):
        with opened(root) as home:
            seen.append([*home.list_sessions().sessions])
    assert len(seen) > 2
    for listed in seen:
        for each in listed:
            assert each.message_count <= exact[each.id]
            assert not each.counted or each.message_count == exact[each.id]
    assert {each.id: each.message_count for each in seen[-1]} == exact


# --- Databases ------------------------------------------------------------------------------------


def test_rollouts_without_rows_are_sessions(tmp_path: Path) -> None:
    """Those of earlier releases, or of a home whose database was lost."""
    root = home_of("codex", tmp_path)
    with opened(root) as home:
        before = {each.id: each for each in home.sessions.find()}
    (root / "state_5.sqlite").unlink()
    shutil.rmtree(root / ".holdfast")
    with opened(root) as home:
        after = {each.id: each for each in home.sessions.find()}
    assert after.keys() == before.keys()
    for name, each in after.items():
        assert (each.cwd, each.model, each.source) == (
            before[name].cwd,
            before[name].model,
            before[name].source,
        )
    comes_and_goes(root)


def test_a_path_into_another_home_is_not_followed(tmp_path: Path) -> None:
    """A copied home names the rollouts of the first one."""
    root = home_of("codex", tmp_path)
    other = tmp_path / "other"
    shutil.copytree(root, other)
    with closing(sqlite3.connect(root / "state_5.sqlite")) as db, db:
        db.execute(
            "UPDATE threads SET rollout_path = ? || substr(rollout_path, instr(rollout_path,"
            " '/sessions/'))",
            (str(other),),
        )
    before = files_and_rows(other)
    comes_and_goes(root)
    assert files_and_rows(other) == before


@pytest.mark.parametrize(
    ("agent", "database", "statement"),
    [
        ("codex", "state_5.sqlite", "ALTER TABLE threads RENAME TO threads_old"),
        ("codex", "state_6.sqlite", "CREATE TABLE threads (id TEXT)"),
        ("opencode", "opencode.db", "ALTER TABLE session RENAME TO session_old"),
        ("opencode", "opencode.db", "ALTER TABLE message RENAME COLUMN data TO body"),
        ("opencode", "opencode.db", "UPDATE session SET version = '2.0.0'"),
    ],
)
def test_a_database_in_another_shape_is_read_and_left_alone(
    agent: str, database: str, statement: str, tmp_path: Path
) -> None:
    """In the middle of a migration, or after one."""
    root = home_of(agent, tmp_path)
    with closing(sqlite3.connect(root / database)) as db, db:
        db.execute(statement)
    before = files_and_rows(root)
    with opened(root) as home:
        session_ids(home)
        seen = home.status()
        assert seen.inventory.problems
        assert seen.outlook is not None
        assert seen.outlook.removals == 0, "what no run may do is not promised"
        for each in session_ids(home) or {"ses_none"}:
            with pytest.raises((SchemaError, HoldfastError)):
                home.plan_delete([each]).apply()
    assert files_and_rows(root) == before


def test_an_earlier_database_beside_its_successor_is_left_alone(tmp_path: Path) -> None:
    root = home_of("codex", tmp_path)
    shutil.copy(root / "state_5.sqlite", root / "state_4.sqlite")
    before = (root / "state_4.sqlite").read_bytes()
    with opened(root) as home:
        assert set(remove_all(home).values()) == {Result.REMOVED}
    assert (root / "state_4.sqlite").read_bytes() == before


def test_databases_elsewhere_make_a_home_read_only(tmp_path: Path) -> None:
    root = home_of("codex", tmp_path)
    with (root / "config.toml").open("a") as file:
        file.write('\nsqlite_home = "/elsewhere"\n')
    with opened(root) as home, pytest.raises(SchemaError, match="sqlite_home"):
        remove_all(home)


def test_a_number_that_the_agent_gave_again_is_no_obstacle(tmp_path: Path) -> None:
    """SQLite gives the place of a row that is gone to the next one."""
    root = home_of("opencode", tmp_path)
    with opened(root) as home:
        gone = remove_all(home)
    with closing(sqlite3.connect(root / "opencode.db")) as db, db:
        db.execute(
            "INSERT INTO session (id, project_id, slug, directory, title, version, time_created,"
            " time_updated) SELECT 'ses_new', id, 's', '/p', 'T', '1.18.33', 1, 1 FROM project"
        )
    with opened(root) as home:
        assert not home.undo_latest().failed
        assert session_ids(home) >= {*gone, "ses_new"} - {
            each.id for each in home.sessions.find() if each.parent_id
        }


def test_bytes_of_a_session_are_all_its_rows(tmp_path: Path) -> None:
    root = home_of("opencode", tmp_path)
    with opened(root) as home:
        shown = sum(each.bytes for each in home.sessions.find())
    with closing(sqlite3.connect(root / "opencode.db")) as db:
        tables = ("message", "part", "event")
        real = sum(
            db.execute(f"SELECT total(length(data)) FROM {each}").fetchone()[0]  # noqa: S608
            for each in tables
        )
    assert real <= shown <= 2 * real


# --- Life -----------------------------------------------------------------------------------------


def test_a_sign_that_cannot_be_read_protects(tmp_path: Path) -> None:
    root = home_of("claude-code", tmp_path)
    (root / "sessions" / f"{os.getpid()}.json").write_text('{"pid":')
    with opened(root) as home:
        assert remove_all(home) == {}
    (root / "sessions" / f"{os.getpid()}.json").unlink()
    (root / "sessions" / "4194399.json").write_text('{"pid":')
    with opened(root) as home:
        assert remove_all(home)


def test_a_process_of_another_container_protects(tmp_path: Path) -> None:
    root = home_of("claude-code", tmp_path)
    name = "541d5a9b-3a07-47e6-b87b-5fb3a444c954"
    said = {"pid": 4194399, "sessionId": name, "procStart": "1", "pidDomain": "linux:x:pid:[1]"}
    (root / "sessions" / "4194399.json").write_text(json.dumps(said))
    with opened(root) as home:
        assert name not in remove_all(home)


def test_leftovers_stay_while_the_agent_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which of them a process still needs cannot be told."""
    # Whoever runs this test may have the real agent open.
    monkeypatch.setattr(life, "running", lambda _: life.Running())
    root = home_of("claude-code", tmp_path)
    left = root / "shell-snapshots" / "snapshot-bash-1-abcdef.sh"
    left.write_text("# a shell\n")
    keep = {"HOLDFAST_SESSIONS_LEFTOVERS_RETENTION_DAYS": "7"}
    me = root / "sessions" / f"{os.getpid()}.json"
    said = {"pid": os.getpid(), "sessionId": "x", "procStart": start_ticks(os.getpid())}
    me.write_text(json.dumps(said))
    with holdfast.open(root, clock=lambda: NOW, environ=keep) as home:
        remove_all(home)
        assert left.exists()
        me.unlink()
        remove_all(home)
        assert not left.exists()


def test_old_copies_of_a_program_have_a_retention_of_their_own(tmp_path: Path) -> None:
    """The release that Codex starts from stays, whatever its age."""
    root = home_of("codex", tmp_path)
    releases = root / "packages" / "standalone" / "releases"
    for age, name in enumerate(("0.166.0", "0.165.0")):
        program = releases / name
        program.mkdir(parents=True)
        (program / "codex").write_bytes(b"x" * 100_000)
        os.utime(program, (NOW - (300 + age) * 86_400, NOW - (300 + age) * 86_400))
        os.utime(program / "codex", (NOW - 300 * 86_400, NOW - 300 * 86_400))
    config = root / ".holdfast" / "config.toml"
    config.parent.mkdir(exist_ok=True)
    config.write_text("[sessions.source.old-program]\nleftovers_retention_days = 30\n")
    with opened(root) as home:
        home.plan_prune().apply()
    assert [each.name for each in releases.iterdir()] == ["0.166.0"]


def test_what_lies_in_tmp_is_of_the_home_that_has_its_project(tmp_path: Path) -> None:
    root = home_of("claude-code", tmp_path)
    project = next(root.glob("projects/*")).name
    shared = claude_code.TEMPORARY / f"claude-{os.getuid()}"
    own = next(root.glob("projects/*/541d5a9b*.jsonl")).stem
    # What the user typed there is still in the history: it was a session of this home. The other
    # one may be a session of another home that works on the same project.
    append(root / "history.jsonl", {"display": "hello", "project": "/p", "sessionId": "gone"})
    places = (f"{project}/{own}", f"{project}/gone", f"{project}/other", "-of-another-home/gone")
    for place in places:
        (shared / place / "tasks").mkdir(parents=True)
        (shared / place / "tasks" / "a.output").write_text("much")
    with opened(root) as home:
        left = {each.id for each in home.status().inventory.items if each.source == "task-output"}
        assert left == {"task-output/gone"}
        home.plan_delete([own]).apply()
        assert not (shared / project / own).exists()
        assert (shared / "-of-another-home" / "gone" / "tasks" / "a.output").exists()
        home.undo_latest()
        assert (shared / project / own / "tasks" / "a.output").read_text() == "much"


def test_a_process_behind_a_link_protects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenCode notes the folder as the shell named it; a process shows where it really is."""
    root = home_of("opencode", tmp_path)
    project, link = tmp_path / "project", tmp_path / "link"
    project.mkdir()
    link.symlink_to(project)
    with closing(sqlite3.connect(root / "opencode.db")) as db, db:
        db.execute("UPDATE session SET directory = ?", (str(link),))
    works = life.Running(folders={str(project): "process 1 works there"})
    monkeypatch.setattr(life, "running", lambda _: works)
    with opened(root) as home:
        assert remove_all(home) == {}


# --- Folders --------------------------------------------------------------------------------------


def test_two_agents_in_one_folder(tmp_path: Path) -> None:
    """In the place of one, that one is seen; everything of the other stays as it is."""
    root = home_of("claude-code", tmp_path).rename(tmp_path / ".claude")
    other = home_of("codex", tmp_path / "other")
    shutil.copytree(other, root, dirs_exist_ok=True)
    theirs = {path.relative_to(other) for path in other.rglob("*") if path.is_file()}
    theirs -= {Path("history.jsonl")}
    before = {path: (root / path).read_bytes() for path in theirs}
    with opened(root) as home:
        remove_all(home)
    assert {path: (root / path).read_bytes() for path in theirs} == before


def test_hostile_names(tmp_path: Path) -> None:
    root = home_of("claude-code", tmp_path)
    transcript = next(root.glob("projects/*/541d5a9b*.jsonl"))
    folder = root / "projects" / os.fsdecode(b"-home-[a]*?\n\xff")
    folder.mkdir()
    os.utime(shutil.copy(transcript, folder / "11111111-1111-4111-8111-111111111111.jsonl"), (1, 1))
    for name in (b"*.jsonl", b"a\nb.jsonl", b"\xff\xfe.jsonl", b"..jsonl", b"-rf.jsonl"):
        (folder / os.fsdecode(name)).write_bytes(transcript.read_bytes())
    with opened(root) as home:
        assert "11111111-1111-4111-8111-111111111111" in session_ids(home)
        home.status()
        assert home.sessions.search("Noted")
        home.plan_delete(["11111111-1111-4111-8111-111111111111"]).apply()
        assert transcript.exists()
        home.undo_latest()
    comes_and_goes(root)


def test_a_hostile_session_id_of_gemini_reaches_nothing(tmp_path: Path) -> None:
    root = home_of("gemini", tmp_path)
    chat = next(root.glob("tmp/*/chats/session-*.jsonl"))
    head, *rest = chat.read_text().splitlines()
    for name in ("../..", "chats", "logs", "..", "/etc"):
        lines = [json.dumps({**json.loads(head), "sessionId": name}), *rest]
        chat.write_text("\n".join(lines))
        with opened(root) as home:
            others = session_ids(home) - {name}
            home.plan_prune(older_than="1d").apply()
            home.undo_latest()
            assert others <= session_ids(home)
        assert (root / "projects.json").exists()


def test_a_home_behind_a_link_is_that_home(tmp_path: Path) -> None:
    root = home_of("claude-code", tmp_path)
    link = tmp_path / "link"
    link.symlink_to(root)
    with opened(link) as home:
        assert remove_all(home)
        home.undo_latest()


def test_what_a_link_leads_out_to_is_left_alone(tmp_path: Path) -> None:
    """Transcripts on another disk, by a link: they are not below the home."""
    root = home_of("claude-code", tmp_path)
    outside = tmp_path / "outside"
    (root / "projects").rename(outside)
    (root / "projects").symlink_to(outside)
    before = files_and_rows(outside)
    with opened(root) as home:
        assert remove_all(home) == {}
        assert home.status().inventory.problems
        found = home.list_sessions()  # they can be read all the same, and a list says what is wrong
        assert len(found.sessions) == 5
        assert any("outside the home" in each.reason for each in found.problems)
        assert [*home.sessions.messages(found.sessions[0].id)]
        with pytest.raises(StorageError, match=r"cannot be removed: .* is outside"):
            home.plan_delete([found.sessions[0].id])
    assert files_and_rows(outside) == before


@pytest.mark.parametrize("agent", AGENTS)
def test_nothing_to_do_in_an_empty_home(agent: str, tmp_path: Path) -> None:
    """As an agent leaves it that was started and never asked anything."""
    root = home_of(agent, tmp_path)
    shutil.rmtree(root / "sessions" if agent == "claude-code" else tmp_path / "nothing", True)
    with opened(root) as home:
        home.plan_delete(session_ids(home), use_trash=False).apply()
    with opened(root) as home:
        assert session_ids(home) == set()
        home.status()
        assert remove_all(home) == {}


# --- What a link leads to -------------------------------------------------------------------------


@pytest.mark.parametrize("held_open", [True, False])
def test_a_living_transcript_behind_a_link_stays(tmp_path: Path, held_open: bool) -> None:
    root = home_of("claude-code", tmp_path)
    transcript = max(root.glob("projects/*/*.jsonl"), key=lambda each: each.stat().st_size)
    elsewhere = tmp_path / "elsewhere.jsonl"
    transcript.rename(elsewhere)
    transcript.symlink_to(elsewhere)
    old = NOW - 100 * 86_400
    os.utime(transcript, (old, old), follow_symlinks=False)
    with opened(root) as home:
        home.sessions.find()  # what it notes now must not hide what is written later
    os.utime(elsewhere, (old, old) if held_open else (NOW - 5, NOW - 5))
    with elsewhere.open("a") if held_open else contextlib.nullcontext(), opened(root) as home:
        done = remove_all(home)
    assert done.get(transcript.stem) is not Result.REMOVED
    assert transcript.is_symlink()


# --- The trash ------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", [b"", b"{torn", None])
@pytest.mark.parametrize("agent", AGENTS)
def test_copies_whose_record_was_lost_stay_and_cost_no_others(
    agent: str, damage: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = home_of(agent, tmp_path)
    before = files_and_rows(root)
    with opened(root) as home:
        with monkeypatch.context() as patched:
            patched.setattr(carry_out, "BATCH", 2)
            gone = remove_all(home)
        first, *others = sorted(root.glob(".holdfast/trash/1/units-*"))
        assert others
        record, copies = first / RECORD, everything(first)
        said = record.read_bytes()
        if damage is None:
            record.unlink()
        else:
            record.write_bytes(damage)
        report = home.undo_latest()
        failed = [each for each in report.outcomes if each.result is not Result.BROUGHT_BACK]
        assert len(failed) == 2
        for each in failed:
            assert str(record) in each.reason
            assert f"The files are still in {first};" in each.reason
            assert "delete" not in each.reason  # they may be the only copies
        assert not [*root.glob(".holdfast/trash/1/units-*")][1:]
        report = home.trash.plan_empty().apply()
        assert {each.result for each in report.outcomes} == {Result.FAILED}
        assert all("delete that folder if nobody" in each.reason for each in report.outcomes)
        record.write_bytes(said)
        record.chmod(0o600)
        assert everything(first) == copies
        assert home.undo("1").brought_back == 2
        assert gone.keys() <= {each.id for each in home.sessions.find()}
    assert files_and_rows(root) == before
    assert not [*root.glob(".holdfast/trash/*")]


def test_a_partly_unpacked_folder_does_not_cost_a_damaged_bundle(tmp_path: Path) -> None:
    """Only what was unpacked to the end has a record, and holds what the bundle holds."""
    root = home_of("claude-code", tmp_path)
    with opened(root) as home:
        session = next(each for each in home.sessions.find() if not each.parent_id)
        [archived] = home.archive_sessions(session.id).report.outcomes
        assert archived.result is Result.REMOVED
        [bundle] = root.glob(".holdfast/archive/*.tar.*")
        whole = bundle.read_bytes()
        bundle.write_bytes(whole[:-3] + bytes([whole[-3] ^ 1]) + whole[-2:])
        begun = root / ".holdfast" / "trash" / "1" / "units-0"
        begun.mkdir(parents=True, mode=0o700)
        (begun / "0.0").write_bytes(b"its first li")
        [refused] = home.undo("1").outcomes
        assert (refused.result, "its bundle is damaged" in refused.reason) == (Result.DAMAGED, True)
        bundle.write_bytes(whole)
        assert home.undo("1").brought_back == 1
        assert session.id in {each.id for each in home.sessions.find()}
    assert not [*root.glob(".holdfast/trash/*")]


# --- A bug in one format --------------------------------------------------------------------------


def test_a_message_of_gptme_without_a_time(tmp_path: Path) -> None:
    root = home_of("gptme", tmp_path)
    log = min(root.glob("logs/*/conversation.jsonl"))
    with log.open("a") as file:
        file.write('{"role": "user", "content": "no time"}\n')
    with opened(root) as home:
        assert "no time" in str([*home.sessions.messages(log.parent.name)][-1].content)


def test_a_bug_in_one_format_does_not_hide_the_other_homes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for agent, folder in (("claude-code", ".claude"), ("gemini", ".gemini")):
        HOMES[agent].make(tmp_path / folder)

    def broken(*_: object) -> None:
        raise KeyError("timestamp")

    monkeypatch.setattr(gemini.Gemini, "units", broken)
    with holdfast.machine(user_home=tmp_path, clock=lambda: NOW) as machine:
        page = machine.list_sessions()
    assert {each.home.agent for each in page.found} == {"claude-code"}
    [unread] = page.looked.unread
    assert unread.path == tmp_path / ".gemini"
    assert "KeyError" in unread.error.message
