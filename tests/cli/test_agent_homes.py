"""Every command on the homes that real agents left. The table in docs/reference/agents.md says what
these tests show."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from holdfast.model.figures import DiskRoom
from tests.cli.forked import at
from tests.cli.inside import Inside
from tests.cli.machine import Machine
from tests.cli.runner import Result, environment, run
from tests.contract import agent_homes
from tests.contract.agent_homes import FOUR
from tests.contract.agents.home import AgentHome
from tests.contract.agents.recorded import RECORDED
from tests.contract.factory import files_and_rows
from tests.contract.turns import Turns, marks

_HOUR = 3_600.0
#: When the homes were recorded, and long after.
_SOON = agent_homes.NOW - 200 * agent_homes.DAY
LATER = agent_homes.NOW

AGENTS = {each.name: each for each in RECORDED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """A user with the home of one agent, at a time of our choice."""

    agent: AgentHome
    user: Path

    @property
    def root(self) -> Path:
        return self.user / self.agent.folder

    @property
    def own(self) -> Path:
        return self.user / ".holdfast"

    @property
    def file(self) -> Path:
        if not self.agent.file:
            pytest.skip(f"a session of {self.agent.people} is no single file")
        [found] = self.root.glob(self.agent.file)
        return found

    def run(self, *words: str, home: Path | None = None, now: float = LATER) -> Result:
        return run(["--home", str(home or self.root), *words], environment(self.user, **at(now)))

    def ok(self, *words: str, **how: Any) -> Result:
        done = self.run(*words, **how)
        assert done.code == 0, done
        return done

    def json(self, *words: str, **how: Any) -> Any:
        return self.ok(*words, "--json", **how).document

    def sessions(self, home: Path | None = None) -> dict[str, Any]:
        return {each["id"]: each for each in self.json("sessions", "list", home=home)["sessions"]}

    def exported(self, home: Path | None = None) -> dict[str, Any]:
        text = self.ok("sessions", "export", "--all", home=home).out
        return _lines(self.comparable(text))

    def comparable(self, text: str) -> str:
        """Our store gives the time of the session to a message that has none."""
        timeless = self.agent.timeless
        return re.sub(r'"timestamp":[^},]+', '"timestamp":0', text) if timeless else text

    def look(self) -> Any:
        return files_and_rows(self.root)


@pytest.fixture(scope="session")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Callable[[AgentHome], Path]:
    place = tmp_path_factory.mktemp("agents")

    def template(agent: AgentHome) -> Path:
        root = place / agent.name / agent.folder
        if not root.exists():
            root.parent.mkdir(parents=True, exist_ok=True)
            agent.make(root)
        return root

    return template


_turns = Turns([*AGENTS], share=1)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each test runs on one of the agents, another one for each test; on all of them when there is
    time (`make test-deep`)."""
    named = [mark.args[0] for mark in metafunc.definition.iter_markers("parametrize")]
    if "bench" not in metafunc.fixturenames or any("bench" in each for each in named):
        return
    quick = _turns.take(AGENTS)
    params = [
        pytest.param(agent, marks=marks(name in quick), id=name) for name, agent in AGENTS.items()
    ]
    metafunc.parametrize("bench", params, indirect=True)


@pytest.fixture
def bench(
    request: pytest.FixtureRequest, templates: Callable[[AgentHome], Path], tmp_path: Path
) -> Bench:
    made = Bench(agent=request.param, user=tmp_path / "user")
    made.root.parent.mkdir(parents=True)
    shutil.copytree(templates(request.param), made.root, symlinks=True)
    return made


# --- Reading --------------------------------------------------------------------------------------


