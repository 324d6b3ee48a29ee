"""Fixation: the same tool over and over, with the same arguments or with any."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from holdfast.model.guard import Advice, Level
from holdfast.policy.breaker import said
from holdfast.policy.budgets import Thresholds

_SAME_CALL = {
    Level.NUDGE: (
        "You have called {tool} {count} times in a row with the same arguments. The answer will "
        "not change: use it, or ask for something else."
    ),
    Level.STRONG_NUDGE: (
        "You have called {tool} {count} times in a row with the same arguments. This leads "
        "nowhere. Do not call it again with them; take another way, or say what you need."
    ),
    Level.STOP: (
        "You have called {tool} {count} times in a row with the same arguments. Stop here, and "
        "tell the user what you were looking for."
    ),
}
_TOO_DEEP = "nested too deep to be told apart"
_SAME_TOOL = {
    Level.NUDGE: (
        "You have called {tool} {count} times in a row. Say what you have learned so far before "
        "you go on, and whether you are closer to what the user asked for."
    ),
    Level.STRONG_NUDGE: (
        "You have called {tool} {count} times in a row. Take another way, or answer with what "
        "you have."
    ),
    Level.STOP: (
        "You have called {tool} {count} times in a row. Stop here, and tell the user how far you "
        "came."
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The last tool that was called, and how often in a row: at all, and just so."""

    tool: str = ""
    arguments: str = ""
    same_tool: int = 0
    same_call: int = 0

    def after(self, tool: str, arguments: str) -> Run:
        """With one more call. `arguments` are told apart by `fingerprint`."""
        if tool != self.tool or not self.same_tool:
            return Run(tool=tool, arguments=arguments, same_tool=1, same_call=1)
        return Run(
            tool=tool,
            arguments=arguments,
            same_tool=self.same_tool + 1,
            same_call=self.same_call + 1 if arguments == self.arguments else 1,
        )


def advice(run: Run, *, same_call: Thresholds, same_tool: Thresholds) -> Advice:
    """The stronger of the two; of equals, that of the same arguments, which says more."""
    exact = said(run.same_call, same_call, _SAME_CALL, run.tool)
    loose = said(run.same_tool, same_tool, _SAME_TOOL, run.tool)
    return exact if exact.level >= loose.level else loose


def fingerprint(arguments: object) -> str:
    """A short text that is the same for the same arguments, in whatever order an object has its
    fields, and as JSON text or as values. What is no JSON is told apart by how it looks."""
    value = arguments
    if isinstance(arguments, str):
        try:
            value = json.loads(arguments)
        except (ValueError, RecursionError):
            value = arguments
    try:
        text = json.dumps(value, sort_keys=True, default=repr)
    except (TypeError, ValueError):  # keys that cannot be sorted, or a value inside itself
        text = repr(value)
    except RecursionError:
        text = _TOO_DEEP
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
