"""Budgets, breaker and fixation for an agent that Holdfast is only connected to.

The agent's own records are the source for what its session used; here the consequences are decided.
The budgets are those of [guard]: a session of Codex has the source `codex`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.errors import COMMAND_FLAG
from holdfast.model.guard import DayShare, Estimate, Level, Standing, Work
from holdfast.model.loop import DayModels, DayNote, DayUse, Decision, Verdict
from holdfast.model.session import Session, Tokens, by_count
from holdfast.model.text import format_cost
from holdfast.model.usage import Usage
from holdfast.policy import budget_check
from holdfast.policy.budget_check import Measure, shown
from holdfast.policy.budgets import Budget
from holdfast.policy.circuit_breaker import Run, breaker_advice, fixation_advice
from holdfast.policy.loop_rules import LoopRules
from holdfast.policy.prices import Prices
from holdfast.policy.prices import cost as cost_of
from holdfast.value import dataclass, field, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopState:
    """What is remembered about a session between two hooks.

    `transcripts` are its files, and those of its subagents that hooks named; `marks` record how far
    they were read, `used` what was found in them. `forgiven` is the number of tool errors in a row
    from before the user's last prompt. `told` are notices that the user was given. `counted` are
    the latest calls: a call that is checked again because its helper was killed counts once. `lost`
    is the damaged note that this one replaces, "" if there is none.
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
    lost: str = ""

    def used_on(self, day: str) -> DayUse:
        return DayUse(
            agent=self.agent,
            session=self.session,
            project=self.project,
            by_model={model: usage for (on, model), usage in self.used.items() if on == day},
        )


#: How many calls are remembered, so that none of them counts twice.
_MOST_COUNTED = 50


def with_call(state: LoopState, call: str) -> LoopState:
    """Count one more iteration, unless the call was counted before. "" is a call without an id."""
    if call in state.counted:
        return state
    counted = (*state.counted, call)[-_MOST_COUNTED:] if call else state.counted
    return replace(state, work=state.work.with_iteration(), counted=counted)


def before_call(state: LoopState, call: str) -> LoopState:
    """The state by which a call is judged: the call itself does not count against its limit."""
    if call not in state.counted:
        return state
    guarded = state.work.guarded
    less = replace(guarded, iterations=guarded.iterations - 1)
    return replace(state, work=replace(state.work, guarded=less))


def largest(one: Usage, other: Usage) -> Usage:
    """What was used at least, by two looks at the same usage; `other` is the later one. Usage never
    decreases, whatever happens to the record."""
    later = other.tokens.total >= one.tokens.total
    return Usage(
        tokens=by_count(one.tokens, other.tokens, max),
        cost=max(one.cost, other.cost),
        unpriced=other.unpriced if later else one.unpriced,
    )


def less(usage: Usage, other: Usage) -> Usage:
    """`usage` minus `other`, never below 0."""
    return Usage(
        tokens=by_count(usage.tokens, other.tokens, _fewer),
        cost=max(0.0, usage.cost - other.cost),
        unpriced=by_count(usage.unpriced, other.unpriced, _fewer),
    )


def _fewer(count: int, other: int) -> int:
    return max(0, count - other)


def with_use(known: Sequence[DayUse], use: DayUse) -> tuple[DayUse, ...]:
    """The usage of a day, updated by a later look at everything that one session used on it. What
    is new counts for the session's current project; what it used in other projects before stays
    theirs."""
    mine = [each for each in known if (each.agent, each.session) == (use.agent, use.session)]
    models = dict(use.by_model)
    for each in mine:
        if each.project != use.project:
            for model, usage in each.by_model.items():
                models[model] = less(models.get(model, Usage()), usage)
    before = next((each for each in mine if each.project == use.project), None)
    for model, usage in before.by_model.items() if before else ():
        models[model] = largest(usage, models.get(model, Usage()))
    now = replace(use, by_model={model: each for model, each in models.items() if each != Usage()})
    if before is None:
        return (*known, now)
    return tuple(now if each is before else each for each in known)