def test_reading(bench: Bench) -> None:
    before = bench.look()
    assert f"{bench.agent.name} home" in bench.ok("status").out
    assert len(bench.sessions()) == bench.agent.sessions
    whole = bench.agent.whole
    shown = bench.json("sessions", "show", whole)
    assert {each["role"] for each in shown["messages"]} >= {"user", "assistant", "tool"}
    assert shown["session"]["cwd"].startswith("/home/me/")
    assert shown["session"]["model"]
    assert shown["session"]["tokens_in"] > 0
    assert "[Noted]" in bench.ok("sessions", "search", "Noted").out
    stats = bench.ok("sessions", "stats").words
    assert f"{bench.agent.sessions} sessions (0 open)" in stats
    assert "write-ahead log" not in stats, "the agent has no database of ours"
    document = bench.ok("sessions", "export", whole, "--format", "markdown").out
    assert document.startswith("# ")
    assert "### tool" in document.lower() or "tool" in document
    assert f"the files of {bench.agent.people} are read" in bench.ok("doctor").words
    assert bench.look() == before, "looking changes nothing"


def test_the_machine_has_it(bench: Bench) -> None:
    env = environment(bench.user, **at(LATER))
    [found] = run(["status", "--json"], env).document["homes"]
    assert (found["kind"], found["home"]) == (bench.agent.name, str(bench.root))


# --- Changing -------------------------------------------------------------------------------------


def test_prune_and_undo(bench: Bench) -> None:
    before, there = bench.look(), bench.sessions()
    prune = ("sessions", "prune", "--older-than", "90d", "--keep-last", "1")
    assert "older than 90 d" in bench.ok(*prune, "--dry-run").out
    assert bench.look() == before
    assert bench.json(*prune, "--yes")["report"]["removed"] > 0
    assert 0 < len(bench.sessions()) < len(there)
    bench.ok("undo")
    assert bench.look() == before
    assert bench.sessions().keys() == there.keys()


