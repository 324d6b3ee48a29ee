"""The plans of the page over the homes of several agents: each is the plan of the command."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.agents import settle
from tests.cli.inside import Inside
from tests.cli.machine import Machine
from tests.web.client import Web
from tests.web.scene import with_project

_COMMANDS = {
    "sessions": ("sessions", "prune"),
    "small": ("sessions", "gc"),
    "checkpoints": ("checkpoints", "prune"),
    "archive": ("sessions", "prune", "--archived"),
}


@pytest.mark.deep
@pytest.mark.parametrize("what", list(_COMMANDS))
def test_every_home_has_the_plan_of_the_command(machine: Machine, what: str) -> None:
    settle(machine)
    with_project(machine)
    compared = 0
    with Web(machine) as web:
        with web.site.machine("test") as homes:
            found = [(web.site.slug(each), str(each.path)) for each in homes.homes]
        assert len(found) > 4
        for slug, path in found:
            said = Inside(machine).run("--json", "--home", path, *_COMMANDS[what], "--dry-run")
            mine = web.get(f"/cleanup/plan.json?home={slug}&what={what}")
            if said.code:
                assert mine.status != 200, (slug, said)
                continue
            document: Any = said.document
            shown = json.loads(mine.text)["plan"]
            assert shown["items"] == document["plan"]["items"], slug
            compared += len(shown["items"])
        page = web.get(f"/cleanup?what={what}")
        assert page.status in (200, 400), page
    assert compared or what == "archive"
