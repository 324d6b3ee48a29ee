"""Write man/holdfast.1 from the commands themselves.

python -m tools.man_page            write the page
python -m tools.man_page --check    exit 1 when it is not what would be written
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from holdfast import __version__
from tools.cli_reference import Entry, entries

PAGE = Path(__file__).parents[1] / "man" / "holdfast.1"
_CODES = (
    ("0", "done; also when there was nothing to do"),
    ("1", "failed, wholly or in part"),
    ("2", "bad usage or configuration; nothing was done"),
    ("3", "declined: nobody confirmed"),
    ("4", "another process is changing the home"),
    ("5", "damage found"),
)
_FILES = (
    ("~/.holdfast", "Holdfast's own home"),
    ("~/.holdfast/config.toml", "its settings; `holdfast config init` writes one to start with"),
    ("AGENT-HOME/.holdfast/config.toml", "the settings of another agent's home"),
)
_VARIABLES = (
    ("HOLDFAST_HOME", "the home to work on, unless --home is given"),
    ("HOLDFAST_SECTION_KEY", "overrides one key of the configuration"),
    ("NO_COLOR", "no colours"),
    ("COLUMNS", "the width of the output"),
    ("PAGER", "shows long conversations and differences"),
)


def render() -> str:
    """The whole page."""
    top, *others = entries()
    lines = [
        r".\" Written by `make docs` from the commands themselves.",
        f'.TH HOLDFAST 1 "" "holdfast {__version__}" "User Commands"',
        ".SH NAME",
        r"holdfast \- keep what AI agents made, and limit what they leave behind",
        ".SH SYNOPSIS",
        ".B holdfast",
        r"[\fIOPTIONS\fR] [\fICOMMAND\fR [\fIARGUMENTS\fR]]",
        ".SH DESCRIPTION",
        *_paragraphs(top.command.help or ""),
        ".PP",
        _text("Commands that remove show their plan and ask. Options of every command:"),
        *_options(top.command.get_params(top.context), top.context),
        ".SH COMMANDS",
        *(line for entry in others for line in _section(entry)),
        *_list("EXIT STATUS", _CODES),
        *_list("ENVIRONMENT", _VARIABLES),
        *_list("FILES", _FILES),
        ".SH EXAMPLES",
        *_example(top.command),
    ]
    return "\n".join(lines) + "\n"


def _section(entry: Entry) -> Iterator[str]:
    usage = " ".join([entry.path, *entry.command.collect_usage_pieces(entry.context)])
    yield f'.SS "{_text(usage)}"'
    yield from _paragraphs(entry.command.help or "")
    yield from _options(entry.own_params, entry.context)
    yield from _example(entry.command)


def _options(params: Iterable[click.Parameter], context: click.Context) -> Iterator[str]:
    for param in params:
        record = param.get_help_record(context) if isinstance(param, click.Option) else None
        if record is not None:
            yield ".TP"
            yield rf"\fB{_text(record[0])}\fR"
            yield _text(" ".join(record[1].split()))


def _example(command: click.Command) -> Iterator[str]:
    example = getattr(command, "example", "")
    if example:
        yield ".PP"
        yield ".nf"
        yield from (_text(f"    {line}") for line in example.splitlines())
        yield ".fi"


def _list(title: str, rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    yield f".SH {title}" if " " not in title else f'.SH "{title}"'
    for name, meaning in rows:
        yield ".TP"
        yield rf"\fB{_text(name)}\fR"
        yield _text(meaning)


def _paragraphs(help_text: str) -> Iterator[str]:
    """A help text; what click must not fold (\\b) is not folded here either."""
    text = inspect.cleandoc(help_text).partition("\f")[0].strip()
    for number, part in enumerate(re.split(r"\n\s*\n", text)):
        if number:
            yield ".PP"
        if part.startswith("\b"):
            yield ".nf"
            yield from (_text(line) for line in part.splitlines()[1:])
            yield ".fi"
        else:
            yield _text(" ".join(part.split()))


def _text(text: str) -> str:
    """Nothing in a text is taken for a request or an escape; code is bold."""
    plain = text.replace("\\", r"\e").replace("-", r"\-")
    plain = "".join(each if each.isascii() else rf"\[u{ord(each):04X}]" for each in plain)
    marked = re.sub(r"`([^`]*)`", r"\\fB\1\\fR", plain)
    return rf"\&{marked}" if marked[:1] in (".", "'") else marked


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when stale")
    check: bool = parser.parse_args().check
    text = render()
    if not check:
        PAGE.parent.mkdir(exist_ok=True)
        PAGE.write_text(text, encoding="utf-8")
    elif not PAGE.is_file() or PAGE.read_text(encoding="utf-8") != text:
        print(f"{PAGE.name} is not what the commands say. Run: make docs", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
