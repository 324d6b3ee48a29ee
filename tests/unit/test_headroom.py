"""How much of each cap is used."""

from __future__ import annotations

from holdfast.policy.cap_use import CapUse, cap_uses
from tests.builders import a_policy, a_trash_item, an_inventory, an_item, limits

HOME = an_inventory(
    an_item("a", source="cli", bytes=100),
    an_item("b", source="cron", bytes=300),
    an_item("b.jsonl", source="cron", bytes=50, owned=True),
    trash=[a_trash_item("1/0/c", source="cron", bytes=7)],
)


def test_bytes_count_everything_and_the_trash_and_items_count_sessions_once() -> None:
    uses = cap_uses(a_policy(max_bytes=500, max_count=4), HOME)
    assert uses == (
        CapUse(cap="max_count", limit=4, used=2),
        CapUse(cap="max_total_size", limit=500, used=457),
    )


def test_a_source_has_caps_of_its_own() -> None:
    policy = a_policy(by_source={"cron": limits(max_bytes=300), "cli": limits(keep_last=1)})
    (use,) = cap_uses(policy, HOME)
    assert use == CapUse(cap="max_total_size of cron", limit=300, used=357)
    assert use.exceeded
    assert use.in_bytes


def test_without_caps_there_is_nothing_to_use() -> None:
    assert cap_uses(a_policy(keep_last=1), HOME) == ()


def test_near_is_a_share_of_the_cap() -> None:
    use = CapUse(cap="max_count", limit=100, used=90)
    assert (use.is_near(0.9), use.is_near(0.91), use.percent) == (True, False, 90)
    assert not use.exceeded
    assert use.amount(90) == "90 items"


def test_a_cap_of_nothing() -> None:
    assert not CapUse(cap="max_count", limit=0, used=0).is_near(0.9)
    assert CapUse(cap="max_count", limit=0, used=1).is_near(0.9)
    assert CapUse(cap="max_count", limit=0, used=1).percent == 100
