"""Nothing that Holdfast shows can steer the terminal, whatever it is about."""

from __future__ import annotations

import time
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.text import one_line, printable
from tests.cli import hostile
from tests.cli.every_command import COMMANDS, ENDLESS, SENSIBLE, Said, say
from tests.cli.hostile import World
from tests.cli.runner import environment, on_terminal

_HARMFUL = ("Cc", "Cf", "Cs", "Zl", "Zp")


@pytest.fixture(scope="module")
def world_once(tmp_path_factory: pytest.TempPathFactory) -> World:
    return hostile.build(tmp_path_factory.mktemp("hostile"), time.time())


@pytest.fixture
def world(tmp_path: Path, world_once: World, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("HOLDFAST_HOME", raising=False)
    monkeypatch.chdir(tmp_path)  # a file name that a command is given means one here
    return hostile.copy(world_once, tmp_path)


def harmful(text: str, keep: str = "\n") -> list[str]:
    return sorted(
        {f"U+{ord(c):04X}" for c in text if unicodedata.category(c) in _HARMFUL and c not in keep}
    )


def check(said: Said, keep: str = "\n\t") -> None:
    """In a pipe there is a tab between two columns."""
    assert "Internal error" not in said.text, said
    assert harmful(said.text, keep) == [], said


def test_every_command_is_here() -> None:
    assert set(SENSIBLE) | ENDLESS == set(COMMANDS)


@given(st.text(alphabet=st.characters() | st.sampled_from(hostile.DANGEROUS)))
def test_printable_text_is_harmless_and_stays_what_it_is(text: str) -> None:
    assert harmful(printable(text)) == []
    assert harmful(one_line(text), keep="") == []
    assert printable(printable(text)) == printable(text)
    if not harmful(text) and all(unicodedata.category(c) not in ("Cn", "Co") for c in text):
        assert printable(text) == text


@pytest.mark.parametrize(
    ("path", "args"), [(path, args) for path, runs in SENSIBLE.items() for args in runs]
)
def test_no_command_shows_anything_harmful(world: World, path: str, args: str) -> None:
    words = [word.format(**world.places) for word in args.split()]
    if path == "apply":  # a plan is for one home
        at = ("--home", str(world.home))
        assert (
            say(*at, "sessions", "delete", world.places["session"], "--plan-out", words[0]).code
            == 0
        )
    said = say("--home", str(world.home), *path.split(), *words)
    # These two are for homes of other agents.
    refused = ("checkpoints import", "vault on", "vault off")
    assert said.code in (0, 1, 5) or path in refused, said
    check(said)


def _given(path: str) -> tuple[list[str], int]:
    """The options of a command that take a value, and how many arguments it has."""
    params = COMMANDS[path].own_params
    options = [each.opts[0] for each in params if not getattr(each, "is_flag", True)]
    return options, sum(each.param_type_name == "argument" for each in params)


@pytest.mark.parametrize("path", SENSIBLE)
def test_no_error_shows_anything_harmful(world: World, path: str) -> None:
    """Given something that was never meant, where anything can be given."""
    words, (_, arguments) = path.split(), _given(path)
    at = ("--home", str(world.home))
    check(say(*at, *words, *[hostile.WORD] * arguments))
    check(say(*at, *words, f"--{hostile.WORD}"))
    check(say(*words[:-1], hostile.WORD))
    if path != "config path":  # another program reads that, byte for byte; on a terminal see below
        check(say("--debug", *at, hostile.WORD, *words, *["x"] * arguments))
        check(say("--home", str(world.home / hostile.WORD), *words, *["x"] * arguments))


@pytest.mark.deep
@pytest.mark.parametrize("path", SENSIBLE)
def test_no_value_of_an_option_shows_anything_harmful(world: World, path: str) -> None:
    options, arguments = _given(path)
    for option in options:
        check(
            say("--home", str(world.home), *path.split(), option, hostile.WORD, *["x"] * arguments)
        )


@pytest.mark.parametrize("args", ["config path", "checkpoints diff {checkpoint}", "config show"])
def test_on_a_terminal_machine_formats_are_harmless_too(world: World, args: str) -> None:
    words = [word.format(**world.places) for word in args.split()]
    home = world.home.rename(world.root / hostile.NAME)
    with on_terminal(["--home", str(home), *words], environment(world.root)) as terminal:
        result = terminal.end()
    assert result.code == 0, result
    assert harmful("\n".join(result.lines)) == []


@pytest.mark.parametrize("command", ["config check", "config show", "status", "sessions list"])
def test_a_hostile_configuration(
    world: World, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = '"k\\u001b\\u202e" = "\\u009b\\u2028"\n[sessions]\nretention_days = "\\u001b[31m"\n'
    (world.home / "config.toml").write_text(text)
    monkeypatch.setenv(f"HOLDFAST_{hostile.WORD}", hostile.WORD)
    said = say("--home", str(world.home), *command.split())
    assert said.code in (0, 1, 2), said
    check(said)


def test_a_damaged_log_names_its_damage_harmlessly(world: World) -> None:
    operations = world.home / "operations"
    for journal in operations.glob("*.jsonl"):
        with journal.open("ab") as file:
            file.write(b'{"\x1b[31m\xe2\x80\xae": \xff\n')
    for command in ("log", "undo", "trash list", "doctor"):
        check(say("--home", str(world.home), *command.split()))
