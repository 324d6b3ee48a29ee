"""Mistyped words get a suggestion and exit code 2; common flags work in every place."""

from __future__ import annotations

import pytest

from tests.cli.every_command import COMMANDS, say
from tests.cli.machine import Machine, entries


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("sesions", "'sessions'"),
        ("statsu", "'status'"),
        ("sessions prun", "'prune'"),
        ("trash lst", "'list'"),
        ("config chek", "'check'"),
        ("--hme x status", "'--home'"),
        ("status --jsno", "'--json'"),
        ("sessions prune --dry-rn", "'--dry-run'"),
        ("sessions prune --older-then 3d", "'--older-than'"),
        ("sessions prune --kind transcrpt", "'transcript'"),
        ("completion bsh", "'bash'"),
        ("sessions list --sorte title", "Did you mean '--sort'?"),
        ("run --bdget 5USD -- ls", "'--budget'"),
        ("run --max-tim 5m ls", "'--max-time'"),
    ],
)
def test_a_slip_gets_a_suggestion(used: Machine, typed: str, meant: str) -> None:
    before = entries(used.home)
    result = used.run(*typed.split())
    assert result.code == 2
    assert result.out == ""
    assert result.err.startswith("error: ")
    assert "did you mean" in result.err.lower()
    assert meant in result.err
    assert "--help`" in result.err
    assert entries(used.home) == before


@pytest.mark.parametrize(
    ("args", "named"),
    [
        ("apply", "PLAN"),
        ("completion", "SHELL"),
        ("log --limit 0", "--limit"),
        ("log --limit many", "--limit"),
        ("log extra", "extra"),
        ("sessions prune --keep-last -1", "--keep-last"),
        ("sessions prune --keep-last 0", "--keep-last"),
        ("sessions prune --max-count x", "--max-count"),
        ("sessions prune --older-than soon", "'soon'"),
        ("sessions prune --older-than 2999-01-01", "future"),
        ("sessions prune --keep-within 5", "'5'"),
        ("sessions prune --max-total-size lots", "'lots'"),
        ("trash empty --older-than x", "'x'"),
        ("trash empty 7", "'7'"),
        ("undo 99", "'99'"),
        ("apply no-such-plan.json", "no-such-plan.json"),
    ],
)
def test_a_bad_value_is_named(used: Machine, args: str, named: str) -> None:
    before = entries(used.home)
    result = used.run(*args.split())
    assert result.code == 2
    assert named in result.err
    assert result.out == ""
    assert entries(used.home) == before


@pytest.mark.parametrize(
    ("args", "missing"),
    [
        ("apply no/plan.json", "no/plan.json"),
        ("checkpoints take no/such", "no/such"),
        ("checkpoints take no/such --dry-run", "no/such"),
        ("checkpoints watch no/such", "no/such"),
        ("checkpoints excluded no/such", "no/such"),
        ("metrics --textfile no/such/file", "no/such"),
        ("sessions import no/such.jsonl", "no/such.jsonl"),
        ("sessions import codex", ".codex"),
        ("sessions prune --dry-run --plan-out no/such/file", "no/such"),
    ],
)
def test_a_path_that_is_not_there_is_named(used: Machine, args: str, missing: str) -> None:
    before = entries(used.home)
    result = used.run(*args.split(), cwd=used.root)
    assert result.code == 2, result
    assert missing in result.err
    assert entries(used.home) == before
    assert not (used.root / "no").exists()


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ("sessions list --limit 0", "expected a whole number, 1 or more; '0' was given"),
        ("sessions list --limit 1.5", "expected a whole number, 1 or more; '1.5' was given"),
        ("sessions list --min-cost x", "expected a number, 0 or more; 'x' was given"),
        ("sessions list --min-cost nan", "nan is not a number"),
        ("checkpoints prune --max-size-mb 0", "expected a number above 0; '0' was given"),
        ("web --port 70000", "expected a whole number from 0 to 65,535; '70000' was given"),
        ("log --limit 99999999999999999999", "99,999,999,999,999,999,999 is too large"),
    ],
)
def test_a_wrong_number_is_told_with_what_was_expected(used: Machine, args: str, said: str) -> None:
    result = used.run(*args.split())
    assert result.code == 2
    assert said in result.words


def test_an_option_of_a_command_that_is_run_is_its_own(used: Machine) -> None:
    done = used.run("run", "--no-checkpoints", "--", "sh", "-c", "exit 7", "--bdget")
    assert done.code == 7
    assert used.run("run", "--no-checkpoints", "sh", "-c", "exit 7", "--bdget").code == 7
    assert "Use --budget" in used.run("run", "--max-tokens", "5", "ls").words


