"""Write docs/reference/cli.md and the kept help page from the commands themselves.

    python -m tools.cli_reference            write the pages
    python -m tools.cli_reference --check    exit 1 when one is not what would be written

Nothing here depends on the terminal, the environment or the home folder of the user.
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import click

import holdfast.cli.main
from holdfast.cli.app import root
from holdfast.cli.frame import common_options
from holdfast.cli.main import HELP_WIDTH

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "cli.md"
HELP = Path(holdfast.cli.main.__file__).with_name("generated_help.txt")

_INTRODUCTION = """\
<!-- Written by `make docs` from the commands themselves; edit their help texts instead. -->

# The commands

Exit codes: 0 done; 1 failed, wholly or in part; 2 bad usage or configuration; 3 declined; 4 the
home is busy; 5 damage found. [json.md](../json.md) says more about them, and about `--json`.
"""


@dataclass(frozen=True, slots=True)
class Entry:
    """One command with the context that its usage line and options are made in."""

    path: str
    command: click.Command
    context: click.Context

    @property
    def anchor(self) -> str:
        return self.path.replace(" ", "-")

    @property
    def own_params(self) -> list[click.Parameter]:
        """Its options and arguments, without those that every command has."""
        shared = {option.name for option in common_options()}
        return [
            param
            for param in self.command.get_params(self.context)
            if param.name not in shared and "--help" not in param.opts
        ]

    @property
    def summary(self) -> str:
        """The line that a list of commands shows for it."""
        parent = self.context.parent
        listed = getattr(parent.command, "lazy", {}) if parent else {}
        if self.command.name in listed:
            return str(listed[self.command.name].short_help)
        return self.command.get_short_help_str(limit=200)


def entries() -> Iterator[Entry]:
    """Every command there is, each group before its members, in the order of the help texts."""
    yield from _entries(root, click.Context(root, info_name="holdfast"))


def _entries(command: click.Command, context: click.Context) -> Iterator[Entry]:
    yield Entry(context.command_path, command, context)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            member = command.get_command(context, name)
            if member is not None and not member.hidden:
                yield from _entries(member, click.Context(member, info_name=name, parent=context))


def render() -> str:
    """The whole page."""
    found = list(entries())
    return "\n".join([_INTRODUCTION, *_index(found), *_common(found[0]), *_sections(found)])


def _index(found: Iterable[Entry]) -> Iterator[str]:
    yield "| command | does |\n|---|---|"
    for entry in found:
        yield f"| [`{entry.path}`](#{entry.anchor}) | {_cell(entry.summary)} |"
    yield ""


def _common(top: Entry) -> Iterator[str]:
    yield "## Options of every command\n"
    yield "They may stand before or after the command.\n"
    shared = [param for param in top.command.get_params(top.context) if _is_shared(param)]
    yield from _options(shared, top.context)


def _is_shared(param: click.Parameter) -> bool:
    return "--help" in param.opts or param.name in {each.name for each in common_options()}


def _sections(found: Iterable[Entry]) -> Iterator[str]:
    for entry in found:
        usage = " ".join([entry.path, *entry.command.collect_usage_pieces(entry.context)])
        yield f"## `{entry.path}`\n"
        yield f"```text\n{usage}\n```\n"
        yield f"{_paragraphs(entry.command.help or '')}\n"
        yield from _options(entry.own_params, entry.context)
        example = getattr(entry.command, "example", "")
        if example:
            lines = "\n".join(f"$ {line}" for line in example.splitlines())
            yield f"```console\n{lines}\n```\n"


def _options(params: Iterable[click.Parameter], context: click.Context) -> Iterator[str]:
    options = [param for param in params if isinstance(param, click.Option)]
    records = [record for param in options if (record := param.get_help_record(context))]
    if not records:
        return
    yield "| option | meaning |\n|---|---|"
    for names, meaning in records:
        yield f"| `{_pipes(names)}` | {_cell(meaning)} |"
    yield ""


def _paragraphs(help_text: str) -> str:
    """A help text as Markdown: click's marks are dropped, everything else is said as it is."""
    text = inspect.cleandoc(help_text).partition("\f")[0].replace("\b\n", "")
    return _escaped(text.strip())


def _cell(text: str) -> str:
    return _pipes(_escaped(" ".join(text.split())))


def _escaped(text: str) -> str:
    """Outside of `code`, nothing may look like a link, a tag or emphasis."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(
        part if part.startswith("`") else re.sub(r"([*<\[\]])", r"\\\1", part) for part in parts
    )


def _pipes(text: str) -> str:
    return text.replace("|", "\\|")


def help_page() -> str:
    """What `holdfast --help` prints where there is room."""
    return (
        click.Context(root, info_name="holdfast", terminal_width=HELP_WIDTH - 2).get_help() + "\n"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when stale")
    check: bool = parser.parse_args().check
    for path, text in ((PAGE, render()), (HELP, help_page())):
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        elif not path.is_file() or path.read_text(encoding="utf-8") != text:
            print(f"{path.name} is not what the commands say. Run: make docs", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