def measured(rules: LoopRules, state: LoopState, today: Sequence[DayUse]) -> tuple[Measure, ...]:
    """How much of each budget is used."""
    shares = [
        (use, DayShare(source=use.agent, model=model, usage=usage))
        for use in today
        for model, usage in use.by_model.items()
    ]
    standing = Standing(
        session=_session(state, rules.prices),
        work=state.work,
        day=tuple(share for _, share in shares),
    )
    at = state.work.ticked or 0.0
    found = budget_check.measures(rules.options, standing, rules.prices, at=at)
    strange = _unpriced(state, rules.prices)  # a session has one model, and this may have several
    found = tuple(
        replace(each, unpriced=strange) if each.used is None and not each.is_daily else each
        for each in found
    )
    here = [share for use, share in shares if state.project and use.project == state.project]
    return (*found, *budget_check.of_day(rules.of_project, _PROJECT, here, rules.prices))


def judge(
    rules: LoopRules, state: LoopState, today: Sequence[DayUse], *, errors: int, tool: str
) -> Decision:
    """Decide whether one more tool call may run."""
    found = measured(rules, state, today)
    passed = budget_check.refusal(found, Estimate())
    if passed is not None:
        return Decision(verdict=Verdict.STOP, reason=_over(passed, rules, state.agent))
    options = rules.options
    broken = breaker_advice(max(0, errors - state.forgiven), tool, options.breaker)
    fixed = fixation_advice(state.run, same_call=options.same_call, same_tool=options.same_tool)
    advice = broken if broken.level >= fixed.level else fixed
    unknown = budget_check.unknown_cost(found)
    undecided = "" if unknown is None else _unknown(unknown)
    if advice.level is Level.STOP:  # the model is told; the run continues with another call
        return Decision(verdict=Verdict.BLOCK, reason=f"Holdfast: {advice.text}")
    new = "" if advice_key(advice.text) in state.told else advice.text
    return Decision(advice=new, undecided=undecided)


def advice_key(text: str) -> str:
    """The key under which given advice is remembered. Advice that differs only in numbers is given
    once."""
    return "advice:" + "".join(each for each in text if not each.isdigit())


#: Prefixes of what the user was told: what could not be decided, and which checkpoints are missing.
UNDECIDED, MISSED = "undecided:", "missed:"
_LONGEST_NOTE = 200


def gist(why: str) -> str:
    """The part of a reason that identifies it: without paths and numbers, which may be new each
    time."""
    words = (each for each in why.split() if not any(c == "/" or c.isdigit() for c in each))
    return " ".join(words)[:_LONGEST_NOTE]


def with_told(state: LoopState, kind: str, why: str) -> tuple[LoopState, bool]:
    """Remember what the user was told last of this kind. Returns the new state, and True if it is
    not new. A problem that was over ("") is new when it comes back."""
    note = f"{kind}{gist(why)}" if why else ""
    others = tuple(each for each in state.told if not each.startswith(kind))
    told = (*others, note) if note else others
    return replace(state, told=told), note in state.told


def with_prompt(state: LoopState, errors: int) -> LoopState:
    """The user sent a prompt: earlier errors are forgiven."""
    kept = tuple(each for each in state.told if not each.startswith("advice:"))
    return replace(state, forgiven=errors, run=Run(), told=kept, turns=state.turns + 1)


def _session(state: LoopState, prices: Prices) -> Session:
    """The session as budgets see it. Usage without a price stays unpriced."""
    tokens, unknown, cost, strange = Tokens(), Tokens(), 0.0, ""
    for (_, model), usage in state.used.items():
        tokens = tokens.plus(usage.tokens)
        each = cost_of(prices, model or None, usage)
        if each.full is None:
            strange = model
        unknown, cost = unknown.plus(each.unknown), cost + each.known
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


