"""Values for tests: each builder fills in what the test does not care about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from holdfast.model.item import SESSION, SPACE, TRANSCRIPT, TRASH, Inventory, Item
from holdfast.model.plan import Action, Plan, PlanItem
from holdfast.policy.lifecycle import NOT_ENDED
from holdfast.policy.rules import Caps, Limits, Policy, Rules


def moment(text: str) -> float:
    """The epoch second of an ISO time in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


#: A Wednesday, at noon.
NOW = moment("2026-03-25T12:00")


def an_item(name: str = "a", /, **fields: Any) -> Item:
    """An item that nothing protects; `age` is a shorter way to say `last_active_at`."""
    fields.setdefault("last_active_at", NOW - fields.pop("age", 0.0))
    item = Item(kind=TRANSCRIPT, id=name, source="cli", bytes=100, last_active_at=NOW, version="v1")
    return replace(item, **fields)


def a_trash_item(name: str = "op1/0", /, **fields: Any) -> Item:
    return an_item(name, kind=TRASH, **fields)


def a_session_item(name: str = "s1", /, **fields: Any) -> Item:
    """A stored session that ended, substantial and without a title. One that was abandoned has no
    end, and so it counts as alive."""
    if fields.get("abandoned") is not None:
        fields = {"alive": NOT_ENDED} | fields
    return an_item(name, **{"kind": SESSION, "session": name, "messages": 20} | fields)


def a_file_of(session: str, name: str = "", /, **fields: Any) -> Item:
    """A file of a stored session."""
    return an_item(name or f"sessions/{session}.json", session=session, owned=True, **fields)


def a_space_item(name: str = "sessions.db", /, **fields: Any) -> Item:
    return an_item(name, kind=SPACE, **fields)


def an_inventory(*items: Item, trash: Iterable[Item] = (), space: Iterable[Item] = ()) -> Inventory:
    return Inventory(
        home="/home/of/agent",
        items=items,
        trash=tuple(trash),
        space=tuple(space),
    )


def limits(*, max_bytes: int | None = None, max_count: int | None = None, **rules: Any) -> Limits:
    return Limits(rules=Rules(**rules), caps=Caps(max_bytes=max_bytes, max_count=max_count))


def a_policy(
    *,
    by_source: Mapping[str, Limits] | None = None,
    pins: tuple[str, ...] = (),
    trash_age: float | None = None,
    use_trash: bool = True,
    trivial_max: int = 5,
    **everywhere: Any,
) -> Policy:
    """Everything that is not named here is a rule or a cap for all sources."""
    return Policy(
        everywhere=limits(**everywhere),
        by_source=by_source or {},
        pins=pins,
        trash_age=trash_age,
        use_trash=use_trash,
        trivial_max=trivial_max,
    )


def a_plan_item(name: str = "sessions/a.json", /, **fields: Any) -> PlanItem:
    item = PlanItem(
        kind=TRANSCRIPT,
        id=name,
        source="cli",
        bytes=100,
        last_active_at=NOW,
        version="v1",
        action=Action.REMOVE,
        reason="older than 90 d: last active 120 d ago",
        undoable=True,
    )
    return replace(item, **fields)


def a_plan(*items: PlanItem, **fields: Any) -> Plan:
    made = Plan(home="/home/of/agent", command="sessions prune", made_at=NOW, items=items)
    return replace(made, **fields)
