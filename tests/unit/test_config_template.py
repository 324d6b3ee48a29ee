"""The file that `config init` writes says the defaults, all of them, and sets nothing."""

from __future__ import annotations

import re
import tomllib

from holdfast.config import template
from holdfast.config.check import check
from holdfast.config.keys import KEYS, SOURCE_BY_NAME

KEY_LINE = re.compile(r"^# (?=[a-z_]+ = )", re.MULTILINE)


def test_as_written_it_sets_nothing() -> None:
    assert tomllib.loads(template()) == {"sessions": {}}


def test_uncommented_it_says_exactly_the_defaults() -> None:
    text = KEY_LINE.sub("", template())
    values, problems = check(tomllib.loads(text), text, "config.toml")
    assert not problems
    assert {given.path: given.value for given in values} == {key.path: key.default for key in KEYS}


def test_every_key_occurs_once_with_its_variable() -> None:
    lines = template().splitlines()
    for key in KEYS:
        assert sum(line.startswith(f"# {key.name} = ") for line in lines) == 1
        assert lines.count(f"# Environment: {key.variable}") == 1


def test_the_example_of_a_source_holds() -> None:
    example = template()[template().index("#     [") :]
    text = example.replace("#     ", "")
    values, problems = check(tomllib.loads(text), text, "config.toml")
    assert not problems
    assert {given.path[-1] for given in values} <= SOURCE_BY_NAME.keys()
    assert {given.path[2] for given in values} == {"cron"}


def test_it_reads_well() -> None:
    text = template()
    assert max(map(len, text.splitlines())) <= 100
    assert text.endswith("\n")
    assert not text.endswith("\n\n")
    assert text.isascii()
