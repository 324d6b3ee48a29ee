"""Hints: written once in the words of the command, read in methods by users of the library."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

import holdfast
from holdfast.api import store
from holdfast.api.archive import ArchivedSessions
from holdfast.api.checkpoints import Checkpoints
from holdfast.api.home import Home
from holdfast.api.machine import Machine
from holdfast.api.sessions import AgentSessions
from holdfast.api.trash import Log, Trash
from holdfast.errors import _METHODS, COMMAND_FLAG, HoldfastError, in_methods

SOURCE = Path(holdfast.__file__).parent
#: Each command that has a method. `mcp`, `web` and `run` are programs, in Python as well.
_COMMAND = re.compile(
    r"holdfast (?:sessions|checkpoints|trash|config|undo|redo|log|doctor|maintain|status|vault"
    r"|connect|disconnect|fleet|store|apply)\b"
)
#: Flags that reasons of reports have named.
_FLAG = re.compile(r": --map\b| --now\.|--files-only")
_ID = "20260325_112518_6995d1"
_PARTS = {
    "sessions": AgentSessions,
    "checkpoints": Checkpoints,
    "archive": ArchivedSessions,
    "trash": Trash,
    "log": Log,
}


@pytest.mark.parametrize(
    ("hint", "said"),
    [
        ("`holdfast log` lists them.", "`home.log.read()` lists them."),
        ("Operation 7: holdfast undo 7. Or not.", "Operation 7: `home.undo('7')`. Or not."),
        (
            "Bring it back: holdfast sessions restore mine",
            "Bring it back: `home.restore_sessions('mine')`",
        ),
        ("Again: holdfast sessions archive ID…", "Again: `home.archive_sessions(ids)`"),
        ("`holdfast doctor --repair` mends it.", "`home.repair()` mends it."),
        (
            "Free some space, or remove without undo copies: --now.",
            "Free some space, or remove without undo copies: `use_trash=False`.",
        ),
        ("Pick another folder with --home.", "Pick another folder."),
        ("For example --older-than 90d.", "For example `older_than='90d'`."),
        ("Or --trivial-days 7.", "Or `trivial_days=7`."),
        ("Write 500MB.", "Write 500MB."),
        ("`holdfast connect codex` does.", "`machine.plan_connect('codex')` does."),
        ("Use `holdfast disconnect`.", "Use `machine.plan_disconnect(agent)`."),
        (
            "`holdfast connect codex` with --scope project does.",
            "`machine.plan_connect('codex')` with `scope='project'` does.",
        ),
        ("`holdfast store init` does.", "`holdfast.api.store.init_store(path)` does."),
        ("`holdfast fleet status` tells.", "`holdfast.api.store.fleet_status(path)` tells."),
        ("Where is it? --map /old=DIR", "Where is it? `maps={'/old': path}`"),
        ("Restore it here: --map OLD=NEW", "Restore it here: `maps={'OLD': path}`"),
        (
            "Name it: `holdfast checkpoints import PATH`.",
            "Name it: `home.import_checkpoints(path)`.",
        ),
        ("Gone: holdfast sessions delete ID…", "Gone: `home.delete(ids)`"),
        ("`holdfast vault status` lists them.", "`holdfast.machine().vaults()` lists them."),
        ("Or pick the home with --home.", "Or open its home with `machine.open(home)`."),
    ],
)
def test_a_hint_in_methods(hint: str, said: str) -> None:
    error = HoldfastError("x", hint=hint)
    assert error.hint == said
    voice = COMMAND_FLAG.set("")
    try:
        assert error.hint == hint
    finally:
        COMMAND_FLAG.reset(voice)


def test_a_command_line_in_a_hint_works_on_the_same_home() -> None:
    error = HoldfastError("x", hint="Bring it back: holdfast undo 7. `holdfast log` lists others.")
    voice = COMMAND_FLAG.set("--home /srv/a ")
    try:
        assert error.hint == (
            "Bring it back: holdfast --home /srv/a undo 7. "
            "`holdfast --home /srv/a log` lists others."
        )
    finally:
        COMMAND_FLAG.reset(voice)


@cache
def _hints() -> list[tuple[str, str]]:
    """Every text below the command that is handed over as a hint or as advice, and every other one
    that names a command. Whoever sees the page, or asks an agent at the MCP server, can type it."""
    found = []
    for path in SOURCE.rglob("*.py"):
        parts_of_path = {*path.relative_to(SOURCE).parts}
        # A new config.toml is read by a person, who has the command.
        if {"cli", "errors.py", "mcp", "web", "template.py"} & parts_of_path:
            continue
        nodes = [*ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
        docstrings = {
            id(node.value) for node in nodes if isinstance(node, ast.Expr)
        }  # these speak to whoever reads the source
        hints = {
            id(each)
            for node in nodes
            if isinstance(node, ast.keyword) and node.arg in ("hint", "advice")
            for each in ast.walk(node.value)
        }
        parts = {
            id(part) for each in nodes if isinstance(each, ast.JoinedStr) for part in each.values
        }
        for each in nodes:
            text = _text(each)
            if not isinstance(each, ast.expr) or text is None or id(each) in docstrings | parts:
                continue
            if id(each) in hints or _COMMAND.search(text) or _FLAG.search(text):
                found.append((f"{path.relative_to(SOURCE)}:{each.lineno}", text))
    return found


def _text(node: ast.AST) -> str | None:
    """A text of the source, with an id where an f-string has a value."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(each) or _ID for each in node.values)
    return None


def test_no_hint_names_a_command_to_a_user_of_the_library() -> None:
    hints = _hints()
    assert len(hints) > 60
    for place, hint in hints:
        said = in_methods(hint)
        assert not _COMMAND.search(said), (place, said)
        assert " --" not in said or "`git --git-dir" in said, (place, said)


def test_no_reason_of_a_policy_names_a_command() -> None:
    """A plan is the same value whoever asks for it, and is saved: nobody translates its reasons."""
    for place, text in _hints():
        if place.startswith("policy/"):
            assert not _COMMAND.search(text), (place, text)


def test_the_methods_of_hints_exist() -> None:
    for method in _METHODS.values():
        name = re.sub(r"\(.*", "", method)
        if name == "holdfast.open":
            continue
        start, *parts = name.split(".")
        if start == "machine" or name.startswith("holdfast.machine"):
            assert hasattr(Machine, re.sub(r".*\.", "", method.replace("()", "")).split("(")[0]), (
                method
            )
        elif parts[0] == "api":
            assert hasattr(store, parts[-1]), method
        elif len(parts) == 1:
            assert hasattr(Home, parts[0]), method
        else:
            assert hasattr(_PARTS[parts[0]], parts[1]), method


def test_a_part_of_a_word_is_an_argument_in_the_library() -> None:
    assert in_methods('"a -> b"; or use --part') == '"a -> b"; or pass `substring=True`'
