"""--version and --help: every command explains itself, with an example, in 80 columns."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import click
import pytest

from holdfast import __version__
from holdfast.cli.app import root
from tests.cli.machine import Machine
from tools import cli_reference


def _walk(command: click.Command, path: str = "") -> Iterator[str]:
    """Every command there is, groups too, by the words that call it."""
    yield path
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from _walk(below, f"{path} {name}".strip())


COMMANDS = tuple(_walk(root))


@pytest.mark.parametrize("args", [["--version"], ["--json", "--version"]])
def test_version_is_one_line(machine: Machine, args: list[str]) -> None:
    result = machine.ok(*args)
    assert result.out == f"holdfast {__version__}\n"
    assert result.err == ""


@pytest.mark.parametrize("command", COMMANDS)
def test_help(machine: Machine, command: str) -> None:
    """It names the common flags and the commands below, and shows examples that exist."""
    result = machine.ok(*command.split(), "--help")
    assert result.err == ""
    assert result.lines[0].startswith(f"Usage: holdfast {command}".rstrip())
    assert {"--home", "--json", "--debug", "--help"} <= set(re.findall(r"--[a-z]+", result.out))
    assert max(map(len, result.lines)) <= 80
    assert not [line for line in result.lines if re.search(r"\w-$", line)]  # a flag stays whole
    assert "…" not in result.lines[0]  # one sign for what may be repeated
    below = {f"{command} {name}".strip() for name in _listed(result.out)}
    assert below == {each for each in COMMANDS if each and each.rpartition(" ")[0] == command}
    examples = _examples(result.out)
    assert examples
    for example in examples:
        ours = example[: example.index("--")] if "--" in example else example
        assert machine.run(*ours, "--help").code == 0, example


def _listed(text: str) -> list[str]:
    section = re.search(r"^Commands:\n((?:  .*\n)+)", text, re.MULTILINE)
    return re.findall(r"^  (\S+)", section.group(1), re.MULTILINE) if section else []


def _examples(text: str) -> list[list[str]]:
    """The words after `holdfast` in each example, comments and pipes cut off."""
    section = text.rpartition("\nExample:\n")[2]
    found = re.findall(r"(?:^  |\()holdfast\b([^#)|\n]*)", section, re.MULTILINE)
    return [shlex.split(words) for words in found]


@pytest.mark.parametrize("record", [None, ("[DIR]", "")], ids=["click 8.5.0", "click 8.5.1"])
def test_an_argument_is_no_option(
    monkeypatch: pytest.MonkeyPatch, record: tuple[str, str] | None
) -> None:
    """What click says of an argument without help depends on its version; our help does not."""
    monkeypatch.setattr(click.Argument, "get_help_record", lambda *_: record)
    for entry in cli_reference.entries():
        text = entry.command.get_help(entry.context)
        options = text.partition("\nOptions:\n")[2].partition("\n\n")[0]
        named = re.findall(r"^  (\S+)", options, re.MULTILINE)
        assert all(each.startswith("-") for each in named), (entry.path, named)
    page = cli_reference.PAGE.read_text(encoding="utf-8")
    assert cli_reference.render() == page


@pytest.mark.parametrize("group", ["sessions", "fleet", "store"])
def test_a_group_without_a_usual_command_lists_its_commands(machine: Machine, group: str) -> None:
    assert machine.ok(group).out == machine.ok(group, "--help").out


def test_no_command_is_status(machine: Machine) -> None:
    assert machine.ok().out == machine.ok("status").out


def test_the_kept_help_page_is_what_the_commands_say(machine: Machine) -> None:
    """`--help` alone is answered from a file; `--debug --help` asks the commands."""
    kept = machine.ok("--help")
    assert machine.ok("--debug", "--help").out == kept.out
    assert "Example" in kept.out
