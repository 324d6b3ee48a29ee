"""Selects sessions that were never worth keeping: empty and trivial ones."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache, partial

from holdfast.errors import EmptyPolicyError
from holdfast.model.item import SESSION, Inventory, Item
from holdfast.model.plan import Action, Plan
from holdfast.model.text import format_count, format_duration
from holdfast.policy.decision import REASONS, Decision, kept_because
from holdfast.policy.delegates import Delegates
from holdfast.policy.draft import Draft, FreeSpace, files_in_use, owned_files
from holdfast.policy.keep_rules import (
    apart,
    because_of,
    hold,
    hold_parents,
    kept_with_parents,
)
from holdfast.policy.rules import GcRules, Policy


def plan_gc(
    rules: GcRules, policy: Policy, inventory: Inventory, now: float, *, command: str
) -> Plan:
    """Decide about every session. The policy determines what is pinned and whether to use the
    trash.

    Raises `EmptyPolicyError` if both rules are off.
    """
    if rules.empty:
        raise EmptyPolicyError(
            "Nothing to do: the rules for empty and for trivial sessions are both off.",
            hint="Say what to remove, for example --empty-hours 24 or --trivial-days 7.",
        )
    owned = owned_files(inventory.items)
    in_use = files_in_use(owned)
    alone, followers = apart(item for item in inventory.items if item.kind == SESSION)
    decisions = [_decide(rules, policy, item, in_use, now) for item in alone]
    decisions += kept_with_parents(followers, partial(_hold_follower, rules, policy, in_use=in_use))
    hold_parents(decisions)
    draft = Draft(
        decisions,
        owned=owned,
        is_pinned=policy.pins_item,
        space=FreeSpace(items=inventory.space),
    )
    delegates = Delegates(decisions, rules.trivial_max, keep_titled=rules.keep_titled)
    delegates.follow(each for each in decisions if not each.kept)
    return draft.plan(inventory.home, now, command=command)


def _decide(
    rules: GcRules, policy: Policy, item: Item, in_use: Mapping[str, str], now: float
) -> Decision:
    held = hold(policy, item, in_use)
    if held is not None:
        return held
    age = now - item.last_active_at
    stays = _why_it_stays(rules, item, age)
    if stays is not None:
        return Decision(item, Action.KEEP, stays)
    reason = _too_little(item.messages or 0, format_duration(age))
    return Decision(item, Action.REMOVE, reason, undoable=policy.use_trash)


def _hold_follower(
    rules: GcRules, policy: Policy, item: Item, in_use: Mapping[str, str]
) -> Decision | None:
    """A delegate that leaves only with its session, however trivial that is: if the delegate is not
    trivial, both stay."""
    held = hold(policy, item, in_use)
    why = None if held is not None else _why_not_trivial(rules, item)
    return held if why is None else kept_because(item, why)


def _why_it_stays(rules: GcRules, item: Item, age: float) -> str | None:
    if item.titled and rules.keep_titled:
        return "titled"
    why = _why_not_trivial(rules, item)
    if why is not None:
        return why
    messages = item.messages or 0
    limit = rules.trivial_after if messages else rules.empty_after
    if limit == 0:
        return _no_rule(_size(messages))
    return _younger_than(limit, _size(messages)) if age <= limit else None


def _why_not_trivial(rules: GcRules, item: Item) -> str | None:
    """Why a session, or one that leaves with it, is more than trivial or may be."""
    if item.messages is None:
        return "unreadable: none of its messages can be read"
    if item.messages > rules.trivial_max:
        return _substantial(item.messages)
    if item.unread:
        return f"partly unreadable: {item.unread}"
    inner = (_why_not_trivial(rules, each) for each in item.inside)
    why = next((each for each in inner if each is not None), None)
    return None if why is None else because_of(why)


def _size(messages: int) -> str:
    return "trivial" if messages else "empty"


@lru_cache(REASONS)
def _no_rule(size: str) -> str:
    return f"no rule for {size} sessions"


@lru_cache(REASONS)
def _substantial(messages: int) -> str:
    return f"substantial: {format_count(messages, 'message')}"


@lru_cache(REASONS)
def _younger_than(limit: float, size: str) -> str:
    return f"younger than {format_duration(limit)}: {size}"


@lru_cache(REASONS)
def _too_little(messages: int, ago: str) -> str:
    much = f"{format_count(messages, 'message')}, " if messages else ""
    return f"{_size(messages)}: {much}last active {ago} ago"
