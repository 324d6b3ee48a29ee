"""The quick answer of a guard beside the whole one: when it says that there is room, the closer
look has nothing to refuse, nothing to warn of and no unknown cost."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from holdfast.model.guard import DayShare, Estimate, Guarded, Reservation, Sample, Standing, Work
from holdfast.model.session import Session, Tokens
from holdfast.model.stored_session import Holder
from holdfast.model.usage import Usage
from holdfast.policy import budget_check
from holdfast.policy.budget_headroom import Headroom
from holdfast.policy.budgets import Budget, Budgets, GuardOptions
from holdfast.policy.prices import Price, Prices
from holdfast.value import replace

ME = Holder(host="h", boot="b", process=1, started="s")
AT = 100.0
PRICES = Prices(by_model={"m": Price(input=1e6, output=2e6)})
FAR = Standing(session=Session(id="s", source="cli", started_at=0.0, last_active_at=0.0))
#: A call in flight that may cost all that is left.
FLYING = replace(
    FAR,
    in_flight=(
        Reservation(
            number=1,
            session_id="s",
            source="cli",
            holder=ME,
            made_at=AT,
            estimate=Estimate(cost=9),
        ),
    ),
)

_count = st.integers(0, 30)
_tokens = st.builds(Tokens, input=_count, output=_count, cached=_count)
_cost = st.floats(0, 30)
_sources = st.sampled_from(["cli", "web"])
_models = st.sampled_from(["m", "unpriced"])
_usage = st.builds(Usage, tokens=_tokens, cost=_cost, unpriced=_tokens | st.just(Tokens()))
_estimates = st.just(Estimate()) | st.builds(Estimate, tokens=_tokens, cost=_cost)
_shares = st.just((0.8,)) | st.lists(st.floats(0.05, 0.95), max_size=2).map(tuple)


def _budgets(kinds: list[Budget]) -> st.SearchStrategy[Budgets]:
    """One or two limits: with more of them there is seldom room below all."""
    names = st.sampled_from([each.value for each in kinds])
    limits = st.dictionaries(names, st.integers(1, 120), min_size=1, max_size=2)
    return st.builds(lambda set_, shares: Budgets(**set_, warn_shares=shares), limits, _shares)


_everything = _budgets(list(Budget))
_of_session = _budgets([each for each in Budget if each not in budget_check.DAILY])
_options = st.builds(
    GuardOptions,
    everywhere=_everything,
    by_source=st.dictionaries(_sources, _everything, max_size=1),
)
_works = st.builds(
    Work,
    guarded=st.builds(Guarded, iterations=_count, seconds=st.floats(0, 30)),
    ticked=st.just(AT),
    samples=st.lists(
        st.builds(Sample, at=st.just(80.0), messages=st.integers(0, 9)), max_size=1
    ).map(tuple),
)
_sessions = st.builds(
    Session,
    id=st.just("s"),
    source=_sources,
    started_at=st.just(0.0),
    last_active_at=st.just(0.0),
    model=_models,
    message_count=st.integers(9, 40),
    tokens=_tokens,
    cost=_cost,
    unpriced=_tokens | st.just(Tokens()),
)
_flying = st.builds(
    Reservation,
    number=st.integers(1, 9),
    session_id=st.sampled_from(["s", "another"]),
    source=_sources,
    holder=st.just(ME),
    made_at=st.just(AT),
    estimate=_estimates,
)
_standings = st.builds(
    Standing,
    session=_sessions,
    work=_works,
    in_flight=st.lists(_flying, max_size=2).map(tuple),
    day=st.lists(st.builds(DayShare, source=_sources, model=_models, usage=_usage), max_size=2).map(
        tuple
    ),
)


@settings(max_examples=200)
@given(options=_options, own=st.none() | _of_session, standing=_standings, estimate=_estimates)
@example(GuardOptions(everywhere=Budgets(tokens=10)), None, FAR, Estimate())
@example(GuardOptions(everywhere=Budgets(cost=10)), None, FLYING, Estimate(cost=5))
def test_where_there_is_room_there_is_nothing_to_say(
    options: GuardOptions, own: Budgets | None, standing: Standing, estimate: Estimate
) -> None:
    room = Headroom(options, PRICES, standing.session.source, own=own)
    if not room.suffices(standing, estimate, at=AT):
        return
    found = budget_check.measures(options, standing, PRICES, own=own, at=AT)
    assert budget_check.refusal(found, estimate) is None
    assert budget_check.unknown_cost(found) is None
    for measured in (found, budget_check.with_iteration(found)):
        assert budget_check.warnings("s", measured, ()) == budget_check.Warnings(alerts=(), told=())
    daily = [each for each in found if each.is_daily]
    told = [f"{each.budget}@0.8@{each.limit:g}@{each.source or ''}" for each in daily]
    said = budget_check.warnings("s", daily, told)
    assert not said.alerts
    assert set(said.told) <= set(told)  # nothing to write down for this day


@given(budget=st.sampled_from(list(Budget)))
def test_far_below_a_limit_there_is_room(budget: Budget) -> None:
    limit: dict[str, Any] = {budget.value: 100}
    options = GuardOptions(everywhere=Budgets(**limit))
    assert Headroom(options, PRICES, "cli").suffices(FAR, Estimate(), at=AT)


def test_a_session_of_another_source_is_looked_at_closely() -> None:
    options = GuardOptions(by_source={"web": Budgets(tokens=1)})
    assert not Headroom(options, PRICES, "web").suffices(FAR, Estimate(), at=AT)
