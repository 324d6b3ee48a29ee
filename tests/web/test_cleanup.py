"""Clean up in the browser: the figures of the command, and what it would do to the home."""

from __future__ import annotations

import html
import json
import re
from typing import Any

import pytest

from tests.cli.inside import Inside
from tests.cli.machine import DAY, Machine, entries
from tests.web.client import Answer, Web


def _fields(answer: Answer) -> dict[str, str]:
    """The hidden fields of the form on a page that asks."""
    found = re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)">', answer.text)
    return {html.unescape(name): html.unescape(value) for name, value in found}


def _saved(web: Web, query: str) -> dict[str, Any]:
    """The plan that the page would save."""
    document: dict[str, Any] = json.loads(web.ok(f"/cleanup/plan.json?home=holdfast&{query}").text)
    plan: dict[str, Any] = document["plan"]
    return plan


def _same(mine: dict[str, Any], command: dict[str, Any]) -> None:
    """To the byte: everything but the moment and the name of who asked."""
    assert mine["items"] == command["items"]
    assert (mine["bytes"], mine["shortfalls"]) == (command["bytes"], command["shortfalls"])


@pytest.mark.parametrize(
    ("query", "flags", "config"),
    [
        ("", (), ""),
        ("sessions.retention_days=150", ("--older-than", "150d"), ""),
        ("sessions.retention_days=0&sessions.keep_last=1", ("--keep-last", "1"), ""),
        ("sessions.max_count=2&trash=never", ("--max-count", "2", "--now"), ""),
        ("sessions.source.cron.retention_days=5", (), "[sessions.source.cron]\nretention_days=5"),
    ],
)
def test_the_plan_is_that_of_the_command(
    used: Machine, web: Web, query: str, flags: tuple[str, ...], config: str
) -> None:
    mine = _saved(web, query)
    if config:
        used.configure(config)
    shown = used.json("--home", "holdfast", "sessions", "prune", "--dry-run", *flags)["plan"]
    _same(mine, shown)
    assert any(item["action"] == "remove" for item in mine["items"])
