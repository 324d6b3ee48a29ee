"""The machine as one: reading covers all homes, an id is found wherever it is, and nothing is
changed on a guess."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.errors import UnknownSessionError, UsageError
from holdfast.model.arguments import MOST_NAMED
from holdfast.model.figures import DiskRoom
from tests.cli.agents import FOLDERS, home_of, settle
from tests.cli.inside import Inside
from tests.cli.machine import Machine, entries
from tests.cli.privileges import as_nobody_special
from tests.cli.session_bench import CRON, DISK

#: A session of Hermes, old and ended.
FIRST = "20260101_101010_aaaaaa"
_READING = [
    "status",
    "sessions list",
    "sessions search hello",
    "sessions stats",
    "sessions stats --cost",
    "sessions export --all",
    "log",
    "trash list",
]
_ON_ONE_HOME = [
    "sessions prune --yes",
    "sessions gc --yes",
    "sessions archive --older-than 1d --yes",
    "sessions restore --all",
    "undo",
    "trash empty --yes",
    "maintain --force",
    "doctor",
]


@pytest.fixture(scope="module")
def world_once(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    """For tests that only read."""
    machine = Machine(root=tmp_path_factory.mktemp("world"))
    machine.user.mkdir(mode=0o700)
    return settle(machine)


@pytest.fixture
def world(world_once: Machine, tmp_path: Path) -> Machine:
    """A user of six agents."""
    shutil.copytree(world_once.user, tmp_path / "user", symlinks=True)
    return Machine(root=tmp_path)


def some_deep(commands: Sequence[str]) -> list[Any]:
    """Every third command in the quick tests, all of them in the deep ones."""
    return [
        pytest.param(each, marks=pytest.mark.deep if number % 3 else ())
        for number, each in enumerate(commands)
    ]


def by_agent(machine: Machine) -> Mapping[str, set[str]]:
    """The sessions of each agent, asked one by one."""
    return {
        agent: {
            each["id"] for each in machine.json("--home", agent, "sessions", "list")["sessions"]
        }
        for agent in FOLDERS
    }


def contents(machine: Machine) -> Mapping[str, bytes]:
    """What the agents have in their files. Holdfast makes an index for searches."""
    return {
        path: entry.content
        for path, entry in entries(machine.user).items()
        if "/.holdfast" not in path
    }


def test_a_listed_home_that_is_not_there_is_named_like_one_that_cannot_be_read(
    world: Machine, tmp_path: Path
) -> None:
    gone, mount_point = tmp_path / "disk" / ".claude", tmp_path / "mnt"
    mount_point.mkdir()
    said = world.ok("--home", "holdfast", "config", "set", "homes", str(gone), str(mount_point))
    assert f"warning: homes: {gone} does not exist." in said.err
    for command in ("status", "maintain --all-homes --force", "sessions list"):
        result = world.run(*command.split())
        assert result.code == 1
        assert f"{gone} does not exist, but the configuration lists it in `homes`." in result.err
        assert f"{mount_point} is empty, but the configuration lists it" in result.err
        assert "holdfast --home holdfast config edit" in result.err
        assert "doctor" not in result.err
    failed = world.json("sessions", "list", code=1)["failed"]
    assert {each["home"] for each in failed} == {str(gone), str(mount_point)}
    assert "holdfast_homes_unreadable 2" in world.ok("metrics").out


def test_a_listed_pattern_is_only_warned_of(world: Machine, tmp_path: Path) -> None:
    pattern = f"{tmp_path}/*/.claude"
    said = world.ok("--home", "holdfast", "config", "set", "homes", pattern)
    assert f"{pattern} does not exist" in said.err
    assert "patterns" in said.err
    assert not world.json("status")["failed"]


# --- Reading --------------------------------------------------------------------------------------


def test_status_is_one_screen(world_once: Machine) -> None:
    screen = world_once.ok()
    assert len(screen.lines) <= 24
    first_words = [line.split()[0] for line in screen.lines if line]
    assert first_words[0] == "agent"
    assert {*first_words[1:7]} == {*FOLDERS}
    assert first_words[7] == "total"
    assert "holdfast sessions prune --home hermes --dry-run" in screen.out
    assert all(len(line) <= 80 for line in screen.lines)


def test_what_status_suggests_frees_what_it_says(world: Machine) -> None:
    frees = sum(home["policy_would_free"] for home in world.json("status")["homes"])
    plans = world.json("sessions", "prune", "--all-homes", "--dry-run")["homes"]
    assert sum(each["plan"]["bytes"] for each in plans) == frees > 0


def test_status_names_the_trash_when_that_is_what_helps(world: Machine) -> None:
    world.ok("sessions", "prune", "--home", "hermes", "--yes")
    screen = world.ok().out
    assert "holdfast trash empty --home hermes" in screen


def test_the_list_has_every_session_of_every_home(world_once: Machine) -> None:
    listed = world_once.json("sessions", "list")
    found: dict[str, set[str]] = {}
    for each in listed["sessions"]:
        found.setdefault(each["agent"], set()).add(each["id"])
        assert each["home"] == str(home_of(world_once, each["agent"]))
    assert found == by_agent(world_once)
    assert listed["total"] == len(listed["sessions"]) == sum(map(len, found.values()))
    assert listed["failed"] == []


@pytest.mark.parametrize(
    "order",
    [
        "active",
        *(pytest.param(each, marks=pytest.mark.deep) for each in ("tokens", "title", "agent")),
    ],
)
def test_pages_of_all_homes_are_parts_of_one_list(world_once: Machine, order: str) -> None:
    whole = world_once.json("sessions", "list", "--sort", order)["sessions"]
    pages = [
        each
        for offset in range(0, len(whole) + 5, 5)
        for each in world_once.json(
            "sessions", "list", "--sort", order, "--limit", "5", "--offset", str(offset)
        )["sessions"]
    ]
    assert pages == whole


def test_a_column_names_the_agent_and_its_ids_can_be_copied(world_once: Machine) -> None:
    lines = world_once.ok("sessions", "list", "--limit", "40").lines
    assert lines[0].split()[:2] == ["id", "agent"]
    rows = [line.split() for line in lines[1:] if line[:1] not in ("", " ")][:-1]
    for shown, agent, *_ in rows[::4]:
        found = world_once.json("sessions", "show", shown)
        assert found["agent"] == agent
        assert found["session"]["id"].startswith(shown)


def test_a_search_finds_what_was_said_in_any_home(world_once: Machine) -> None:
    world_once.ok("sessions", "search", "hello")  # builds the indexes
    hits = world_once.json("sessions", "search", "hello", "--limit", "100")["hits"]
    one_by_one = {
        (agent, hit["session"], hit["message"])
        for agent in FOLDERS
        for hit in world_once.json(
            "--home", agent, "sessions", "search", "hello", "--limit", "100"
        )["hits"]
    }
    assert {(hit["agent"], hit["session"], hit["message"]) for hit in hits} == one_by_one
    assert len({hit["agent"] for hit in hits}) > 2
    assert [hit["score"] for hit in hits] == sorted((h["score"] for h in hits), reverse=True)
    first = world_once.json("sessions", "search", "hello", "--limit", "2")["hits"]
    then = world_once.json("sessions", "search", "hello", "--limit", "2", "--offset", "2")["hits"]
    assert first + then == hits[:4]


def test_stats_have_a_line_for_each_home(world_once: Machine) -> None:
    homes = world_once.json("sessions", "stats")["homes"]
    counted = {home["agent"]: home["sessions"]["sessions"] for home in homes}
    assert counted == {agent: len(ids) for agent, ids in by_agent(world_once).items()}
    words = world_once.ok("sessions", "stats").words
    assert f"total {sum(counted.values())}" in words


@pytest.mark.deep
def test_an_export_has_the_sessions_of_all_homes(world_once: Machine, tmp_path: Path) -> None:
    target = tmp_path / "all.jsonl"
    world_once.ok("sessions", "export", "--all", "--output", str(target))
    exported = [json.loads(line)["id"] for line in target.read_text().splitlines()]
    wanted = set().union(*by_agent(world_once).values())
    assert len(exported) == len(wanted)
    assert {*exported} == wanted
    codex = min(by_agent(world_once)["codex"])
    some = world_once.ok("sessions", "export", DISK, codex).out.splitlines()
    assert {json.loads(line)["id"] for line in some} == {DISK, codex}


@pytest.mark.parametrize("command", some_deep(_READING))
def test_reading_all_homes_changes_nothing_of_the_agents(world: Machine, command: str) -> None:
    before = contents(world)
    world.ok(*command.split())
    assert contents(world) == before


@pytest.mark.parametrize("command", some_deep(_READING))
def test_a_home_that_cannot_be_read_costs_itself_only(world: Machine, command: str) -> None:
    closed = home_of(world, "codex")
    closed.chmod(0o000)
    try:
        result = world.run(*command.split(), before=as_nobody_special())
    finally:
        closed.chmod(0o755)
    assert result.code == 1
    assert f"Cannot read {closed}" in result.err
    assert result.err.count("error:") == 1
    assert result.out


def test_a_configuration_that_is_wrong_costs_its_home_only(world: Machine) -> None:
    ours = home_of(world, "gemini") / ".holdfast"
    ours.mkdir(exist_ok=True)
    (ours / "config.toml").write_text("trash_days = 'x'\n")
    result = world.run("--json", "sessions", "list")
    assert result.code == 2
    [failed] = result.document["failed"]
    assert (failed["home"], failed["error"]["kind"]) == (str(ours.parent), "config")
    agents = {each["agent"] for each in result.document["sessions"]}
    assert agents == {*FOLDERS} - {"gemini"}


# --- One home by its name -------------------------------------------------------------------------


def test_a_home_by_the_name_of_its_agent(world_once: Machine) -> None:
    for agent in FOLDERS:
        [home] = world_once.json("--home", agent, "status")["homes"]
        assert (home["kind"], home["home"]) == (agent, str(home_of(world_once, agent)))
        by_variable = world_once.json("status", env={"HOLDFAST_HOME": agent})["homes"]
        assert [each["home"] for each in by_variable] == [home["home"]]


def test_the_name_of_an_agent_with_a_path_is_a_folder(world: Machine) -> None:
    home_of(world, "holdfast").rename(world.root / "codex")
    here = world.run("--json", "--home", "./codex", "status", cwd=world.root).document["homes"]
    assert [each["kind"] for each in here] == ["holdfast"]
    named = world.run("--json", "--home", "codex", "status", cwd=world.root).document["homes"]
    assert [each["kind"] for each in named] == ["codex"]


def test_a_variable_moves_the_home_of_an_agent(world: Machine) -> None:
    elsewhere = world.root / "elsewhere"
    home_of(world, "codex").rename(elsewhere)
    env = {"CODEX_HOME": str(elsewhere)}
    assert world.json("--home", "codex", "status", env=env)["homes"][0]["home"] == str(elsewhere)
    agents = {each["agent"] for each in world.json("sessions", "list", env=env)["sessions"]}
    assert agents == {*FOLDERS}


def test_one_home_keeps_its_document(machine: Machine) -> None:
    settle(machine, "holdfast")
    for command in ("sessions list", "sessions stats", "log", "trash list"):
        alone = machine.json(*command.split())
        assert alone == machine.json("--home", str(machine.home), *command.split())
        assert not {"homes", "failed"} & alone.keys()
    assert "agent" not in machine.ok("sessions", "list").lines[0].split()


# --- Changing -------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", some_deep(_ON_ONE_HOME))
def test_nothing_is_changed_on_a_guess(world: Machine, command: str) -> None:
    before = contents(world)
    result = world.run(*command.split())
    assert result.code == 2
    first, hint = result.err.splitlines()  # a list of nineteen homes must not hide what helps
    assert set(first.partition("works on one: ")[2].removesuffix(".").split(", ")) == {*FOLDERS}
    assert hint.startswith("  Pick one")
    asked = command.removesuffix(" --yes")
    assert f"`holdfast --home holdfast {asked}`" in result.err
    assert "--all-homes" in result.err
    assert contents(world) == before


@pytest.mark.parametrize("command", some_deep(_ON_ONE_HOME))
def test_all_homes_are_one_word_away(world: Machine, command: str) -> None:
    result = world.run("--json", *command.split(), "--all-homes")
    homes = result.document["homes"]
    assert {each["agent"] for each in homes} == {*FOLDERS}
    assert result.code in (0, 1) if command == "undo" else result.code == 0, result


def test_prune_and_undo_of_all_homes_are_an_identity(world: Machine) -> None:
    before = by_agent(world)
    world.ok("sessions", "prune", "--all-homes", "--older-than", "0s", "--yes")
    after = by_agent(world)
    assert after != before
    assert all(after[agent] <= before[agent] for agent in FOLDERS)
    world.run("undo", "--all-homes")
    assert by_agent(world) == before


@pytest.mark.parametrize(
    "flags",
    ["--all-homes --home codex", "--all-homes --plan-out plan.json"],
)
def test_all_homes_goes_with_nothing_that_means_one(world_once: Machine, flags: str) -> None:
    result = world_once.run("sessions", "prune", "--dry-run", *flags.split())
    assert result.code == 2
    assert "--all-homes" in result.err


def test_an_operation_has_its_number_in_one_home_only(world_once: Machine) -> None:
    assert world_once.run("undo", "1", "--all-homes").code == 2
    assert world_once.run("trash", "empty", "1", "--all-homes", "--yes").code == 2


def test_an_id_is_enough_to_change_a_session(world: Machine) -> None:
    theirs = min(by_agent(world)["codex"])
    pinned = world.json("sessions", "pin", theirs)
    assert (pinned["agent"], pinned["session"]["pinned"]) == ("codex", True)
    assert world.json("sessions", "pin", CRON)["agent"] == "holdfast"
    world.ok("sessions", "delete", FIRST, CRON, "--yes")
    left = by_agent(world)
    assert FIRST not in left["hermes"]
    assert CRON not in left["holdfast"]
    gone = world.run("sessions", "show", FIRST)
    assert gone.code == 2
    assert "holdfast --home hermes undo 1" in gone.err
    world.ok("undo", "--home", "hermes")
    assert FIRST in by_agent(world)["hermes"]


def test_an_archived_session_comes_back_to_its_own_home(world: Machine) -> None:
    before = by_agent(world)
    done = world.ok("sessions", "archive", FIRST, "--yes")
    assert f"holdfast --home hermes sessions restore {FIRST}" in done.out
    listed = world.json("sessions", "list", "--archived")["sessions"]
    assert [(each["agent"], each["id"]) for each in listed] == [("hermes", FIRST)]
    world.ok("sessions", "restore", FIRST)
    assert by_agent(world) == before


def test_a_saved_plan_knows_its_home(world: Machine) -> None:
    plan = str(world.root / "plan.json")
    world.ok("--home", "hermes", "sessions", "prune", "--plan-out", plan)
    done = world.json("apply", plan, "--yes")
    assert done["report"]["removed"] > 0
    assert done["plan"]["home"] == str(home_of(world, "hermes"))


def test_a_mistyped_id_gets_the_nearest_one(world_once: Machine) -> None:
    result = world_once.run("sessions", "show", f"{DISK[:-1]}b")
    assert result.code == 2
    assert f"Did you mean {DISK}?" in result.err


def test_one_id_in_two_homes_is_never_guessed(world: Machine) -> None:
    second = world.root / "second"
    shutil.copytree(home_of(world, "holdfast"), second)
    env = {"HOLDFAST_HOME": ""}
    shutil.copytree(second, home_of(world, "hermes") / "profiles" / "x")  # no home of Hermes
    other = {"HERMES_HOME": str(second)}
    for command in ("show", "pin", "delete", "archive"):
        result = world.run("sessions", command, DISK, env=env | other)
        assert result.code == 2
        assert f"\n  holdfast {DISK}\n  holdfast/second {DISK}\n" in result.err
        assert "--home" in result.err
    chosen = world.json("--home", str(second), "sessions", "pin", DISK)
    assert chosen["session"]["pinned"] is True
    assert world.json("--home", "holdfast", "sessions", "show", DISK)["session"]["pinned"] is False


def test_the_start_of_an_id_changes_nothing_while_a_home_cannot_be_read(world: Machine) -> None:
    closed = home_of(world, "codex")
    closed.chmod(0o000)
    try:
        start = world.run("sessions", "pin", DISK[:-2], before=as_nobody_special())
        whole = world.run("sessions", "pin", DISK, before=as_nobody_special())
        shown = world.run("sessions", "show", DISK[:-2], before=as_nobody_special())
    finally:
        closed.chmod(0o755)
    assert start.code == 2
    assert str(closed) in start.err
    assert (whole.code, shown.code) == (0, 0)


# --- The library ----------------------------------------------------------------------------------


@pytest.mark.deep
def test_every_start_of_an_id_means_the_one_session_or_none(world_once: Machine) -> None:
    """By brute force over all homes: what is unique is found, what is not is listed."""
    with holdfast.machine(user_home=world_once.user, environ={}) as machine:
        everything = [(each.home.agent, each.session.id) for each in machine.list_sessions().found]
        for agent, whole in everything:
            for length in (1, 4, 14, len(whole)):
                start = whole[:length]
                meant = [each for each in everything if each[1].startswith(start)]
                exact = [each for each in meant if each[1] == start] or meant
                if len(exact) == 1:
                    found = machine.resolve(start)
                    assert [(found.home.agent, found.id)] == exact
                else:
                    with pytest.raises(UsageError, match=r"any of [0-9]+ sessions") as error:
                        machine.resolve(start)
                    assert f"any of {len(exact)} sessions" in error.value.message
                    assert f"  {agent} {whole}" in error.value.message or len(exact) > MOST_NAMED
        with pytest.raises(UnknownSessionError):
            machine.resolve("no such session")
        with pytest.raises(UsageError):
            machine.resolve("")


def test_the_homes_of_a_machine_as_one_object(world_once: Machine) -> None:
    with holdfast.machine(user_home=world_once.user, environ={}) as machine:
        assert {home.agent: home.path for home in machine.homes} == {
            agent: home_of(world_once, agent) for agent in FOLDERS
        }
        assert {home.name for home in machine.homes} == {*FOLDERS}
        assert not machine.unread
        assert len(machine.status().seen) == len(FOLDERS)
        found = machine.resolve(DISK)
        with machine.open(found.home) as home:
            assert home.sessions.get(found.id).id == DISK
        assert machine.list_sessions(limit=3).total > 3


def test_a_machine_of_nobody_has_no_homes(tmp_path: Path) -> None:
    with holdfast.machine(user_home=tmp_path, environ={}) as machine:
        assert not machine.homes
        assert machine.list_sessions().total == 0
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", ["sessions prune --now", "sessions gc --now", "trash empty"])
def test_on_a_full_disk_the_home_that_frees_most_comes_first(
    used: Machine, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """Of two homes the first has many small items, whose log would take the last room."""
    other = used.user / "other"
    for _ in range(2):
        used.transcript(days=200, kb=900, home=other)
    used.configure(f'homes = ["{other}"]')
    inside = Inside(used)
    if command == "trash empty":
        inside.ok("sessions", "prune", "--all-homes", "--yes")

    def order() -> list[str]:
        done = inside.json(*command.split(), "--all-homes", "--dry-run")
        assert isinstance(done, dict)
        return [each["home"] for each in done["homes"]]

    assert order() == [str(used.home), str(other)]
    room = DiskRoom(free=300_000, size=60_000_000)
    monkeypatch.setattr("holdfast.api.disks.disk_room", lambda _: room)
    first = used.home if "gc" in command else other  # gc has nothing to do in either
    assert order()[0] == str(first)


def test_on_a_full_disk_nothing_goes_to_the_trash_of_any_home(
    used: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where nothing is set aside. The log of it would take the last room."""
    other = used.user / "other"
    used.transcript(days=200, home=other)
    used.configure(f'homes = ["{other}"]')
    names = used.names()
    room = DiskRoom(free=250_000, size=60_000_000)
    monkeypatch.setattr("holdfast.homes.home.Home.disk_room", lambda _: room)
    refused = Inside(used).run("sessions", "prune", "--all-homes", "--yes")
    assert refused.code == 1
    words = " ".join(refused.err.split())
    assert words.count("the disk is full, and what goes to the trash stays on it") == 2
    assert used.names() == names
    assert not list(used.user.rglob("operations"))


@pytest.mark.parametrize(
    "words",
    [
        *_READING,
        "checkpoints",
        "checkpoints list",
        "vault",
        "sessions search nowhere",
        "--home holdfast status",
        "--home hermes status",
        "--home holdfast sessions stats",
        "--home holdfast sessions stats --cost",
        "--home codex maintain --dry-run",
        "--home holdfast checkpoints remote list",
    ],
)
def test_quiet_leaves_no_sentence_without_its_end(world_once: Machine, words: str) -> None:
    """A colon at the end of a line promises something below it."""
    lines = world_once.run("-q", *words.split()).out.splitlines()
    for number, line in enumerate(lines):
        if line.rstrip().endswith(":"):
            below = lines[number + 1 : number + 2]
            assert below not in ([], [""]), line
            assert not line.startswith("To "), line


def test_quiet_leaves_no_flag_without_its_command(world_once: Machine) -> None:
    assert "add --now to free the space" in world_once.run().out
    assert "--now" not in world_once.run("-q").out