def test_a_number_below_zero_is_no_option(used: Machine) -> None:
    said = used.run("config", "set", "sessions.keep_last", "-1")
    assert said.code == 2
    assert "'-1' looks like an option; if not, write -- before it" in said.words
    said = used.run("config", "set", "sessions.keep_last", "--", "-1")
    assert "expected a whole number" in said.words
    assert "found -1" in said.words


_CAPS = [
    (path, option)
    for path, entry in COMMANDS.items()
    for param in entry.own_params
    for option in param.opts
    if option in ("--max-count", "--max-snapshots", "--max-total-size", "--max-size-mb")
]


@pytest.mark.parametrize(("path", "option"), _CAPS)
def test_a_cap_of_nothing_is_refused(used: Machine, path: str, option: str) -> None:
    """0 means "no cap" in config.toml; taken at its word, it would remove everything for good."""
    before = entries(used.home)
    zeros = ["0", "0.0000001", *(["0MB", "0.4B"] if option.endswith("size") else [])]
    for zero in zeros:
        said = say("--home", str(used.home), *path.split(), option, zero, "--yes")
        assert (said.code, said.out) == (2, b""), (zero, said)
        assert option in said.text
    assert entries(used.home) == before


def test_an_unknown_operation_names_the_latest(used: Machine) -> None:
    used.ok("sessions", "prune", "--yes")
    result = used.run("undo", "11")
    assert result.code == 2
    assert "The latest is 1" in result.err
    assert "holdfast log" in result.err


def test_an_unknown_source_gets_a_suggestion(used: Machine) -> None:
    result = used.ok("sessions", "prune", "--source", "crom", "--dry-run")
    assert "did you mean 'cron'?" in result.err
    assert "Nothing to remove" in result.out


@pytest.mark.parametrize(
    "args",
    [
        "--home HOME --json sessions prune --dry-run",
        "sessions --home HOME prune --json --dry-run",
        "sessions prune --dry-run --home=HOME --json",
        "--json sessions prune --home HOME -n",
    ],
)
def test_common_flags_work_before_and_after_the_command(used: Machine, args: str) -> None:
    elsewhere = used.home.rename(used.root / "elsewhere")
    result = used.run(*args.replace("HOME", str(elsewhere)).split())
    assert result.code == 0
    assert result.document["plan"]["home"] == str(elsewhere)
    assert len(result.document["plan"]["items"]) == 6


def test_the_inner_home_wins(used: Machine) -> None:
    result = used.run("--home", "/nowhere", "log", "--home", str(used.home), "--json")
    assert result.code == 0, result


def test_the_flag_wins_over_the_environment(used: Machine) -> None:
    document = used.json("--home", str(used.home), "status", env={"HOLDFAST_HOME": "/nowhere"})
    assert document["homes"][0]["home"] == str(used.home)


@pytest.mark.parametrize("args", [["--home", ""], ["--home="]])
@pytest.mark.parametrize(
    "command", [["status"], ["sessions", "prune", "--yes"], ["config", "init"]]
)
def test_an_empty_home_is_not_the_current_folder(
    used: Machine, args: list[str], command: list[str]
) -> None:
    before = entries(used.home)
    result = used.run(*args, *command, cwd=used.home)
    assert result.code == 2
    assert "empty" in result.err
    assert entries(used.home) == before


def test_an_empty_variable_is_not_set(used: Machine) -> None:
    document = used.json("status", env={"HOLDFAST_HOME": ""})
    assert document["homes"][0]["home"] == str(used.home)


def test_a_mistyped_variable_is_pointed_out(used: Machine) -> None:
    result = used.ok("status", env={"HOLDFAST_TRASH_DAY": "3"})
    assert "did you mean HOLDFAST_TRASH_DAYS?" in result.err


@pytest.mark.parametrize("place", ["flag", "variable"])
def test_the_home_of_an_unknown_user(machine: Machine, place: str) -> None:
    """A shell expands ~name; when it cannot, we are given it as it is."""
    name = "~no-such-user-here/home"
    if place == "flag":
        result = machine.run("--home", name, "status")
    else:
        result = machine.run("status", env={"HOLDFAST_HOME": name})
    assert result.code == 2
    assert name in result.err


def test_a_tilde_in_the_variable_is_the_users_home(used: Machine) -> None:
    document = used.json("status", env={"HOLDFAST_HOME": "~/.holdfast"})
    assert document["homes"][0]["home"] == str(used.home)
