"""Totals of a home's sessions and their files, and what could be removed.

Nothing here looks at sessions one by one: the store counts them. So there is only an upper
bound on what a plan would remove, which is enough to decide whether to ask for the plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from holdfast.config.settings import Settings
from holdfast.model.item import SessionFile
from holdfast.model.json_value import JsonValue
from holdfast.model.session import Session, SessionFilter, SessionOrder
from holdfast.model.usage import CostTotals
from holdfast.policy.prices import Prices, costs
from holdfast.policy.rules import GcRules, Policy
from holdfast.ports.home import Home
from holdfast.ports.runs import Progress
from holdfast.ports.sessions import SessionStore
from holdfast.services.figures import largest_files
from holdfast.services.status import AGES, HomeScreen, Shares, count_checkpoints
from holdfast.value import dataclass

_LARGEST = 5
_NO_SESSIONS = SessionFilter(ids=())


@dataclass(frozen=True, slots=True, kw_only=True)
class Tip(JsonValue):
    """A command, and an upper bound of the sessions and bytes that it would remove."""

    command: str
    why: str
    sessions: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeStats(HomeScreen):
    """`inventory` has the files of the home, but no sessions: their totals are in `store`."""

    largest: tuple[Session, ...]
    largest_files: tuple[SessionFile, ...]
    tip: Tip | None

    def to_json(self) -> dict[str, Any]:
        in_use = self.inventory.database_bytes - sum(item.bytes for item in self.inventory.space)
        return HomeScreen.to_json(self) | {
            "total_bytes": self.inventory.total_bytes + in_use,
            "costs": self.costs.to_json(),
            "largest": [session.to_json() for session in self.largest],
            "largest_files": [each.to_json() for each in self.largest_files],
            "tip": self.tip.to_json() if self.tip else None,
        }


def stats(
    home: Home, settings: Settings, *, now: float, progress: Progress | None = None
) -> HomeStats:
    inventory = home.scan(now, progress, wanted=_NO_SESSIONS)
    store = home.session_store()
    if store is not None:
        store.count_messages()
    counted = None if store is None else store.statistics(now=now, ages=AGES)
    largest: Sequence[Session] = ()
    tips: list[Tip] = []
    if store is not None and counted is not None:
        largest = store.find(SessionFilter(), order_by=SessionOrder.BYTES, limit=_LARGEST)
        sources = tuple(share.name for share in counted.by_source)
        tips = [
            _tip(
                store,
                "sessions prune",
                "past their retention",
                _old(settings.policy(), sources, now),
            ),
            _tip(store, "sessions gc", "empty or trivial", _little(settings.gc_rules(), now)),
        ]
    return HomeStats(
        kind=home.kind,
        inventory=inventory,
        by_kind=Shares(inventory.items, now).by_kind(),
        store=counted,
        costs=usage(store, settings.prices()),
        largest=tuple(largest),
        largest_files=largest_files(inventory.items, _LARGEST),
        checkpoints=count_checkpoints(home, inventory),
        tip=max((tip for tip in tips if tip.sessions), key=lambda tip: tip.bytes, default=None),
    )


def usage(store: SessionStore | None, prices: Prices) -> CostTotals:
    """Tokens and cost by day, source and model; all zero without a store."""
    if store is None:
        return costs((), prices)
    return costs(store.usage_entries(), prices, removed_too=store.keeps_usage)


def _tip(store: SessionStore, command: str, why: str, wanted: Iterator[SessionFilter]) -> Tip:
    shares = [store.weigh(each) for each in wanted]
    sessions = sum(share.count for share in shares)
    if sessions == 1:
        why = why.replace("their", "its")
    return Tip(
        command=command,
        why=why,
        sessions=sessions,
        bytes=sum(share.bytes for share in shares),
    )


def _old(policy: Policy, sources: Sequence[str], now: float) -> Iterator[SessionFilter]:
    """The sessions past the age rules of a policy. Keep rules and pins may still hold them."""
    own = [source for source in sources if source in policy.by_source]
    others = tuple(source for source in sources if source not in policy.by_source)
    for rules, among in (
        (policy.everywhere.rules, others),
        *((policy.rules_for(source), (source,)) for source in own),
    ):
        if rules.max_age is not None:
            yield SessionFilter(
                sources=among,
                ended=True,
                pinned=False,
                agent_archived=False,
                active_before=now - rules.max_age,
            )


def _little(rules: GcRules, now: float) -> Iterator[SessionFilter]:
    """What gc would remove, ignoring the pins in the configuration."""
    titled = False if rules.keep_titled else None
    if rules.empty_after > 0:
        yield _ended(least=0, most=0, idle_since=now - rules.empty_after, titled=titled)
    if rules.takes_trivial:
        idle_since = now - rules.trivial_after
        yield _ended(least=1, most=rules.trivial_max, idle_since=idle_since, titled=titled)


def _ended(*, least: int, most: int, idle_since: float, titled: bool | None) -> SessionFilter:
    return SessionFilter(
        ended=True,
        pinned=False,
        agent_archived=False,
        titled=titled,
        min_messages=least,
        max_messages=most,
        active_before=idle_since,
    )