@pytest.mark.parametrize("bench", [AGENTS["opencode"]], indirect=True, ids=["opencode"])
def test_rows_free_no_space_on_the_disk(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file of the database does not shrink, so nothing of it counts as freed."""
    database = bench.root / "opencode.db"
    before = database.stat().st_size
    binned = _pruned_inside(bench, monkeypatch)
    assert "Freed 0 B now. Bring it back with:" in binned
    assert "Until the trash is emptied, copies of database rows take 110.6 kB more." in binned
    bench.ok("undo")
    gone = _pruned_inside(bench, monkeypatch, "--now")
    assert database.stat().st_size >= before
    assert "Freed 0 B.\nAbout 54.1 kB was freed inside the agent's database" in gone


@pytest.mark.parametrize("bench", [AGENTS["codex"]], indirect=True, ids=["codex"])
def test_files_and_rows_free_what_was_planned(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files give room back to the disk, the rows to the database: no byte of them to both."""
    gone = _pruned_inside(bench, monkeypatch, "--now")
    words = (r"plan removes .*?, ([\d.]+) kB on disk", r"Freed ([\d.]+) kB\.", r"About ([\d.]+) kB")
    planned, freed, inside = (float(re.findall(each, gone)[0]) for each in words)
    assert freed + inside == pytest.approx(planned, abs=0.2)


@pytest.mark.parametrize("bench", [AGENTS["pi"]], indirect=True, ids=["pi"])
def test_files_that_are_gone_are_freed(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = _pruned_inside(bench, monkeypatch, "--now")
    assert re.search(r"^Freed [1-9].* kB\.$", gone, re.MULTILINE)
    assert "database" not in gone


@pytest.mark.parametrize("bench", [AGENTS["pi"]], indirect=True, ids=["pi"])
def test_on_a_full_disk_the_reserve_is_not_for_the_trash(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That would free nothing, and take the room in which something can be removed for good."""
    before = bench.look()
    monkeypatch.setattr("holdfast.api.plan.is_held", lambda _: True)
    full = DiskRoom(free=0, size=1)
    monkeypatch.setattr("holdfast.homes.home.Home.disk_room", lambda _: full)
    monkeypatch.setattr("time.time", lambda: LATER)
    inside = Inside(Machine(root=bench.user.parent))
    prune = ("--home", str(bench.root), "sessions", "prune", "--yes")
    refused = inside.run(*prune)
    assert refused.code == 1
    assert "--now" in refused.err
    assert bench.look() == before
    assert "Freed" in inside.ok(*prune, "--now").out


def _pruned_inside(bench: Bench, monkeypatch: pytest.MonkeyPatch, *flags: str) -> str:
    """A prune in this process: what it said."""
    monkeypatch.setattr("time.time", lambda: LATER)
    inside = Inside(Machine(root=bench.user.parent))
    return inside.ok("--home", str(bench.root), "sessions", "prune", "--yes", *flags).out


def test_gc_and_undo(bench: Bench) -> None:
    before, there = bench.look(), bench.sessions()
    most = bench.agent.trivial
    bench.ok("sessions", "gc", "--trivial-max", str(most), "--yes")
    left = bench.sessions()
    assert all(each["message_count"] > most or each["parent_id"] for each in left.values())
    assert len(left) < len(there)
    bench.ok("undo")
    assert bench.look() == before


def test_delete_and_undo(bench: Bench) -> None:
    before, whole = bench.look(), bench.agent.whole
    bench.ok("sessions", "delete", whole, "--yes")
    left = bench.sessions()
    assert whole not in left
    assert all(each["parent_id"] != whole for each in left.values()), "its subagents went with it"
    assert bench.run("sessions", "show", whole).code == 2
    bench.ok("undo")
    assert bench.look() == before


@pytest.mark.parametrize(
    ("bench", "database", "statement"),
    [
        (AGENTS["codex"], "state_5.sqlite", "INSERT INTO thread_spawn_edges VALUES (?, ?, 'open')"),
        (AGENTS["opencode"], "opencode.db", "UPDATE session SET parent_id = ? WHERE id = ?"),
    ],
    ids=("codex", "opencode"),
    indirect=["bench"],
)
def test_a_subagent_goes_and_returns_with_its_session(
    bench: Bench, database: str, statement: str
) -> None:
    """As Claude Code's do, which lie inside; the recorded homes of these two have none."""
    whole = bench.agent.whole
    child = min(bench.sessions().keys() - {whole})
    with closing(sqlite3.connect(bench.root / database)) as db, db:
        db.execute(statement, (whole, child))
    told = bench.sessions()[child]
    assert (told["parent_id"], told["relation"]) == (whole, "delegate")
    before = bench.look()
    bench.ok("sessions", "delete", whole, "--yes")
    assert not bench.sessions().keys() & {whole, child}
    bench.ok("undo")
    assert bench.look() == before
    done = bench.json("sessions", "import", str(bench.root), "--session", whole, home=bench.own)
    assert done["imported"] == 2
    assert bench.sessions(bench.own)[child]["parent_id"] == whole


def test_archive_and_restore(bench: Bench) -> None:
    before, whole = bench.look(), bench.agent.whole
    bench.ok("sessions", "archive", whole, "--yes")
    assert whole not in bench.sessions()
    kept = bench.json("sessions", "list", "--archived")["sessions"]
    assert whole in [each["id"] for each in kept]
    assert "is in the archive" in bench.run("sessions", "show", whole).words
    assert whole in bench.ok("sessions", "search", "Done", "--archived").out
    bench.ok("sessions", "restore", whole, "--yes")
    assert bench.look() == before


def test_pin(bench: Bench) -> None:
    before, whole = bench.look(), bench.agent.whole
    bench.ok("sessions", "pin", whole)
    bench.ok("sessions", "prune", "--older-than", "90d", "--yes")
    assert {name for name, each in bench.sessions().items() if not each["parent_id"]} == {whole}
    bench.ok("undo")
    bench.ok("sessions", "unpin", whole)
    bench.ok("sessions", "prune", "--older-than", "90d", "--yes")
    assert whole not in bench.sessions()
    bench.ok("undo")
    assert bench.look() == before


def test_maintain(bench: Bench) -> None:
    before = bench.look()
    assert "auto_prune is off" in bench.ok("maintain", "--force").words
    assert bench.look() == before
    config = bench.root / ".holdfast" / "config.toml"
    config.parent.mkdir(exist_ok=True)
    config.write_text("[sessions]\nauto_prune = true\n")
    bench.ok("maintain", "--force")
    assert not bench.sessions()
    bench.ok("undo", "--yes")
    assert bench.look() == before


def test_what_was_just_used_stays(bench: Bench) -> None:
    """Under a day old: whatever a command says, nothing leaves."""
    before, now = bench.look(), _SOON + 4 * _HOUR
    whole = bench.agent.whole
    for words in (
        ("sessions", "delete", whole, "--yes"),
        ("sessions", "archive", whole, "--yes"),
        ("sessions", "prune", "--older-than", "1s", "--yes"),
        ("sessions", "gc", "--trivial-max", "99", "--yes"),
    ):
        done = bench.run(*words, now=now)
        assert "in use" in done.words or "used within the last day" in done.words, done
        assert bench.look() == before


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("sessions", "rename", "{id}", "mine"), "writes its sessions itself"),
        (("sessions", "end", "{id}"), "writes its sessions itself"),
        (("sessions", "import", "{file}"), "writes its sessions itself"),
    ],
    ids=lambda value: value[1] if isinstance(value, tuple) else "",
)
def test_what_the_agent_writes_itself_is_refused(
    bench: Bench, words: tuple[str, ...], reason: str
) -> None:
    before, whole = bench.look(), bench.agent.whole
    done = bench.run(*(each.format(id=whole, file=bench.file) for each in words))
    assert done.code == 2
    assert bench.agent.people in done.words
    assert reason in done.words
    assert bench.look() == before


