"""The file that `config init` writes says the defaults, all of them, and sets nothing."""

from __future__ import annotations

import re
import tomllib

from holdfast.config.kinds import Value
from holdfast.config.reader import check
from holdfast.config.settings import KEYS, TABLES
from holdfast.config.template import template

KEY_LINE = re.compile(r"^# (?=[a-z_]+ = )", re.MULTILINE)
EXAMPLE_LINE = re.compile(r"^#     ", re.MULTILINE)


def said(text: str) -> dict[tuple[str, ...], Value]:
    values, problems = check(tomllib.loads(text), text, "config.toml")
    assert not problems
    return {given.path: given.value for given in values}


def test_as_written_it_sets_nothing() -> None:
    assert tomllib.loads(template()) == {table: {} for table in TABLES}


def test_uncommented_it_says_exactly_the_defaults() -> None:
    defaults = {key.path: key.default for key in KEYS if key.default is not None}
    assert said(KEY_LINE.sub("", template())) == defaults


def test_the_examples_hold_and_are_all_that_is_indented() -> None:
    assert said(EXAMPLE_LINE.sub("", template())) == {
        **{key.path: key.example for key in KEYS if key.example is not None},
        ("sessions", "source", "cron", "retention_days"): 7,
        ("sessions", "source", "cron", "keep_last"): 10,
        ("sessions", "source", "cron", "max_total_size_mb"): 100,
        ("transcripts", "telegram"): "jsonl-synced",
        ("guard", "source", "cron", "max_tokens"): 200_000,
        ("guard", "source", "cron", "max_iterations"): 50,
        ("guard", "source", "cron", "daily_cost"): 2.5,
        ("prices", "some-model-4", "input"): 3.0,
        ("prices", "some-model-4", "output"): 15.0,
        ("prices", "some-model-4", "cached"): 0.3,
        ("prices", "some-model-*", "input"): 1.0,
        ("prices", "some-model-*", "output"): 5.0,
        ("prices", "local-*", "input"): 0,
        ("prices", "local-*", "output"): 0,
    }


def test_an_example_may_stay_indented() -> None:
    assert said(template().replace("#     ", "    ")) == said(EXAMPLE_LINE.sub("", template()))


def test_every_key_occurs_once_with_its_variable() -> None:
    for key in KEYS:
        header = f"[{key.table}]\n" if key.table else ""
        text = template().partition(header)[2] if header else template()
        lines = text.partition("\n[")[0].splitlines()
        indent = "    " if key.default is None else ""
        assert sum(line.startswith(f"# {indent}{key.name} = ") for line in lines) == 1
        assert lines.count(f"# Environment: {key.variable}") == 1


def test_it_says_that_its_headers_are_not_commented_out() -> None:
    headers = re.findall(r"^\[\S+\]$", template(), re.MULTILINE)
    assert headers == [f"[{table}]" for table in TABLES]
    assert "# The lines in [brackets] are not commented out" in template().partition(headers[0])[0]


def test_it_reads_well() -> None:
    text = template()
    assert max(map(len, text.splitlines())) <= 100
    assert text.endswith("\n")
    assert not text.endswith("\n\n")
    assert text.isascii()
