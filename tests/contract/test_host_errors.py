"""Whatever a host hands in or does, only what the docs name comes out."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast import AgentSessions, Budgets, HoldfastError, Message, Tokens
from holdfast.api.capture import open_recorder
from holdfast.api.sessions import open_sessions
from holdfast.errors import UsageError
from holdfast.homes.registry import open_home
from holdfast.model.maintenance import MaintenanceResult, Step
from holdfast.policy.planner import plan
from holdfast.policy.prices import Price
from holdfast.policy.rules import Caps, Policy, Rules
from holdfast.spine.apply import apply
from tests.contract.maintained import DAY, a_home, ids, step
from tests.stored import check_whole

WRONG: tuple[Any, ...] = (
    None,
    5,
    -1,
    1.5,
    float("nan"),
    float("inf"),
    True,
    "",
    "x\0y",
    "\udc80",
    "../../x",
    b"x",
    [],
    {},
    object(),
    ["a", 5],
    10**30,
    (),
)


@dataclass(frozen=True, slots=True)
class Host:
    """A host with a home, a session in it, and something to remove."""

    root: Path
    sessions: AgentSessions

    @property
    def guard(self) -> holdfast.Guard:
        return self.sessions.guard("mine")

    def used(self, *args: Any, **named: Any) -> None:
        with self.guard.call() as call:
            call.used(*args, **named)

    def at_home(self, call: Callable[[holdfast.Home], Any]) -> Any:
        with holdfast.open(self.root) as home:
            return call(home)

    def said(self, **fields: Any) -> None:
        self.sessions.append("mine", Message(**{"role": "user", "content": "x", **fields}))


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    root = a_home(tmp_path / "home", sessions=2)
    with open_sessions(root) as sessions:
        sessions.create(source="cli", id="mine")
        yield Host(root, sessions)


Call = Callable[[Host, Any], object]
CALLS: dict[str, Call] = {
    "guard.call(tokens)": lambda host, it: host.guard.call(tokens=it).__enter__(),
    "guard.call(tokens.input)": lambda host, it: host.guard.call(tokens=Tokens(input=it)),
    "guard.call(cost)": lambda host, it: host.guard.call(cost=it).__enter__(),
    "call.used": lambda host, it: host.used(it),
    "call.used(cost)": lambda host, it: host.used(Tokens(input=1), cost=it),
    "call.used(model)": lambda host, it: host.used(Tokens(input=1), model=it),
    "tool_result": lambda host, it: host.guard.tool_result(it, failed=True),
    "tool_result(arguments)": lambda host, it: host.guard.tool_result("t", it, failed=True),
    "tool_result(failed)": lambda host, it: host.guard.tool_result("t", failed=it),
    "guard": lambda host, it: host.sessions.guard(it),
    "guard(budgets)": lambda host, it: host.sessions.guard("mine", budgets=it),
    "Budgets(tokens)": lambda host, it: host.sessions.guard("mine", budgets=Budgets(tokens=it)),
    "Budgets(warn_shares)": lambda _, it: Budgets(warn_shares=it),
    "AsyncGuard": lambda _, it: holdfast.AsyncGuard(it),
    "create(source)": lambda host, it: host.sessions.create(source=it),
    "create(id)": lambda host, it: host.sessions.create(source="cli", id=it),
    "create(job)": lambda host, it: host.sessions.create(source="cron", job=it),
    "create(title)": lambda host, it: host.sessions.create(source="cli", title=it),
    "create(cwd)": lambda host, it: host.sessions.create(source="cli", cwd=it),
    "create(model)": lambda host, it: host.sessions.create(source="cli", model=it),
    "create(parent)": lambda host, it: host.sessions.create(
        source="cli", parent_id=it, relation="branch"
    ),
    "create(relation)": lambda host, it: host.sessions.create(
        source="cli", parent_id="mine", relation=it
    ),
    "create(extra)": lambda host, it: host.sessions.create(source="cli", extra=it),
    "append": lambda host, it: host.sessions.append(it, Message(role="user", content="x")),
    "append(message)": lambda host, it: host.sessions.append("mine", it),
    **{
        f"Message({field})": lambda host, it, field=field: host.said(**{field: it})  # type: ignore[misc]
        for field in ("content", "tokens", "cost", "timestamp", "tool_calls", "reasoning", "extra")
    },
    "end": lambda host, it: host.sessions.end(it),
    "end(reason)": lambda host, it: host.sessions.end("mine", it),
    "reopen": lambda host, it: host.sessions.reopen(it),
    "rename": lambda host, it: host.sessions.rename("mine", it),
    "pin": lambda host, it: host.sessions.pin(it),
    "get": lambda host, it: host.sessions.get(it),
    "messages": lambda host, it: list(host.sessions.messages(it)),
    "messages(after)": lambda host, it: list(host.sessions.messages("mine", after=it)),
    "find": lambda host, it: host.sessions.find(it),
    "find(limit)": lambda host, it: host.sessions.find(limit=it),
    "find(offset)": lambda host, it: host.sessions.find(offset=it),
    "search": lambda host, it: host.sessions.search(it),
    "search(limit)": lambda host, it: host.sessions.search("x", limit=it),
    "current": lambda host, it: host.sessions.current(it, source="cli"),
    "reset": lambda host, it: host.sessions.reset(it),
    "delivered": lambda host, it: host.sessions.delivered(it),
    # A text would be a path, and a home would be made there.
    "open_sessions": lambda _, it: isinstance(it, str) or open_sessions(it),
    "open_recorder": lambda _, it: isinstance(it, str) or open_recorder(it),
    "open": lambda _, it: holdfast.open(it),
    "open(create)": lambda _, it: isinstance(it, str) or holdfast.open(it, create=True),
    "AsyncSessions": lambda _, it: holdfast.AsyncSessions(it),
    "open_home": lambda _, it: open_home(it, clock=time.time),
    **{
        name: lambda host, it, call=call: host.at_home(lambda home: call(home, it))  # type: ignore[misc]
        for name, call in {
            "home.delete": lambda home, it: home.delete(it),
            "home.gc(source)": lambda home, it: home.gc(source=it),
            "home.gc(hours)": lambda home, it: home.gc(empty_hours=it),
            "home.gc(messages)": lambda home, it: home.gc(trivial_max=it),
            "home.plan_prune(age)": lambda home, it: home.plan_prune(older_than=it),
            "home.plan_prune(files)": lambda home, it: home.plan_prune(files=it),
            "home.plan_prune(size)": lambda home, it: home.plan_prune(max_total_size=it),
            "home.plan_prune(count)": lambda home, it: home.plan_prune(keep_last=it),
            "home.plan_prune(wanted)": lambda home, it: home.plan_prune(wanted=it),
            "home.plan_policy": lambda home, it: home.plan_policy(it),
            "home.checkpoints.prune(age)": lambda home, it: home.checkpoints.prune(older_than=it),
            "home.checkpoints.prune(size)": lambda home, it: home.checkpoints.prune(
                max_total_size=it
            ),
            "home.checkpoints.take": lambda home, it: home.checkpoints.take(it),
            "home.checkpoints.get": lambda home, it: home.checkpoints.get(it),
            "home.checkpoints.restore": lambda home, it: home.checkpoints.restore(it),
            "home.checkpoints.list": lambda home, it: home.checkpoints.list(it),
            "home.archive_sessions": lambda home, it: home.archive_sessions(it),
            "home.restore_sessions": lambda home, it: home.restore_sessions(it),
            "home.archive.get": lambda home, it: home.archive.get(it),
            "home.trash.empty": lambda home, it: home.trash.plan_empty(it),
            "home.resolve": lambda home, it: home.resolve(it),
            "home.undo": lambda home, it: home.undo(it),
            "home.maintain(early)": lambda home, it: home.maintain(early=it),
        }.items()
    },
    "plan(policy)": lambda host, it: plan(
        it, open_home(host.root, clock=time.time).scan(0.0), 0.0, command="x"
    ),
    "plan(inventory)": lambda _, it: plan(Policy(), it, 0.0, command="x"),
    "Rules": lambda _, it: Rules(max_age=it),
    "Caps": lambda _, it: Caps(max_bytes=it),
    "Price": lambda _, it: Price(input=it, output=1),
    "before_change": lambda host, it: open_recorder(host.root, enabled=True).before_change(it),
    "apply(plan)": lambda host, it: apply(
        it, open_home(host.root, clock=time.time), clock=time.time
    ),
    "apply(home)": lambda host, it: apply(
        host.at_home(lambda home: home.plan_prune().plan), it, clock=time.time
    ),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_wrong_call_raises_what_the_docs_name(host: Host, call: Call) -> None:
    for wrong in WRONG:
        with contextlib.suppress(HoldfastError):
            call(host, wrong)
    with contextlib.suppress(HoldfastError):
        host.sessions.reopen("mine")
    host.said(content="the store still works")
    check_whole(host.root)


@pytest.mark.parametrize("tokens", [5, (1, 2), "many"])
def test_tokens_of_a_call_say_how_to_write_them(host: Host, tokens: Any) -> None:
    for guard in (host.guard, holdfast.AsyncGuard(host.guard)):
        with pytest.raises(UsageError, match=r"Tokens\(input=…, output=…\)"):
            guard.call(tokens=tokens)
    assert host.sessions.get("mine").guarded is None, "nothing was counted"


# --- Maintenance never raises ---------------------------------------------------------------------


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, logger="holdfast")


def names(values: Iterable[object]) -> list[str]:
    """The same in every process that collects: an object has an address in its `repr`."""
    return [f"{place} {type(each).__name__}" for place, each in enumerate(values)]


@pytest.mark.parametrize("home", WRONG, ids=names(WRONG))
def test_a_home_that_is_none_comes_back_as_a_result(home: Any) -> None:
    result = holdfast.maintain(home)
    assert (result.ran, result.ok) == (False, False)
    assert result.error


NO_TIME = [each for each in WRONG if each is True or (not isinstance(each, int) and each != 1.5)]


@pytest.mark.parametrize("told", NO_TIME, ids=names(NO_TIME))
def test_a_clock_that_tells_no_time_comes_back_as_a_result(tmp_path: Path, told: Any) -> None:
    result = holdfast.maintain(a_home(tmp_path / "home"), clock=lambda: told)
    assert not result.ran
    assert "clock" in (result.error or "")


class Failing:
    """A clock that works so many times; a progress that fails when it is first told of anything."""

    def __init__(self, works: int = 0) -> None:
        self._left = works

    def __call__(self) -> float:
        self._left -= 1
        if self._left < 0:
            raise ZeroDivisionError("the host's own bug")
        return time.time()

    def step(self, label: str, done: int, total: int | None) -> None:
        raise ZeroDivisionError("the host's own bug")

    def stop_requested(self) -> bool:
        raise ZeroDivisionError("the host's own bug")


def test_a_clock_that_fails_at_any_call_raises_nothing(tmp_path: Path) -> None:
    root = a_home(tmp_path / "home", "[sessions]\nauto_prune = true\nauto_gc = true\n", sessions=3)
    runs = (holdfast.maintain(root, clock=Failing(works), force=True) for works in range(200))
    failed = list(itertools.takewhile(lambda result: not result.ok, runs))
    assert 0 < len(failed) < 200, "it never came to an end"
    assert all("ZeroDivisionError" in " ".join(result.errors) for result in failed)
    assert ids(root) == set()
    check_whole(root)


def test_a_progress_that_fails_costs_itself(tmp_path: Path) -> None:
    root = a_home(tmp_path / "home", "[sessions]\nauto_prune = true\n", sessions=3)
    result = holdfast.maintain(root, progress=Failing())
    assert ids(root) == set(), "the work is done all the same"
    assert step(result, Step.PRUNE).error is None
    assert step(result, Step.PROGRESS).error == "ZeroDivisionError: the host's own bug"
    assert not result.ok
    home = open_home(root, clock=time.time)
    assert all(operation.finished_at for operation in home.log.read().operations)
    assert holdfast.maintain(root).skipped is not None, "and is not tried again in an hour"


@pytest.mark.parametrize("wrong", ["clock", "home"])
def test_a_background_task_outlives_what_is_wrong(tmp_path: Path, wrong: str) -> None:
    home: Any = None if wrong == "home" else a_home(tmp_path / "home")
    clock = Failing() if wrong == "clock" else time.time

    async def host() -> MaintenanceResult:
        results: asyncio.Queue[MaintenanceResult] = asyncio.Queue()
        task = asyncio.create_task(
            holdfast.maintain_in_background(home, clock=clock, on_result=results.put_nowait)
        )
        result = await results.get()
        await asyncio.sleep(0)
        assert not task.done()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        return result

    expected = {"clock": "ZeroDivisionError", "home": "not None"}
    assert expected[wrong] in (asyncio.run(host()).error or "")


def test_the_interval_holds_with_a_whole_number_as_time(tmp_path: Path) -> None:
    root = a_home(tmp_path / "home")
    now = int(time.time())
    assert holdfast.maintain(root, clock=lambda: now).ran
    assert not holdfast.maintain(root, clock=lambda: now + 10).ran
    assert holdfast.maintain(root, clock=lambda: now + DAY).ran
