"""Whatever a plan file holds: the plan that was saved, or a PlanFileError, and nothing else."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from holdfast.errors import PlanFileError
from holdfast.model.item import Inventory
from holdfast.model.plan import Action, Plan, Shortfall
from holdfast.policy.planner import plan
from holdfast.policy.rules import Policy
from holdfast.stores.plan_file import load, save
from tests import tally
from tests.builders import NOW, a_plan, a_plan_item
from tests.property.strategies import inventories, policies

PLAN = a_plan(
    a_plan_item("sessions/a.json"),
    a_plan_item("sessions/\udcff.json", action=Action.KEEP, reason="pinned", undoable=False),
    shortfalls=(Shortfall(cap="max_count", limit=0, remaining=1, held_by={"pinned": 1}),),
)
KNOWN_KEYS = [*PLAN.to_json(), *PLAN.items[0].to_json(), *PLAN.shortfalls[0].to_json()]
KEYS = st.sampled_from(["holdfast_plan", "seal", "plan", *KNOWN_KEYS]) | st.text(max_size=5)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([0, 1, -1, 10**400, "keep", "remove", "", "\udcff"]),
    st.floats(),
    st.text(max_size=10),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=12,
)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One file for all examples; each writes it whole."""
    return tmp_path_factory.mktemp("plans") / "plan.json"


def load_or_refuse(path: Path, data: bytes) -> Plan | None:
    """None for what was refused; any other error fails the test."""
    path.write_bytes(data)
    tally.injected()
    tally.verified()
    try:
        return load(path)
    except PlanFileError:
        return None


def document(body: object, seal: str) -> bytes:
    return json.dumps({"holdfast_plan": 1, "seal": seal, "plan": body}).encode()


def seal(body: object) -> str:
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


VALID = document(PLAN.to_json(), seal(PLAN.to_json()))


# --- What was saved -------------------------------------------------------------------------------


@given(inventories(), policies())
def test_any_plan_comes_back_as_it_was(path: Path, inventory: Inventory, policy: Policy) -> None:
    made = plan(policy, inventory, NOW, command="test")
    path.unlink(missing_ok=True)
    save(made, path)
    assert load(path) == made


def test_the_file_that_is_damaged_below_was_sound(path: Path) -> None:
    assert load_or_refuse(path, VALID) == PLAN


# --- What was not ---------------------------------------------------------------------------------


@given(st.binary() | st.text().map(str.encode))
def test_any_bytes(path: Path, data: bytes) -> None:
    assert load_or_refuse(path, data) is None


@given(VALUES)
def test_any_json(path: Path, value: object) -> None:
    assert load_or_refuse(path, json.dumps(value).encode()) is None


@given(VALUES, st.sampled_from(["x", seal(PLAN.to_json())]))
def test_any_body_under_a_seal_of_another(path: Path, body: object, other: str) -> None:
    assert load_or_refuse(path, document(body, other)) is None


@given(VALUES)
def test_any_body_under_its_own_seal(path: Path, body: object) -> None:
    """Nothing this random is a plan; what matters is that no other error gets out."""
    assert load_or_refuse(path, document(body, seal(body))) is None


@given(st.integers(0, len(VALID) - 1), st.integers(1, 255))
def test_one_byte_changed(path: Path, position: int, flips: int) -> None:
    """A space may become a tab; nothing that means something may become anything."""
    data = bytearray(VALID)
    data[position] ^= flips
    assert load_or_refuse(path, bytes(data)) in (None, PLAN)


@given(st.integers(0, len(VALID)), st.integers(0, len(VALID)), st.binary(max_size=4))
def test_a_stretch_of_bytes_changed(path: Path, start: int, end: int, put: bytes) -> None:
    start, end = sorted((start, end))
    assert load_or_refuse(path, VALID[:start] + put + VALID[end:]) in (None, PLAN)


def places(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to every field and element inside a JSON value."""
    inside = value.items() if isinstance(value, dict) else enumerate(value)
    for step, below in inside:
        yield (*above, step)
        if isinstance(below, dict | list):
            yield from places(below, (*above, step))


@st.composite
def mutated_bodies(draw: st.DrawFn) -> Any:
    """The body of a valid file with one field changed, added or taken away."""
    body = copy.deepcopy(PLAN.to_json())
    *way, last = draw(st.sampled_from(list(places(body))))
    holder: Any = body
    for step in way:
        holder = holder[step]
    change = draw(st.sampled_from(["set", "take away", "add"]))
    if change == "take away":
        del holder[last]
    elif change == "add" and isinstance(holder, dict):
        holder[draw(KEYS)] = draw(VALUES)
    else:
        holder[last] = draw(VALUES)
    assume(json.dumps(body) != json.dumps(PLAN.to_json()))
    return body


@given(mutated_bodies())
def test_a_body_that_was_edited_is_never_accepted(path: Path, body: Any) -> None:
    assert load_or_refuse(path, document(body, seal(PLAN.to_json()))) is None


@given(mutated_bodies())
def test_a_body_that_was_edited_and_sealed_anew_is_checked_field_by_field(
    path: Path, body: Any
) -> None:
    """The seal is no signature. A plan that gets past it is at least a whole plan."""
    accepted = load_or_refuse(path, document(body, seal(body)))
    if accepted is not None:
        for item in accepted.items:
            assert isinstance(item.action, Action)
            assert item.bytes >= 0
        assert Plan.from_json(json.loads(json.dumps(accepted.to_json()))) == accepted
