"""Budgets, breaker and fixation for an agent that Holdfast is only connected to.

The agent's own records say what its session used; here it is decided what follows. The budgets are
those of [guard]: a session of Codex has the source `codex`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from holdfast.model.guard import Advice, DayShare, Estimate, Level, Standing, Work
from holdfast.model.loop import DayModels, DayUse, Decision, Verdict
from holdfast.model.session import Session, Tokens
from holdfast.model.usage import Usage
from holdfast.policy import spending
from holdfast.policy.advice import Run, breaker_advice, fixation_advice
from holdfast.policy.budgets import Budget
from holdfast.policy.loop_rules import LoopRules
from holdfast.policy.prices import Prices
from holdfast.policy.spending import Measure, shown
from holdfast.value import dataclass, field, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopState:
    """What is remembered of a session between two hooks.

    `transcripts` are its files, and those of its subagents that hooks named; `marks` say how far
    they were read, `used` what was found in them. `forgiven` are the tool errors in a row from
    before the user spoke last. `told` are notices that the user has had. `counted` are the last
    calls: one that is asked about again, because its helper was killed, counts once.
    """

    agent: str
    session: str
    project: str = ""
    transcripts: tuple[str, ...] = ()
    turns: int = 0
    turn: str = ""
    forgiven: int = 0
    told: tuple[str, ...] = ()
    work: Work = field(default_factory=Work)
    run: Run = field(default_factory=Run)
    marks: Mapping[str, Any] = field(default_factory=dict)
    used: DayModels = field(default_factory=dict)
    counted: tuple[str, ...] = ()


#: So many calls are remembered, to count none of them twice.
_MOST_COUNTED = 50


def with_call(state: LoopState, call: str) -> LoopState:
    """With one more iteration, unless the call was counted before. "" is a call without a name."""
    if call in state.counted:
        return state
    counted = (*state.counted, call)[-_MOST_COUNTED:] if call else state.counted
    return replace(state, work=state.work.with_iteration(), counted=counted)


def before_call(state: LoopState, call: str) -> LoopState:
    """The state by which a call is judged: it does not stand in its own way."""
    if call not in state.counted:
        return state
    guarded = state.work.guarded
    less = replace(guarded, iterations=guarded.iterations - 1)
    return replace(state, work=replace(state.work, guarded=less))


def largest(one: Usage, other: Usage) -> Usage:
    """What was used at least, by two looks at the same; `other` is the later one. What was used
    once stays used, whatever becomes of the record."""
    later = other.tokens.total >= one.tokens.total
    return Usage(
        tokens=Tokens(
            input=max(one.tokens.input, other.tokens.input),
            output=max(one.tokens.output, other.tokens.output),
            cached=max(one.tokens.cached, other.tokens.cached),
        ),
        cost=max(one.cost, other.cost),
        unpriced=other.unpriced if later else one.unpriced,
    )


def grown(before: DayUse, use: DayUse) -> DayUse:
    """What a session used on a day, by a later look."""
    models = dict(before.by_model)
    for model, usage in use.by_model.items():
        models[model] = largest(models.get(model, Usage()), usage)
    return replace(use, by_model=models)


def measured(rules: LoopRules, state: LoopState, today: Sequence[DayUse]) -> tuple[Measure, ...]:
    """How much of each budget is used."""
    standing = Standing(
        session=_session(state, rules.prices),
        work=state.work,
        day=tuple(
            DayShare(source=use.agent, model=model, usage=usage)
            for use in today
            for model, usage in use.by_model.items()
        ),
    )
    at = state.work.ticked or 0.0
    found = spending.measures(rules.options, standing, rules.prices, at=at)
    return (*found, *_of_project(rules, state.project, today))


def judge(
    rules: LoopRules, state: LoopState, today: Sequence[DayUse], *, errors: int, tool: str
) -> Decision:
    """Whether one more tool may run."""
    found = measured(rules, state, today)
    passed = spending.refusal(found, Estimate())
    if passed is not None:
        return Decision(verdict=Verdict.STOP, reason=_over(passed))
    options = rules.options
    broken = breaker_advice(max(0, errors - state.forgiven), tool, options.breaker)
    fixed = fixation_advice(state.run, same_call=options.same_call, same_tool=options.same_tool)
    advice = broken if broken.level >= fixed.level else fixed
    unknown = spending.unknown_cost(found)
    undecided = "" if unknown is None else _unknown(unknown, state)
    if advice.level is Level.STOP:  # the model is told; the run goes on if it tries something else
        return Decision(verdict=Verdict.BLOCK, reason=f"Holdfast: {advice.text}")
    return Decision(advice=_new_advice(advice, state), undecided=undecided)


def advice_key(text: str) -> str:
    """What is remembered of advice that was given: each is given once, whatever it counts."""
    return "advice:" + "".join(each for each in text if not each.isdigit())


def _new_advice(advice: Advice, state: LoopState) -> str:
    return "" if advice_key(advice.text) in state.told else advice.text


#: What the user was told that could not be decided, and which checkpoints are missing.
UNDECIDED, MISSED = "undecided:", "missed:"
_LONGEST_NOTE = 200


def gist(why: str) -> str:
    """What makes a reason another one: not a path or a number, which may be new each time."""
    words = (each for each in why.split() if not any(c == "/" or c.isdigit() for c in each))
    return " ".join(words)[:_LONGEST_NOTE]


def with_told(state: LoopState, kind: str, why: str) -> tuple[LoopState, bool]:
    """The state that knows what the user was told of this kind last, and whether that is no news.
    What is over ("") is news when it comes back."""
    note = f"{kind}{gist(why)}" if why else ""
    others = tuple(each for each in state.told if not each.startswith(kind))
    told = (*others, note) if note else others
    return replace(state, told=told), note in state.told


def with_prompt(state: LoopState, errors: int) -> LoopState:
    """The user spoke: what went wrong before is forgiven."""
    kept = tuple(each for each in state.told if not each.startswith("advice:"))
    return replace(state, forgiven=errors, run=Run(), told=kept, turns=state.turns + 1)


def _session(state: LoopState, prices: Prices) -> Session:
    """The session as budgets see it. What has no price stays without one."""
    tokens, unknown, cost, strange = Tokens(), Tokens(), 0.0, ""
    for (_, model), usage in state.used.items():
        tokens = tokens.plus(usage.tokens)
        whole = prices.cost_of_usage(model or None, usage)
        if whole is None:
            unknown, strange = unknown.plus(usage.unpriced), model
        cost += usage.cost if whole is None else whole
    return Session(
        id=state.session,
        source=state.agent,
        started_at=0.0,
        last_active_at=0.0,
        model=strange or None,
        tokens=tokens,
        cost=cost,
        unpriced=unknown,
    )


def _of_project(rules: LoopRules, project: str, today: Iterable[DayUse]) -> Iterable[Measure]:
    shares = [
        (model, usage)
        for use in today
        if project and use.project == project
        for model, usage in use.by_model.items()
    ]
    if rules.project_daily_tokens:
        used = sum(usage.tokens.total for _, usage in shares)
        yield _in_project(Budget.DAILY_TOKENS, used, rules.project_daily_tokens)
    if rules.project_daily_cost:
        cost = _cost(shares, rules.prices)
        yield _in_project(Budget.DAILY_COST, cost, rules.project_daily_cost)


def _cost(shares: Iterable[tuple[str, Usage]], prices: Prices) -> float | None:
    total = 0.0
    for model, usage in shares:
        cost = prices.cost_of_usage(model or None, usage)
        if cost is None:
            return None
        total += cost
    return total


_PROJECT = "project"


def _in_project(budget: Budget, used: float | None, limit: float) -> Measure:
    return Measure(budget=budget, used=used, limit=limit, source=_PROJECT)


def words(measure: Measure) -> str:
    """`tokens per day in this project`."""
    if measure.source == _PROJECT and measure.is_daily:
        return f"{replace(measure, source=None).words} in this project"
    return measure.words


def in_words(found: Sequence[Measure]) -> str:
    """How much of its budgets is used, for a person."""
    if not found:
        return "No budget is set."
    parts = (
        f"{'unknown' if each.used is None else _amount(each.used)} of {_amount(each.limit)} "
        f"{words(each)}"
        for each in found
    )
    return f"Used so far: {', '.join(parts)}."


def _over(measure: Measure) -> str:
    limit, used = _amount(measure.limit), _amount(measure.used or 0)
    return (
        f"Holdfast: the budget of {limit} {words(measure)} is used up ({used}), so no further tool "
        "runs. Stop here, and tell the user. To go on, they raise the limit in config.toml."
    )


def _unknown(measure: Measure, state: LoopState) -> str:
    models = sorted({model for (_, model), use in state.used.items() if use.unpriced.any})
    of = ", ".join(filter(None, models)) or "this model"
    return (
        f"there is a budget of {_amount(measure.limit)} {words(measure)}, and no price for {of}; "
        "set one under [prices]"
    )


def _amount(value: float) -> str:
    return f"{shown(value):,}"