# --- Between their words and ours -----------------------------------------------------------------


def test_export_import_export_is_equal(bench: Bench, tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    bench.ok("sessions", "export", "--all", "--output", str(path))
    bench.ok("sessions", "import", str(path), home=bench.own)
    again = bench.ok("sessions", "export", "--all", home=bench.own).out
    assert bench.comparable(again) == bench.comparable(path.read_text())
    lineage = {name: (each["parent_id"], each["relation"]) for name, each in _lines(again).items()}
    if bench.agent.name == "claude-code":
        [(child, told)] = [each for each in lineage.items() if each[1][0]]
        assert child.startswith("agent-")
        assert told[1] == "delegate"


def _lines(text: str) -> dict[str, Any]:
    return {each["id"]: each for each in map(json.loads, text.splitlines())}


def test_redacted_export(bench: Bench) -> None:
    """The rules of redaction hold for what an agent wrote."""
    said, secret = "Done: the file is written", "the key is ghp_" + "a1B2" * 9
    if bench.agent.words_in:
        table, column = bench.agent.words_in
        with closing(sqlite3.connect(bench.file)) as db, db:
            db.execute(f"UPDATE {table} SET {column} = replace({column}, ?, ?)", (said, secret))  # noqa: S608 - names of our own
    else:
        bench.file.write_text(bench.file.read_text().replace(said, secret))
    assert "ghp_" in bench.ok("sessions", "export", "--all").out
    redacted = bench.ok("sessions", "export", "--all", "--redact").out
    assert "ghp_" not in redacted
    assert "[redacted:github-token]" in redacted


def test_import_of_a_home(bench: Bench) -> None:
    done = bench.json("sessions", "import", str(bench.root), home=bench.own)
    assert done["imported"] == bench.agent.sessions
    assert done["agent"] == bench.agent.people
    assert bench.exported(bench.own) == bench.exported()
    assert {each["source"] for each in bench.exported().values()} == {bench.agent.name}
    again = bench.json("sessions", "import", bench.agent.name, home=bench.own)
    assert (again["imported"], len(again["skipped"])) == (0, bench.agent.sessions)
    assert bench.exported(bench.own) == bench.exported()


def test_import_of_one_session(bench: Bench) -> None:
    whole = bench.agent.whole
    for place in (bench.root, bench.file) if bench.agent.alone else (bench.root,):
        nobody = bench.run("sessions", "import", str(place), "--session", "nobody", home=bench.own)
        assert nobody.code == 2
        assert "no session 'nobody'" in nobody.words
    assert not bench.own.exists()
    bench.ok("sessions", "import", str(bench.root), "--session", whole[:25], home=bench.own)
    there = bench.exported()
    wanted = {name for name, each in there.items() if whole in (name, each["parent_id"])}
    assert bench.exported(bench.own) == {name: there[name] for name in wanted}


def test_import_of_a_file_of_the_agent(bench: Bench, tmp_path: Path) -> None:
    """By its content: its name and place do not matter."""
    before = bench.look()
    if not bench.agent.alone:
        done = bench.run("sessions", "import", str(bench.file), home=bench.own)
        assert "nor a session file of an agent that Holdfast knows" in done.words
        return
    done = bench.json("sessions", "import", str(bench.file), home=bench.own)
    assert done["agent"] == bench.agent.people
    assert not done["refused"]
    assert not done["notes"]
    there, here = bench.exported(), bench.exported(bench.own)
    assert here
    for name, each in here.items():
        for field in ("messages", "cwd", "parent_id", "relation", "source"):
            assert each[field] == there[name][field], (name, field)
    elsewhere = tmp_path / "saved.bin"
    shutil.copy(bench.file, elsewhere)
    again = bench.json("sessions", "import", str(elsewhere), home=bench.own)
    assert again["imported"] == int(bench.agent.anonymous)
    assert set(again["skipped"]) <= here.keys()
    assert bench.look() == before, "what is read is never changed"


@pytest.mark.parametrize(
    "bench",
    [
        pytest.param(each, marks=() if each in FOUR else pytest.mark.deep, id=each.name)
        for each in RECORDED
        if each.file.endswith(".jsonl")
    ],
    indirect=True,
)
def test_a_torn_line_is_named(bench: Bench) -> None:
    """Of the agents that write lines."""
    path = bench.file
    with path.open("ab") as file:
        file.write(b'not json at all\n{"type":"user","mess')
    done = bench.ok("sessions", "import", str(path), home=bench.own)
    assert "is not a JSON object and was left out" in done.words
    assert "the last one, is torn and was left out" in done.words
    assert f"of {bench.agent.people}" in done.words


def _database(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE session (id TEXT)")


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("notes.md", lambda path: path.write_text("# Notes\n\nNothing here is a session.\n")),
        ("picture.png", lambda path: path.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(200))),
        ("chat.json", lambda path: path.write_text('{"sessionId": "x",\n "messages": []\n}\n')),
        ("events.jsonl", lambda path: path.write_text('{"type": "message", "session": "x"}\n')),
        ("other.db", _database),
    ],
)
def test_a_file_of_nobody_is_answered(
    tmp_path: Path, name: str, make: Callable[[Path], object]
) -> None:
    make(tmp_path / name)
    done = run(
        ["--home", str(tmp_path / "own"), "sessions", "import", str(tmp_path / name)],
        environment(tmp_path),
    )
    assert done.code == 1
    assert "Stored 0 sessions" in done.words
    assert "nor a session file of an agent that Holdfast knows" in done.words


def test_a_folder_that_is_no_home(tmp_path: Path) -> None:
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / "one.png").write_bytes(bytes(10))
    done = run(
        ["--home", str(tmp_path / "own"), "sessions", "import", str(tmp_path / "pictures")],
        environment(tmp_path),
    )
    assert done.code == 2
    assert "is not the home of an agent" in done.words
    assert not (tmp_path / "own").exists()


@pytest.mark.parametrize("bench", [AGENTS["opencode"]], ids=["opencode"], indirect=True)
def test_a_home_into_itself(bench: Bench) -> None:
    bench.ok("sessions", "import", str(bench.root), home=bench.own)
    done = bench.run("sessions", "import", str(bench.own), "--replace", home=bench.own)
    assert done.code == 2
    assert "is the home that the sessions would go into" in done.words
