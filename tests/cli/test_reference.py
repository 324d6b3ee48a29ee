"""What is written about the commands is what they say and do."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import holdfast
from holdfast.cli.app import COMMANDS, root
from holdfast.config.settings import KEYS
from tools import api_reference, cli_reference, config_reference, man_page

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
ENTRIES = {entry.path: entry for entry in cli_reference.entries()}

# `holdfast …` in a line that somebody may type, or as `code` in a sentence.
_TYPED = re.compile(r"^\s*\$ (.*)$", re.MULTILINE)
_INLINE = re.compile(r"`([^`\n]*)`")
_COMMAND = re.compile(r"(?<![\w./~-])holdfast((?: +[^\s|)`#&;<>]+)*)")


def test_the_page_is_what_would_be_written() -> None:
    assert cli_reference.PAGE.read_text(encoding="utf-8") == cli_reference.render(), "make docs"


def test_the_page_of_the_api_is_what_would_be_written() -> None:
    assert api_reference.PAGE.read_text(encoding="utf-8") == api_reference.render(), "make docs"


def test_the_man_page_is_what_would_be_written() -> None:
    assert man_page.PAGE.read_text(encoding="utf-8") == man_page.render(), "make docs"


def test_nothing_in_the_man_page_is_taken_for_a_request() -> None:
    """Every line that begins with a dot is one of ours, and every escape is known."""
    page = man_page.render()
    requests = {line.split()[0] for line in page.splitlines() if line.startswith((".", "'"))}
    assert requests == {'.\\"', ".TH", ".SH", ".SS", ".PP", ".TP", ".B", ".nf", ".fi"}
    assert set(re.findall(r"\\(.)", page)) <= {'"', "-", "e", "f", "&", "["}
    assert page.isascii(), "groff reads nothing else without being told"
    for entry in ENTRIES.values():
        assert f'.SS "{entry.path}'.replace("-", r"\-") in page or entry.path == "holdfast"


def test_everything_public_is_explained() -> None:
    """Names that say all by themselves may stand alone; those that take arguments may not."""
    page = api_reference.render()
    for name in holdfast.__all__:
        assert name.startswith("_") or f"## `{name}`" in page
    bare = re.findall(r"\*\*`(\w+)\(.+\).*`\*\*\n\n(?=\*\*|#)", page)
    assert bare == []


@pytest.mark.parametrize("columns", ["40", "200"])
def test_the_page_does_not_depend_on_who_writes_it(columns: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tools.cli_reference", "--check"],
        cwd=ROOT,
        env={"COLUMNS": columns, "HOME": str(tmp_path), "PATH": os.defpath, "LC_ALL": "C"},
        check=False,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_stale_page_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli_reference, "PAGE", tmp_path / "cli.md")
    monkeypatch.setattr(sys, "argv", ["cli_reference", "--check"])
    (tmp_path / "cli.md").write_text("old")
    assert cli_reference.main() == 1
    assert "make docs" in capsys.readouterr().err


@pytest.mark.parametrize("path", ENTRIES)
def test_every_command_has_a_help_text_and_an_example(path: str) -> None:
    command = ENTRIES[path].command
    assert command.help
    example = getattr(command, "example", "")
    assert path in example, example


@pytest.mark.parametrize("name", COMMANDS)
def test_the_short_help_says_what_the_help_says(name: str) -> None:
    """The list of commands is made without importing them, so its lines could go stale."""
    short = COMMANDS[name].short_help
    assert short.endswith(".")
    assert len(short) <= 60  # with the name before it, on one line of 80 columns
    said = _words(ENTRIES[f"holdfast {name}"].command.help or "")
    shared = _words(short) & said
    assert 2 * len(shared) >= len(_words(short)), f"{short!r} speaks of something else"


def _words(text: str) -> set[str]:
    return {word for word in re.findall(r"[a-z]+", text.lower()) if len(word) > 3}


def _shown_commands() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        places = [*_TYPED.findall(text), *_INLINE.findall(text)]
        for place in places:
            for words in _COMMAND.findall(place):
                yield page.relative_to(ROOT).as_posix(), words.strip()


def test_commands_in_the_docs_exist() -> None:
    shown = set(_shown_commands())
    assert len(shown) > 20, "the pattern no longer finds them"
    wrong = [f"{page}: holdfast {words}: {why}" for page, words in shown if (why := _wrong(words))]
    assert not sorted(wrong)


def _wrong(words: str) -> str | None:
    """What Holdfast would not understand in a command line of the docs, if anything."""
    command: click.Command = root
    context = click.Context(root, info_name="holdfast")
    options = _options(command, context)
    rest = iter(shlex.split(words.replace('"', "").replace("'", "")))
    for word in rest:
        if word == "--":  # what follows belongs to another command
            return None
        if word.startswith("-") and word != "-":  # a lone dash is standard input
            option = options.get(word.partition("=")[0])
            if option is None:
                return f"no option {word}"
            if not option.is_flag and "=" not in word:
                next(rest, None)
        elif isinstance(command, click.Group) and word != "…":
            member = command.get_command(context, word)
            if member is None:
                return f"no command {word}"
            command, context = member, click.Context(member, info_name=word, parent=context)
            options |= _options(command, context)
    return None


def _options(command: click.Command, context: click.Context) -> dict[str, click.Option]:
    return {
        name: param
        for param in command.get_params(context)
        if isinstance(param, click.Option)
        for name in param.opts
    }


def test_the_tables_of_keys_are_what_would_be_written() -> None:
    page = config_reference.PAGE.read_text(encoding="utf-8")
    assert page == config_reference.render(page), "make docs"


def test_every_key_of_the_configuration_is_documented() -> None:
    page = config_reference.PAGE.read_text(encoding="utf-8")
    for key in KEYS:
        assert page.count(f"| `{key.variable}` |") == 1


def test_a_stale_table_of_keys_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = config_reference.PAGE.read_text(encoding="utf-8")
    stale = page.replace("| `trash_days` | 7 |", "| `trash_days` | 8 |")
    assert stale != page
    monkeypatch.setattr(config_reference, "PAGE", tmp_path / "configuration.md")
    monkeypatch.setattr(sys, "argv", ["config_reference", "--check"])
    config_reference.PAGE.write_text(stale, encoding="utf-8")
    assert config_reference.main() == 1
    assert "make docs" in capsys.readouterr().err


_FOLDERS = "cli|compat|contract|crash|model|property|unit"
_TEST = re.compile(rf"`(?:tests/)?((?:{_FOLDERS})/\w+\.py)(?:::(\w+))?`")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_tests_that_the_docs_name_exist(page: Path) -> None:
    for file, name in _TEST.findall(page.read_text(encoding="utf-8")):
        code = (ROOT / "tests" / file).read_text(encoding="utf-8")
        assert f"def {name}" in code, f"{file}::{name}"


_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    for target in _LINK.findall(page.read_text(encoding="utf-8")):
        if target.startswith("https://"):
            continue
        name, _, anchor = target.partition("#")
        other = (page.parent / name).resolve() if name else page
        assert other.exists(), target
        if anchor and other.suffix == ".md":  # that of a picture says in which scheme it is shown
            assert anchor in _anchors(other), target


def test_no_page_is_an_orphan() -> None:
    """The README leads to the index, the index to every page, and that of the decisions to each."""
    docs, decisions = ROOT / "docs", ROOT / "docs/decisions"
    assert docs / "index.md" in _linked(ROOT / "README.md")
    pages = {*docs.rglob("*.md"), ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md"}
    pages -= {docs / "index.md", *decisions.glob("*.md")}
    assert pages | {decisions / "README.md"} <= _linked(docs / "index.md")
    assert {*decisions.glob("*.md")} - {decisions / "README.md"} <= _linked(decisions / "README.md")


def _linked(page: Path) -> set[Path]:
    links = _LINK.findall(page.read_text(encoding="utf-8"))
    return {(page.parent / link.partition("#")[0]).resolve() for link in links if "://" not in link}


def test_the_readme_is_short() -> None:
    """Whom it is for, a screen and two commands come first, and all of it is read in one go."""
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) < 160
    assert lines.index("```console") < 20
    assert "make demo" in "\n".join(lines[:60])


def _anchors(page: Path) -> set[str]:
    """Headings as the usual Markdown renderers name them."""
    headings = _HEADING.findall(page.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
