"""Advice for an agent that is stuck: after tool errors in a row (the circuit breaker), and when it
calls the same tool over and over (fixation)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from holdfast.model.guard import Advice, Level
from holdfast.policy.budgets import Thresholds
from holdfast.value import dataclass

_ERRORS = {
    Level.NUDGE: (
        "{count} tool calls in a row have failed, the last one of {tool}. Read the error before "
        "you try again, and change something."
    ),
    Level.STRONG_NUDGE: (
        "{count} tool calls in a row have failed, the last one of {tool}. What you are doing does "
        "not work. Do not repeat it: try another way, or say what you need to go on."
    ),
    Level.STOP: (
        "{count} tool calls in a row have failed, the last one of {tool}. Stop here, and tell the "
        "user what you tried and what went wrong."
    ),
}
_SAME_CALL = {
    Level.NUDGE: (
        "You have called {tool} {count} times in a row with the same arguments. The answer will "
        "not change: use it, or ask for something else."
    ),
    Level.STRONG_NUDGE: (
        "You have called {tool} {count} times in a row with the same arguments. This is "
        "going nowhere. Do not call it again with them; try another way, or say what you need."
    ),
    Level.STOP: (
        "You have called {tool} {count} times in a row with the same arguments. Stop here, and "
        "tell the user what you were looking for."
    ),
}
_SAME_TOOL = {
    Level.NUDGE: (
        "You have called {tool} {count} times in a row. Say what you have learned so far before "
        "you go on, and whether you are closer to what the user asked for."
    ),
    Level.STRONG_NUDGE: (
        "You have called {tool} {count} times in a row. Try another way, or answer with what "
        "you have."
    ),
    Level.STOP: (
        "You have called {tool} {count} times in a row. Stop here, and tell the user how far you "
        "got."
    ),
}
_TOO_DEEP = "nested too deeply to compare"


def errors_after(errors: int, *, failed: bool) -> int:
    """The number of tool errors in a row after one more result. A success resets it."""
    return errors + 1 if failed else 0


def breaker_advice(errors: int, tool: str, thresholds: Thresholds) -> Advice:
    return _strongest(errors, thresholds, _ERRORS, tool)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The tool that was called last, and how often in a row: with any arguments, and with the same
    ones."""

    tool: str = ""
    arguments: str = ""
    same_tool: int = 0
    same_call: int = 0

    def after(self, tool: str, arguments: str) -> Run:
        """The run after one more call. `arguments` is a `fingerprint`."""
        if tool != self.tool or not self.same_tool:
            return Run(tool=tool, arguments=arguments, same_tool=1, same_call=1)
        return Run(
            tool=tool,
            arguments=arguments,
            same_tool=self.same_tool + 1,
            same_call=self.same_call + 1 if arguments == self.arguments else 1,
        )


def fixation_advice(run: Run, *, same_call: Thresholds, same_tool: Thresholds) -> Advice:
    """The stronger of the two pieces of advice. If they are equally strong, the more specific one,
    about the same arguments."""
    exact = _strongest(run.same_call, same_call, _SAME_CALL, run.tool)
    loose = _strongest(run.same_tool, same_tool, _SAME_TOOL, run.tool)
    return exact if exact.level >= loose.level else loose


def fingerprint(arguments: object) -> str:
    """A short string that is equal for equal arguments: independent of the order of an object's
    fields, and of whether they come as JSON text or as values. What cannot be written as JSON is
    compared by its `repr`."""
    value = arguments
    if isinstance(arguments, str):
        try:
            value = json.loads(arguments)
        except (ValueError, RecursionError):
            value = arguments
    try:
        text = json.dumps(value, sort_keys=True, default=repr)
    except (TypeError, ValueError):  # unsortable keys, or a value that contains itself
        text = repr(value)
    except RecursionError:
        text = _TOO_DEEP
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _strongest(count: int, thresholds: Thresholds, texts: Mapping[Level, str], tool: str) -> Advice:
    """The strongest advice whose threshold was reached. It is given again as long as the count
    lasts, so that no thread can miss it."""
    for level, threshold in (
        (Level.STOP, thresholds.stop),
        (Level.STRONG_NUDGE, thresholds.strong_nudge),
        (Level.NUDGE, thresholds.nudge),
    ):
        if threshold and count >= threshold:
            return Advice(level=level, text=texts[level].format(count=count, tool=tool))
    return Advice()
