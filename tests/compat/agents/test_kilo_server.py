"""A server of Kilo, as its daemon is one, has sessions of any folder and works in none of them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.compat.agents.installed import NotInstallableError
from tests.compat.agents.lab import end
from tests.compat.agents.labs.kilo import Kilo
from tests.compat.agents.model_server import LINE, serving
from tests.compat.agents.test_agents import attack, check_whole, prune

pytestmark = pytest.mark.deep


def test_its_server_protects_every_session(tmp_path: Path) -> None:
    with serving() as model:
        try:
            lab = Kilo(tmp_path / "place", model)
        except NotInstallableError as error:
            pytest.skip(f"THE REAL AGENT WAS NOT TRIED: {error}")
        lab.set_up()
        first = lab.say("apples")
        for word in ("bananas", "cherries"):
            lab.say(word)
        server = subprocess.Popen(
            [str(lab.program), "serve", "--port", "0"],
            cwd=lab.user,
            env=dict(lab.environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            assert server.stdout is not None
            told = (line.decode() for line in server.stdout)
            address = next(line for line in told if "listening" in line).split()[-1]
            said = lab.run("run", "--attach", address, "--session", first, "Go on, about apples")
            assert LINE in said
            for session in lab.said:
                attack(lab, session)
        finally:
            end(server)
        assert lab.listed() == lab.said.keys()
        check_whole(lab)
        assert len(prune(lab)) == 2
        assert len(lab.listed()) == 1
