"""Names from elsewhere are answered with the name here, and no suggestion means the opposite."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.cli import suggestions
from holdfast.cli.app import root
from holdfast.cli.suggestions import are_opposites
from holdfast.config.reader import load
from holdfast.config.settings import BY_TABLE, KEYS
from holdfast.errors import ConfigError
from tests.cli.every_command import COMMANDS, say
from tests.cli.machine import Machine
from tools import cli_reference

_ENTRIES = {entry.path.partition(" ")[2]: entry for entry in cli_reference.entries()}
_OPTIONS = sorted({o for e in COMMANDS.values() for p in e.own_params for o in p.opts if "--" in o})
_PAGE = Path(__file__).parents[2] / "docs" / "old-names.md"
_SUGGESTED = re.compile(r"'(--[\w-]+)'")


def _parsed(words: list[str]) -> None:
    root.make_context("holdfast", words, resilient_parsing=False)


@pytest.mark.parametrize(
    ("group", "old", "new"),
    [(g, o, n) for g, t in suggestions.COMMANDS.items() for o, n in t.items()],
)
def test_a_command_from_elsewhere(group: str, old: str, new: str) -> None:
    words = [*group.split(), old]
    if " ".join(words) in _ENTRIES:
        pytest.skip("it is a command here by now")
    said = say(*words)
    assert said.code == 2
    assert f"Use `holdfast {new}`." in said.text
    path, _, flag = new.partition(" --")
    known = [name for param in _ENTRIES[path].own_params for name in param.opts]
    assert not flag or f"--{flag}" in known


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [(p, o, n) for p, t in suggestions.OPTIONS.items() if p for o, n in t.items()],
)
def test_an_option_from_elsewhere(path: str, old: str, new: str) -> None:
    known = [name for param in COMMANDS[path].own_params for name in param.opts]
    if not new.startswith("-"):  # a command of its own
        assert new in COMMANDS
        assert f"Use `holdfast {new}`." in say(*path.split(), old).text
        return
    assert new.split(maxsplit=1)[0] in known
    assert old in known or f"Use {new}." in say(*path.split(), old).text
    assert not are_opposites(old, new.split(maxsplit=1)[0])


@pytest.mark.parametrize(("old", "new"), suggestions.OPTIONS[""].items())
def test_an_option_of_any_command_from_elsewhere(old: str, new: str) -> None:
    asked = 0
    for path, entry in COMMANDS.items():
        known = [name for param in entry.command.params for name in param.opts]
        if new.split(maxsplit=1)[0] in known and old not in known:
            own = suggestions.OPTIONS.get(path, {}).get(old, new)
            assert f"Use {own}." in _answer(path, old)
            asked += 1
    assert asked


@pytest.mark.parametrize(
    ("words", "new"),
    [
        (["sessions", "prune", "--days", "7"], "--older-than 7d"),
        (["sessions", "prune", "--max-size-mb=5"], "--max-total-size 5MB"),
        (["sessions", "prune", "--days", "-y"], "--older-than 30d"),
        (["sessions", "list", "--days", "3"], "--newer-than 3d"),
        (["sessions", "search", "x", "--days", "3"], "--newer-than 3d"),
    ],
)
def test_the_answer_has_the_number_that_was_given(words: list[str], new: str) -> None:
    assert f"Use {new}." in say(*words).text


@pytest.mark.parametrize(
    ("path", "old", "new"), [(p, o, n) for p, t in suggestions.VALUES.items() for o, n in t.items()]
)
def test_a_word_from_elsewhere(path: str, old: str, new: str) -> None:
    assert f"{old!r} is called {new!r} here." in say(*path.split(), "--sort", old).text


@pytest.mark.parametrize("path", suggestions.NEEDLESS)
def test_an_option_that_nobody_needs(path: str) -> None:
    for old, why in suggestions.NEEDLESS[path].items():
        assert f"No such option '{old}'. {why}: leave it out." in _answer(path, old)


@pytest.mark.parametrize(
    ("path", "old", "answer"),
    [(p, o, a) for p, t in suggestions.ANSWERS.items() for o, a in t.items()],
)
def test_what_takes_a_sentence_to_answer(path: str, old: str, answer: str) -> None:
    said = say(*path.split(), old, "5")
    assert said.code == 2
    assert f"'{old}'. {answer}" in said.text
    params = COMMANDS[path].command.params if path in COMMANDS else ()
    known = {name for param in params for name in param.opts}
    for named in set(re.findall(r"--[\w-]+", answer)) - {"--version"}:
        assert named in known


def test_a_number_that_stays_is_not_taken_for_one_that_goes() -> None:
    said = say("sessions", "prune", "--limit", "5").text
    assert "--keep-last N is the fewest that stay, --max-count N the most" in said


@pytest.mark.parametrize(
    ("words", "never"),
    [
        ("sessions prune --since 2d", "--older-than"),
        ("sessions list --until 2d", "--newer-than"),
        ("sessions delete --keep", "--now"),
        ("sessions gc --no-trash", "--keep"),
        ("checkpoints prune --since 2d", "--older-than"),
        ("rewind", "redo"),
        ("sessions list --max-size-mb 5", "--max-cost"),
    ],
)
def test_no_answer_is_the_opposite(words: str, never: str) -> None:
    said = say(*words.split())
    assert said.code == 2
    assert never not in said.text


@pytest.mark.parametrize("typed", ["prun", "prne", "pruen"])
def test_a_mistyped_name_from_elsewhere(typed: str) -> None:
    said = say(typed).text
    assert "Did you mean `holdfast sessions prune`?" in said
    assert "'run'" not in said


def test_both_groups_are_named_where_both_have_it() -> None:
    assert "There is also `holdfast checkpoints prune`." in say("prune").text
    assert "There is also" not in say("search").text
    assert say("sessions", "ls").text.startswith("error: No such command 'ls'. Use `holdfast sess")
    assert "There is also" not in say("sessions", "ls").text


@pytest.mark.parametrize(
    ("table", "old", "new"), [(key.table, old, key.name) for key in KEYS for old in key.was]
)
def test_a_key_from_elsewhere(tmp_path: Path, table: str, old: str, new: str) -> None:
    assert old not in BY_TABLE[table]
    file = tmp_path / "config.toml"
    file.write_text(f"[{table}]\n{old} = 1\n")
    with pytest.raises(ConfigError, match=f'; use "{new}"'):
        load(file, {})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("--include-files", "--no-files"),
        ("--inclde-files", "--no-files"),
        ("--and-files", "--no-files"),
        ("--files", "--no-files"),
        ("--only-files", "--no-files"),
        ("--delete-orphans", "--keep-orphans"),
        ("--pinned", "--not-pinned"),
        ("unpin", "pin"),
        ("unarchive", "archive"),
    ],
)
def test_opposites(one: str, other: str) -> None:
    assert are_opposites(one, other)
    assert are_opposites(other, one)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("--no-fles", "--no-files"),
        ("--kep-daily", "--keep-daily"),
        ("--last", "--keep-last"),
        ("--older-then", "--older-than"),
        ("udo", "undo"),
    ],
)
def test_what_is_only_mistyped_is_no_opposite(typed: str, meant: str) -> None:
    assert not are_opposites(typed, meant)
    assert not are_opposites(meant, meant)


@given(
    path=st.sampled_from(sorted(COMMANDS)),
    option=st.sampled_from(_OPTIONS),
    prefix=st.sampled_from(["", "no-", "not-", "include-", "delete-", "keep-", "with-"]),
    end=st.sampled_from(["", "s", "x"]),
)
def test_no_suggestion_is_the_opposite(path: str, option: str, prefix: str, end: str) -> None:
    typed = f"--{prefix}{option[2:]}{end}"
    command, context = COMMANDS[path].command, COMMANDS[path].context
    with pytest.raises(click.ClickException) as caught:
        command.parse_args(context, [typed, "x", "--never-an-option"])
    message = caught.value.format_message()
    if message.startswith(f"No such option '{typed}'"):
        for suggested in _SUGGESTED.findall(message.partition(". ")[2]):
            assert not are_opposites(typed, suggested), message


_AGES = [
    "--days",
    "--day",
    "--max-age",
    "--age",
    "--hours",
    "--weeks",
    "--since",
    "--older",
    "--keep",
]
_DARING = {"--yes", "--now", "--force"}


def _answer(path: str, typed: str) -> str:
    command, context = COMMANDS[path].command, COMMANDS[path].context
    with pytest.raises(click.ClickException) as caught:
        command.parse_args(context, [typed])
    return caught.value.format_message()


def _suggested(path: str, typed: str) -> set[str]:
    return set(re.findall(r"(--[\w-]+)", _answer(path, typed).replace(typed, "")))


@pytest.mark.parametrize("path", sorted(COMMANDS))
def test_a_wrong_age_is_not_answered_with_a_flag_that_drops_a_safeguard(path: str) -> None:
    known = {name for param in COMMANDS[path].own_params for name in param.opts}
    for typed in set(_AGES) - known:
        assert not _suggested(path, typed) & _DARING, typed
    ages = {"--older-than", "--retention-days", "--trivial-days"} & known
    if path in ("sessions list", "sessions search"):
        ages = {"--newer-than"}
    assert _suggested(path, "--days") <= ages
    assert bool(_suggested(path, "--days")) is bool(ages)


@given(
    path=st.sampled_from(sorted(COMMANDS)),
    typed=st.text("abdefhnorstuwxy-", min_size=2, max_size=7),
)
def test_what_drops_a_safeguard_is_suggested_for_a_slip_only(path: str, typed: str) -> None:
    typed = f"--{typed.strip('-') or 'xx'}"
    known = {name for param in COMMANDS[path].command.params for name in param.opts}
    if typed in known or typed in suggestions.OPTIONS[""] or typed == "--help":
        return
    for each in _suggested(path, typed) & _DARING:
        stem = each[2:]
        # One letter more, or one replaced.
        assert typed[2] == stem[0]
        assert len(typed[2:]) - len(stem) in (0, 1)
    assert "--now" not in _suggested(path, "--no") if "--no" not in known else True


@pytest.mark.parametrize(("typed", "meant"), [("--yess", "--yes"), ("--yees", "--yes")])
def test_a_slip_of_yes_is_still_answered(typed: str, meant: str) -> None:
    assert meant in _suggested("sessions prune", typed)


def test_include_files_is_what_prune_does(used: Machine) -> None:
    plain = used.json("sessions", "prune", "--dry-run")
    said = used.json("sessions", "prune", "--include-files", "--dry-run")
    assert said["plan"]["items"] == plain["plan"]["items"]
    assert used.run("sessions", "prune", "--include-files", "--no-files").code == 2
    assert used.json("sessions", "prune", "--include-files", "-y")["report"]["removed"] == 5


def test_the_page_has_every_word() -> None:
    page = _PAGE.read_text(encoding="utf-8")
    for path, names in suggestions.VALUES.items():
        for old, new in names.items():
            assert f"| `{path} --sort {old}` | `--sort {new}` |" in page
    for path, answers in suggestions.ANSWERS.items():
        for old in answers:
            assert f"| `{f'{path} {old}'.strip()}` | " in page
    for path, needless in suggestions.NEEDLESS.items():
        for old in needless:
            assert f"| `{path} {old}` | not needed |" in page


def test_the_page_has_every_name() -> None:
    page = _PAGE.read_text(encoding="utf-8")
    for group, names in suggestions.COMMANDS.items():
        for old, new in names.items():
            assert f"| `{f'{group} {old}'.strip()}` | `holdfast {new}` |" in page
    for path, names in suggestions.OPTIONS.items():
        for old, new in names.items():
            assert f"| `{f'{path} {old}'.strip()}` | `{new}` |" in page
    for key in KEYS:
        for old in key.was:
            assert f"| `{key.table}.{old}` | `{key.table}.{key.name}` |" in page
