"""Kilo's daemon has sessions of any folder in memory and works in none of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.compat.agents.installed import NotInstallableError
from tests.compat.agents.labs.kilo import Kilo
from tests.compat.agents.model_server import serving
from tests.compat.agents.test_agents import attack, check_whole, prune

pytestmark = pytest.mark.deep


def test_its_daemon_protects_every_session(tmp_path: Path) -> None:
    with serving() as model:
        try:
            lab = Kilo(tmp_path / "place", model)
        except NotInstallableError as error:
            pytest.skip(f"THE REAL AGENT WAS NOT TRIED: {error}")
        lab.set_up()
        first = lab.say("apples")
        for word in ("bananas", "cherries"):
            lab.say(word)
        lab.run("daemon", "start")
        try:
            lab.resume(first)
            for session in lab.said:
                attack(lab, session)
        finally:
            lab.run("daemon", "stop")
        assert lab.listed() == lab.said.keys()
        check_whole(lab)
        assert len(prune(lab)) == 2
        assert len(lab.listed()) == 1
