"""Guards hold sessions to their budgets: before the call, for good, and with the reason."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import (
    BudgetExceededError,
    SessionEndedError,
    UnknownCostError,
    UnknownSessionError,
    UsageError,
)
from holdfast.guard.async_guard import AsyncGuard
from holdfast.model.guard import Alert, AlertKind
from holdfast.model.session import Message, Tokens
from holdfast.policy.budgets import Budgets, GuardOptions
from holdfast.policy.prices import Prices
from tests.guarding import PRICES, Bench, spend, until_refused
from tests.session_stores import BOTH, config_for
from tests.stored import usage_of

DAY = 86_400.0


@pytest.fixture(params=BOTH)
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    config_for(request.param, tmp_path / "home")
    made = Bench(tmp_path / "home")
    yield made
    made.close()


@pytest.mark.parametrize(
    ("budget", "limit", "calls"),
    [
        ("iterations", 1, 1),
        ("iterations", 7, 7),
        ("tokens", 1, 1),
        ("tokens", 30, 3),
        ("tokens", 31, 4),
        ("tokens_in", 21, 3),
        ("tokens_out", 4, 2),
        ("cost", 12.0, 1),
        ("cost", 12.5, 2),
    ],
)
def test_a_budget_ends_the_session_before_the_call_that_would_pass_it(
    bench: Bench, budget: str, limit: float, calls: int
) -> None:
    limits: dict[str, Any] = {budget: limit}
    guard = bench.fresh(**limits)
    assert until_refused(lambda: spend(guard, 8, 2)) == calls  # 8 + 2 tokens, which cost 12
    session = bench.opened[0].get(guard.session_id)
    assert session.end_reason == f"budget: {budget}"
    assert session.tokens.total == 10 * calls
    with pytest.raises(BudgetExceededError) as refused, guard.call():
        pytest.fail("nothing may slip through")
    assert (refused.value.budget, refused.value.limit) == (budget, limit)
    assert refused.value.session_id == guard.session_id
    with pytest.raises(SessionEndedError):
        bench.opened[0].append(guard.session_id, Message(role="tool", content="late"))


def test_a_limit_of_0_is_off_and_one_of_1_lets_one_call_through(bench: Bench) -> None:
    free = bench.fresh(iterations=0, tokens=0, cost=0.0)
    for _ in range(20):
        spend(free, 1_000)
    one = bench.fresh(iterations=1)
    assert until_refused(lambda: spend(one, 1)) == 1


def test_tokens_of_messages_count_and_are_counted_once(bench: Bench) -> None:
    guard = bench.fresh(tokens=100)
    sessions = bench.opened[0]
    with guard.call():
        sessions.append(guard.session_id, Message(role="assistant", tokens=Tokens(output=60)))
    with guard.call() as call:
        call.used(Tokens(input=30))
    session = sessions.get(guard.session_id)
    assert (session.tokens.input, session.tokens.output) == (30, 60)
    [measure] = guard.measures()
    assert measure.used == 90
    with pytest.raises(BudgetExceededError) as refused, guard.call(tokens=Tokens(input=11)):
        pytest.fail("90 and 11 are more than 100")
    assert refused.value.used == 90
    assert "the call would pass its budget of 100 tokens (90 used)" in str(refused.value)


def test_a_budget_that_is_used_up_is_called_so(bench: Bench) -> None:
    guard = bench.fresh(tokens=100)
    spend(guard, 104)
    with pytest.raises(BudgetExceededError) as refused, guard.call():
        pytest.fail("104 is more than 100")
    assert "its budget of 100 tokens is used up (104)." in str(refused.value)


def test_an_estimate_is_reserved_while_the_call_is_in_flight(bench: Bench) -> None:
    guard = bench.fresh(tokens=100, cost=1_000.0)
    sessions = bench.opened[0]
    with guard.call(tokens=Tokens(input=40, output=20)) as call:
        with pytest.raises(BudgetExceededError) as refused, guard.call(tokens=Tokens(input=41)):
            pytest.fail("60 in flight and 41 are more than 100")
        assert refused.value.used == 60
        sessions.reopen(guard.session_id)
        with guard.call(tokens=Tokens(input=40)):
            pass
        call.used(Tokens(input=10))
    with guard.call(tokens=Tokens(input=90)):
        pass  # what was reserved and not used is free again


def test_what_was_let_through_is_booked_even_if_the_session_ended_meanwhile(bench: Bench) -> None:
    guard = bench.fresh(iterations=1)
    sessions = bench.opened[0]
    with guard.call() as call:
        with pytest.raises(BudgetExceededError), guard.call():
            pytest.fail("one at a time")
        call.used(Tokens(input=5))
        call.used(Tokens(input=2))  # a second part of the same reply
    assert sessions.get(guard.session_id).tokens.input == 7


def test_a_reply_ends_its_call_and_what_it_used_is_counted_once(bench: Bench) -> None:
    guard = bench.fresh(tokens=100, iterations=9)
    sessions = bench.opened[0]
    with guard.call(tokens=Tokens(input=90)) as call:
        done = call.append(Message("assistant", "zebra", tokens=Tokens(input=70, output=15)))
        assert [each.in_flight for each in guard.measures()] == [0, 0], "it is over"
        call.append({"role": "tool", "content": "more of it", "tokens": {"input": 1}})
    assert (done.session.message_count, done.session.tokens.total) == (1, 85)
    session = sessions.get(guard.session_id)
    assert (session.message_count, session.tokens) == (2, Tokens(input=71, output=15))
    assert usage_of(sessions._store).ever.usage.tokens == session.tokens
    assert session.guarded is not None
    assert (session.guarded.iterations, session.guarded.booked) == (1, ())
    assert [alert.value for alert in bench.alerts] == [85], "80 of 100, told with the reply"
    with pytest.raises(BudgetExceededError), guard.call(tokens=Tokens(input=15)):
        pytest.fail("86 and 15 are more than 100")


def test_a_reply_to_a_session_that_ended_meanwhile_is_booked_and_not_stored(bench: Bench) -> None:
    guard = bench.fresh(iterations=1)
    sessions = bench.opened[0]
    reply = Message("assistant", "late", tokens=Tokens(input=5), cost=0.5)
    with guard.call() as call:
        with pytest.raises(BudgetExceededError), guard.call():
            pytest.fail("one at a time")
        with pytest.raises(SessionEndedError):
            call.append(reply)
    session = sessions.get(guard.session_id)
    assert (session.message_count, session.tokens.input, session.cost) == (0, 5, 0.5)
    assert usage_of(sessions._store).ever.usage.tokens == session.tokens
    assert [each.in_flight for each in guard.measures()] == [0]


def test_a_reply_that_cannot_be_stored_leaves_nothing_behind(bench: Bench) -> None:
    guard = bench.fresh(tokens=100)
    with pytest.raises(UsageError), guard.call(tokens=Tokens(input=90)) as call:
        call.append(Message("assistant", "zebra", tokens=Tokens(input=-1)))
    assert bench.opened[0].get(guard.session_id).message_count == 0
    with guard.call(tokens=Tokens(input=100)):
        pass  # what was reserved is free again


def test_a_reply_counts_for_the_day(bench: Bench) -> None:
    sessions = bench.open(GuardOptions(everywhere=Budgets(daily_tokens=100)))
    one, other = (sessions.create(source="cli", model="m").id for _ in "ab")
    with bench.guard(sessions, one).call() as call:
        call.append(Message("assistant", "zebra", tokens=Tokens(input=100)))
    with pytest.raises(BudgetExceededError), bench.guard(sessions, other).call():
        pytest.fail("the day is used up")
    assert [alert.value for alert in bench.alerts] == [100]


def test_a_call_that_was_refused_can_have_used_nothing(bench: Bench) -> None:
    guard = bench.fresh(iterations=1)
    spend(guard)
    refused = guard.call()
    with pytest.raises(BudgetExceededError):
        refused.__enter__()
    with pytest.raises(UsageError, match="was refused"):
        refused.used(Tokens(input=1))
    with pytest.raises(UsageError, match="was refused"):
        refused.append(Message("assistant", "zebra"))
    once = bench.fresh().call()
    with once, pytest.raises(UsageError, match="once"):
        once.__enter__()


def test_an_error_in_the_call_gives_its_reservation_back_and_counts_the_iteration(
    bench: Bench,
) -> None:
    guard = bench.fresh(tokens=100, iterations=10)
    with pytest.raises(RuntimeError, match="timeout"), guard.call(tokens=Tokens(input=100)):
        raise RuntimeError("timeout")
    with guard.call(tokens=Tokens(input=100)):
        pass
    assert [measure.used for measure in guard.measures()] == [0, 2]


def test_a_session_that_ended_for_another_reason_is_said_to_have_ended(bench: Bench) -> None:
    guard = bench.fresh(tokens=100)
    bench.opened[0].end(guard.session_id, "user_quit")
    with pytest.raises(SessionEndedError, match="user_quit"), guard.call():
        pytest.fail("it has ended")
    with pytest.raises(UnknownSessionError):
        bench.opened[0].guard("no-such-session")


def test_a_restarted_agent_goes_on_with_what_was_used(bench: Bench) -> None:
    guard = bench.fresh(iterations=3, tokens=1_000)
    spend(guard, 100)
    spend(guard, 100)
    bench.opened[0].close()
    again = bench.guard(bench.open(), guard.session_id, iterations=3, tokens=1_000)
    assert [measure.used for measure in again.measures()] == [200, 2]
    assert until_refused(lambda: spend(again, 1)) == 1
    bench.opened[1].reopen(guard.session_id)
    assert until_refused(lambda: spend(again, 1)) == 0, "reopening is no new budget"


def test_a_budget_lowered_below_what_was_used_ends_at_the_next_call(bench: Bench) -> None:
    guard = bench.fresh(tokens=1_000)
    spend(guard, 500)
    lower = bench.guard(bench.opened[0], guard.session_id, tokens=400)
    with pytest.raises(BudgetExceededError) as refused, lower.call():
        pytest.fail("500 of 400 are used")
    assert (refused.value.used, refused.value.limit) == (500, 400)
    bench.opened[0].reopen(guard.session_id)
    spend(guard, 1)  # the old budget would still have room


def test_a_source_has_limits_of_its_own_and_unknown_ones_those_of_everywhere(bench: Bench) -> None:
    sessions = bench.open(
        GuardOptions(
            everywhere=Budgets(iterations=4),
            by_source={"cron": Budgets(iterations=2), "nobody": Budgets(iterations=1)},
        )
    )
    for source, calls in (("cron", 2), ("cli", 4), ("telegram", 4)):
        guard = sessions.guard(sessions.create(source=source).id)
        assert until_refused(lambda guard=guard: spend(guard)) == calls  # type: ignore[misc]


def test_the_budget_of_a_day_is_shared_by_sessions_and_ends_at_midnight(bench: Bench) -> None:
    options = GuardOptions(
        everywhere=Budgets(daily_tokens=100),
        by_source={"cron": Budgets(daily_tokens=30)},
    )
    sessions = bench.open(options)
    cron, other, cli = (
        sessions.guard(sessions.create(source=source, model="m").id)
        for source in ("cron", "cron", "cli")
    )
    spend(cron, 20)
    spend(other, 10)
    with pytest.raises(BudgetExceededError, match="of source cron") as refused, cron.call():
        pytest.fail("30 of 30 are used by cron")
    assert refused.value.budget == "daily_tokens"
    assert sessions.get(cron.session_id).end_reason == "budget: daily_tokens"
    assert until_refused(lambda: spend(cli, 10)) == 7
    bench.pass_time(DAY / 2)
    sessions.reopen(cron.session_id)
    spend(cron, 5)


def test_calls_in_flight_in_other_sessions_count_for_the_day(bench: Bench) -> None:
    sessions = bench.open(GuardOptions(everywhere=Budgets(daily_cost=10.0)))
    first, second = (sessions.guard(sessions.create(source="cli").id) for _ in range(2))
    with first.call(cost=6.0):
        with pytest.raises(BudgetExceededError) as refused, second.call(cost=5.0):
            pytest.fail("6 are in flight")
        assert refused.value.used == 6.0


def test_the_budget_of_a_day_is_nothing_for_one_session(bench: Bench) -> None:
    with pytest.raises(UsageError, match="many sessions"):
        bench.fresh(daily_tokens=5)


def test_warnings_come_once_each_also_after_a_restart(bench: Bench) -> None:
    guard = bench.fresh(tokens=100, warn_shares=(0.5, 0.8))
    for _ in range(4):
        spend(guard, 20)
    assert [(each.kind, each.value) for each in bench.alerts] == [
        (AlertKind.NEAR_LIMIT, 60),
        (AlertKind.NEAR_LIMIT, 80),
    ]
    again = bench.guard(bench.open(), guard.session_id, tokens=100, warn_shares=(0.5, 0.8))
    spend(again, 19)
    with pytest.raises(BudgetExceededError), again.call(tokens=Tokens(input=2)):
        pytest.fail("99 are used")
    assert [(each.kind, each.value) for each in bench.alerts[2:]] == [(AlertKind.OVER_LIMIT, 99)]
    assert bench.alerts[-1].message == (
        f"session {guard.session_id} has reached its limit of 100 tokens "
        "(99; the next call would pass it)"
    )


def test_what_was_told_is_remembered_while_there_is_room_again(bench: Bench) -> None:
    guard = bench.fresh(messages_per_minute=10, warn_shares=(0.5,))
    for _ in range(3):
        with guard.call() as call:
            call.append([Message("assistant", "x") for _ in range(6)])
        bench.pass_time(120)
        spend(guard)  # nothing was said in the last minute
        bench.pass_time(120)
    assert len(bench.alerts) == 1


def test_warnings_of_a_day_come_once_for_all_sessions(bench: Bench) -> None:
    sessions = bench.open(GuardOptions(everywhere=Budgets(daily_tokens=100)))
    for _ in range(3):
        spend(sessions.guard(sessions.create(source="cli").id), 30)
    assert [each.what for each in bench.alerts] == ["tokens per day"]
    bench.pass_time(DAY)
    spend(sessions.guard(sessions.create(source="cli").id), 90)
    assert len(bench.alerts) == 2


def test_an_unknown_cost_is_never_0(bench: Bench) -> None:
    guard = bench.fresh(model="nobody-knows", cost=10.0)
    spend(guard, 5, cost=1.0)  # told
    spend(guard, 5)
    with pytest.raises(UnknownCostError, match="is unknown") as refused, guard.call():
        pytest.fail("what was spent is unknown")
    assert "[prices]" in (refused.value.hint or "")
    session = bench.opened[0].get(guard.session_id)
    assert not session.ended, "a price that is set later heals it"
    assert (session.cost, session.unpriced.input) == (1.0, 5)
    priced = bench.open(prices=Prices(by_model={"*": PRICES.by_model["m"]}))
    assert until_refused(lambda: spend(bench.guard(priced, session.id, cost=10.0), 5)) == 1


def test_another_model_has_its_own_price(bench: Bench) -> None:
    guard = bench.fresh(model="nobody-knows", cost=10.0)
    spend(guard, 4, model="m")
    [measure] = guard.measures()
    assert measure.used == 4.0
    usage = usage_of(bench.opened[0]._store)
    assert [(share.name, share.cost.usage.cost) for share in usage.by_model] == [("m", 4.0)]


@pytest.mark.parametrize(
    "tokens",
    [
        Tokens(input=-1),
        Tokens(output=-5),
        Tokens(cached=-1),
        Tokens(input=10**13),
        Tokens(input=1.5),  # type: ignore[arg-type]
        Tokens(input=True),
        Tokens(input="7"),  # type: ignore[arg-type]
    ],
)
def test_nonsense_tokens_are_refused_and_nothing_is_counted(bench: Bench, tokens: Tokens) -> None:
    guard = bench.fresh(tokens=100)
    with guard.call() as call, pytest.raises(UsageError, match="Tokens"):
        call.used(tokens)
    with pytest.raises(UsageError, match="Tokens"):
        guard.call(tokens=tokens)
    assert bench.opened[0].get(guard.session_id).tokens == Tokens()


@pytest.mark.parametrize("cost", [-0.01, float("nan"), float("inf"), -float("inf"), 1e12, True])
def test_nonsense_costs_are_refused_and_nothing_is_counted(bench: Bench, cost: float) -> None:
    guard = bench.fresh(cost=5.0)
    with guard.call() as call, pytest.raises(UsageError, match="cost"):
        call.used(Tokens(input=1), cost=cost)
    with pytest.raises(UsageError, match="cost"):
        guard.call(cost=cost)
    assert bench.opened[0].get(guard.session_id).tokens == Tokens()


@pytest.mark.parametrize(
    "nonsense",
    [
        {"tokens": -1},
        {"tokens": 1.5},
        {"tokens": True},
        {"tokens": "7"},
        {"tokens": 10**13},
        {"tokens": Tokens(output=-3)},
        {"tokens": Tokens(cached=0.5)},  # type: ignore[arg-type]
        {"cost": -1.0},
        {"cost": float("nan")},
        {"cost": float("inf")},
        {"cost": "3"},
        {"cost": True},
    ],
    ids=str,
)
def test_nonsense_in_a_message_is_refused_too(bench: Bench, nonsense: dict[str, Any]) -> None:
    guard = bench.fresh(tokens=100)
    with pytest.raises(UsageError, match="of a message must be"):
        bench.opened[0].append(guard.session_id, Message(role="assistant", **nonsense))
    session = bench.opened[0].get(guard.session_id)
    assert (session.tokens, session.cost, session.message_count) == (Tokens(), 0.0, 0)


def test_asyncio_has_the_same_guard(bench: Bench) -> None:
    guard = bench.fresh(iterations=3, tokens=100)
    later = AsyncGuard(guard)

    async def main() -> None:
        async with later.call(tokens=Tokens(input=50)) as call:
            await call.append(Message("assistant", "zebra", tokens=Tokens(input=5)))
        with pytest.raises(ValueError, match="mine"):
            async with later.call():
                raise ValueError("mine")
        assert later.tool_result("shell", failed=True).level == 0
        assert [each.used for each in await later.measures()] == [5, 2]
        entering = asyncio.create_task(later.call(tokens=Tokens(input=90)).__aenter__())
        await asyncio.sleep(0)
        entering.cancel()
        with pytest.raises(asyncio.CancelledError):
            await entering
        assert [each.in_flight for each in await later.measures()] == [0, 0]
        with pytest.raises(BudgetExceededError):
            async with later.call():
                pytest.fail("three calls were begun")

    asyncio.run(main())


def test_a_callback_for_alerts_that_fails_does_not_fail_the_call(bench: Bench) -> None:
    guard = bench.fresh(iterations=1)

    def fail(alert: Alert) -> None:
        raise ValueError(alert.message)

    bench.opened[0]._on_alert = fail
    spend(guard)
    assert until_refused(lambda: spend(guard)) == 0


def test_one_thousandth_part_of_a_cost_is_no_reason_to_refuse(bench: Bench) -> None:
    guard = bench.fresh(cost=0.3)
    for _ in range(2):
        with guard.call(cost=0.1) as call:
            call.used(cost=0.1)
    with guard.call(cost=0.1):
        pass  # 0.1 + 0.1 + 0.1 is a little more than 0.3, for a computer
