"""What Cline records of an answer that has a price, and of input that came from a cache."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdfast.model.session import Tokens
from tests.compat.agents.installed import NotInstallableError
from tests.compat.agents.labs.cline import Cline
from tests.compat.agents.model_server import CACHED, PRICED, serving
from tests.compat.agents.test_agents import opened

pytestmark = pytest.mark.deep


class PricedCline(Cline):
    provider = "deepseek"
    model_name = PRICED


def test_what_an_answer_cost(tmp_path: Path) -> None:
    with serving() as model:
        try:
            lab = PricedCline(tmp_path / "place", model)
        except NotInstallableError as error:
            pytest.skip(f"THE REAL AGENT WAS NOT TRIED: {error}")
        lab.set_up()
        session = lab.say("apples")
        lab.resume(session)
    [about] = lab.home.glob(f"sessions/*/{session}.json")
    total = json.loads(about.read_text())["metadata"]["totalCost"]
    with opened(lab) as home:
        shown = home.sessions.get(session)
    assert shown.tokens == Tokens(input=2 * (100 - CACHED), output=24, cached=2 * CACHED)
    assert shown.cost == pytest.approx(total)
    assert total > 0