def _unpriced(state: LoopState, prices: Prices) -> tuple[str, ...]:
    used = state.used.items()
    strange = {m for (_, m), use in used if cost_of(prices, m or None, use).full is None}
    return tuple(sorted(strange))


#: Used as the source of a daily budget that limits a project.
_PROJECT = "project"


def words(measure: Measure) -> str:
    """`tokens per day in this project`; for a cost, whose unit is clear from the amount, `per
    day`."""
    of_project = measure.source == _PROJECT and measure.is_daily
    said = replace(measure, source=None).words if of_project else measure.words
    said = f"{said} in this project" if of_project else said
    return said.removeprefix("in cost").strip() if _is_cost(measure) else said


def in_words(found: Sequence[Measure]) -> str:
    """How much of its budgets is used, as a sentence."""
    if not found:
        return "No budget is set."
    parts = (f"{_used(each)} of {_limit(each)}" for each in found)
    return f"Used so far: {', '.join(parts)}."


def _used(measure: Measure) -> str:
    if measure.used is not None:
        return _amount(measure, measure.used)
    return f"at least {_amount(measure, measure.known)}" if measure.known else "unknown"


def _limit(measure: Measure) -> str:
    """`$20.00 per day`."""
    return f"{_amount(measure, measure.limit)} {words(measure)}".strip()


def _over(measure: Measure, rules: LoopRules, agent: str) -> str:
    home = COMMAND_FLAG.get() or ""  # the agent's own config.toml has none of this
    more = f"`holdfast {home}config set {_key(measure, rules, agent)} VALUE`"
    return (
        f"Holdfast: the budget of {_limit(measure)} is used up ({_used(measure)}), so no further "
        f"tool runs. Stop here, and tell the user. To go on, they raise the limit with {more}."
    )


#: The names of the limits in the configuration.
_KEYS = {
    Budget.TOKENS_IN: "max_tokens_in",
    Budget.TOKENS_OUT: "max_tokens_out",
    Budget.TOKENS: "max_tokens",
    Budget.COST: "max_cost",
    Budget.ITERATIONS: "max_iterations",
    Budget.WALL_SECONDS: "max_minutes",
    Budget.MESSAGES_PER_MINUTE: "max_messages_per_minute",
    Budget.DAILY_TOKENS: "daily_tokens",
    Budget.DAILY_COST: "daily_cost",
}


def _key(measure: Measure, rules: LoopRules, agent: str) -> str:
    """The configuration key of this limit."""
    name = _KEYS[measure.budget]
    if measure.source == _PROJECT and measure.is_daily:
        return f"hooks.project_{name}"
    own = rules.options.by_source.get(agent)
    usual = dict(rules.options.everywhere.limits()).get(measure.budget)
    of_source = measure.source is not None if measure.is_daily else measure.limit != usual
    return f"guard.source.{agent}.{name}" if own and of_source else f"guard.{name}"


def lost_words(rules: LoopRules, state: LoopState, today: DayNote) -> str:
    """What cannot be checked because a note was damaged; "" if nothing depends on it."""
    if state.lost and rules.bounds_session(state.agent):
        return (
            "the note of what this session used was damaged, so its budgets cannot be checked; "
            f"start another session, or remove {state.lost} to go on with what is known"
        )
    if today.lost and rules.bounds_days(state.agent):
        return (
            "the note of what was used today was damaged, so the budgets of the day cannot be "
            f"checked; remove {today.lost} to go on with what is known"
        )
    return ""


def _unknown(measure: Measure) -> str:
    of = ", ".join(each or "answers that name no model" for each in measure.unpriced)
    return f"there is a budget of {_limit(measure)}, and no price for {of}; set one under [prices]"


def _is_cost(measure: Measure) -> bool:
    return measure.budget in (Budget.COST, Budget.DAILY_COST)


def _amount(measure: Measure, value: float) -> str:
    return format_cost(value) if _is_cost(measure) else f"{shown(value):,}"
