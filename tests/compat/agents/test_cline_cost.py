"""What Cline records of an answer that has a price, and of input that came from a cache."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.model.session import Tokens
from tests.compat.agents.installed import NotInstallableError
from tests.compat.agents.labs.cline import Cline
from tests.compat.agents.model_server import CACHED, COST, PRICED, serving
from tests.compat.agents.test_agents import opened

pytestmark = pytest.mark.deep


class PricedCline(Cline):
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
    with opened(lab) as home:
        shown = home.sessions.get(session)
    assert shown.cost == 2 * COST
    assert shown.tokens == Tokens(input=2 * (100 - CACHED), output=24, cached=2 * CACHED)
