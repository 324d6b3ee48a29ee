"""The errors for calls that are refused."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.errors import (
    BudgetExceededError,
    HoldfastError,
    SessionEndedError,
    UnknownCostError,
)
from holdfast.model.guard import Standing
from holdfast.policy import spending
from holdfast.policy.spending import Measure


def passed(standing: Standing, measure: Measure) -> BudgetExceededError:
    """The call would exceed a budget, which ends the session."""
    name = standing.session.id
    used = (measure.used or 0) + measure.in_flight
    flying = f", {_amount(measure.in_flight)} of that in flight" if measure.in_flight else ""
    return BudgetExceededError(
        f"Session {name} has ended: the call would pass its budget of {_amount(measure.limit)} "
        f"{measure.words} ({_amount(used)} used{flying}).",
        session_id=name,
        budget=measure.budget,
        used=used,
        limit=measure.limit,
    )


def ended(standing: Standing, found: Sequence[Measure]) -> HoldfastError:
    """The session had ended before, because of a budget or for another reason."""
    session = standing.session
    message = f"Session {session.id} has ended ({session.end_reason}); the call was not made."
    budget = spending.ended_by(session.end_reason)
    if budget is None:
        return SessionEndedError(message, hint="Reopen it before going on with it.")
    measure = next((each for each in found if each.budget is budget), None)
    return BudgetExceededError(
        message,
        session_id=session.id,
        budget=budget,
        used=0 if measure is None else (measure.used or 0) + measure.in_flight,
        limit=0 if measure is None else measure.limit,
    )


def unknown_cost(standing: Standing, measure: Measure) -> UnknownCostError:
    session = standing.session
    of = f"model {session.model}" if session.model else "sessions without a model"
    return UnknownCostError(
        f"Session {session.id} has a budget of {_amount(measure.limit)} {measure.words}, and "
        "tokens were used whose cost nobody knows; the call was not made.",
        hint=f"Set a price for {of} under [prices], or say what calls cost.",
    )


def _amount(value: float) -> str:
    return f"{spending.shown(value):,}"
