"""Where the checkpoints of a project are a chain, the bound on bytes leaves no gap in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.plan import Action, Plan
from holdfast.policy.planner import plan_checkpoints
from holdfast.policy.rules import CheckpointPolicy
from tests.builders import NOW
from tests.unit.test_checkpoint_policy import BESIDE, checkpoint, store


def planned(sizes: Sequence[int], limit: int, *, chained: bool) -> Plan:
    """Of one project whose checkpoints share nothing; the oldest first."""
    names = [f"{number:02d}" for number in range(len(sizes))]
    made = store(
        *(checkpoint(name, age=100.0 - int(name)) for name in names),
        holds={name: {f"o{name}": size} for name, size in zip(names, sizes, strict=True)},
    )
    projects = {key: replace(each, chained=chained) for key, each in made.projects.items()}
    policy = CheckpointPolicy(max_bytes=limit + BESIDE, use_trash=False)
    return plan_checkpoints(policy, replace(made, projects=projects), NOW, command="prune")


def kept(plan: Plan) -> list[str]:
    return sorted(each.id for each in plan.items if each.action is Action.KEEP)


def test_a_small_old_one_does_not_come_back_when_a_newer_one_had_to_go() -> None:
    sizes = [1, 1, 50, 10, 10]
    assert kept(planned(sizes, 30, chained=False)) == ["00", "01", "03", "04"]
    assert kept(planned(sizes, 30, chained=True)) == ["03", "04"]


@given(st.lists(st.integers(1, 50), min_size=1, max_size=12), st.integers(0, 300))
def test_what_stays_of_a_chain_is_its_newest_and_as_many_as_fit(
    sizes: list[int], limit: int
) -> None:
    left = kept(planned(sizes, limit, chained=True))
    count = len(left)
    assert left == [f"{number:02d}" for number in range(len(sizes) - count, len(sizes))]
    assert count == 1 or sum(sizes[-count:]) <= limit
    assert count == len(sizes) or sum(sizes[-count - 1 :]) > limit
