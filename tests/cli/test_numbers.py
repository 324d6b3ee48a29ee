"""Numbers that no store can hold: every numeric option of every command refuses them, or takes
them for what they mean."""

from __future__ import annotations

import time

import click
import pytest

from tests.cli import hostile
from tests.cli.every_command import COMMANDS, ENDLESS, SENSIBLE, say
from tests.cli.hostile import World

#: Options of text that hold a quantity, by what they are called in a usage line.
_QUANTITIES = {"WHEN", "DURATION", "SIZE"}
_NUMBERS = ("-1", str(2**63 - 1), str(2**63), "9" * 5_000)
_ODD = ("1e400", "nan")
_MORE = ("0", "1", str(2**31), "9" * 30, "-1e400", "-nan", "inf", "1e18", "0x10", "1_000", "٣", " ")
_UNITS = ("d", "GB")

_NUMERIC = [
    (path, param.opts[0])
    for path, entry in COMMANDS.items()
    for param in entry.own_params
    if isinstance(param.type, click.IntRange | click.FloatRange | click.types.IntParamType)
]
_TEXTS = [
    (path, param.opts[0])
    for path, entry in COMMANDS.items()
    for param in entry.own_params
    if param.metavar in _QUANTITIES or param.opts[0] in ("--early", "--settle")
]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return hostile.build(tmp_path_factory.mktemp("numbers"), time.time())


def _try(world: World, path: str, option: str, value: str) -> None:
    args = next((each for each in SENSIBLE[path] if "--dry-run" in each), SENSIBLE[path][0])
    words = [word.format(**world.places) for word in args.split() if word != "--limit"]
    said = say("--home", str(world.home), *path.split(), f"{option}={value}", *words)
    assert said.code in (0, 1, 2, 5), (path, option, value, said)
    assert "Internal error" not in said.text, (path, option, value, said)
    if said.code == 2:
        assert len(said.err) < 7_000, said


def test_there_are_numbers_to_try() -> None:
    assert len(_NUMERIC) > 50
    assert {("sessions list", "--offset"), ("log", "--limit")} <= set(_NUMERIC)
    assert ("sessions prune", "--max-total-size") in _TEXTS


@pytest.mark.parametrize("path", sorted({path for path, _ in _NUMERIC} - ENDLESS))
def test_every_number(world: World, path: str) -> None:
    for option in (option for each, option in _NUMERIC if each == path):
        for value in (*_NUMBERS, *_ODD):
            _try(world, path, option, value)


@pytest.mark.parametrize("path", sorted({path for path, _ in _TEXTS} - ENDLESS))
def test_every_quantity(world: World, path: str) -> None:
    for option in (option for each, option in _TEXTS if each == path):
        for value in (f"{number}{unit}" for number in _NUMBERS for unit in _UNITS):
            _try(world, path, option, value)


@pytest.mark.deep
@pytest.mark.parametrize(("path", "option"), [*_NUMERIC, *_TEXTS])
def test_more_numbers(world: World, path: str, option: str) -> None:
    for number in () if path in ENDLESS else (*_ODD, *_MORE):
        for unit in ("", *_UNITS, "s", "y", "T"):
            _try(world, path, option, number + unit)


@pytest.mark.parametrize(
    "words",
    [
        f"undo {2**64}",
        "undo -1",
        "undo 00000001",
        f"trash empty {2**64} --yes",
        f"checkpoints show {'9' * 40}",
        f"checkpoints show {'f' * 5_000}",
        f"sessions show {'9' * 5_000}",
        f"sessions delete {2**64} --yes",
    ],
)
def test_ids_that_are_huge_numbers(world: World, words: str) -> None:
    said = say("--home", str(world.home), *words.split())
    assert said.code in (1, 2), said
    assert "Internal error" not in said.text
