"""In the loop of an agent: what the agent is about to do, and what Holdfast answers.

Each agent has its own format for events and answers; `holdfast.hooks` translates. These values are
the same for all agents.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from holdfast.model.json_value import JsonValue
from holdfast.model.session import Json, Tokens
from holdfast.model.usage import Usage
from holdfast.value import dataclass, field


class Moment(StrEnum):
    """Where in its loop an agent is. `OTHER` is any event that does not matter to Holdfast."""

    PROMPT = "prompt"
    BEFORE_TOOL = "before_tool"
    OTHER = "other"


class Touches(StrEnum):
    """What a tool may change: nothing, the files that it names, or anything. An unknown tool may
    change anything."""

    NOTHING = "nothing"
    NAMED = "named"
    ANYTHING = "anything"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopEvent:
    """One event of an agent's loop. `event` is the agent's own name for it.

    `call` identifies one call of a tool. `turn` is "" if the agent does not number its turns.
    `paths` are the files that the tool names, as the agent wrote them. `subagent` is the id of the
    subagent that acts, "" for the agent itself; a subagent works for the same session.
    """

    agent: str
    event: str
    moment: Moment
    session: str
    cwd: str
    turn: str = ""
    call: str = ""
    tool: str = ""
    arguments: Json = None
    touches: Touches = Touches.NOTHING
    paths: tuple[str, ...] = ()
    transcript: str = ""
    subagent: str = ""
    model: str = ""


class Verdict(StrEnum):
    """What happens to a tool call. `STOP` asks the agent to end its run as well, if the agent
    can."""

    PASS = "pass"  # noqa: S105 - a tool passes
    BLOCK = "block"
    STOP = "stop"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The answer to an agent. `reason` is why a tool is blocked, for the model and its user.
    `advice` is for the model, `notice` for the user; neither stops the tool. `undecided` is why a
    guard could not decide; the user's settings determine what happens then."""

    verdict: Verdict = Verdict.PASS
    reason: str = ""
    advice: str = ""
    notice: str = ""
    undecided: str = ""

    @property
    def passes(self) -> bool:
        return self.verdict is Verdict.PASS


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall(JsonValue):
    """One call of a tool that Holdfast saw, and the checkpoint from before it ran. If nothing had
    changed, that is an earlier checkpoint. `missed` is why there is none, or what it lacks."""

    at: float
    turn: str
    call: str
    tool: str
    workdir: str = ""
    checkpoint: str = ""
    missed: str = ""
    subagent: str = ""


#: Usage by UTC day and model.
DayModels = Mapping[tuple[str, str], Usage]


@dataclass(frozen=True, slots=True, kw_only=True)
class Metered:
    """What a session has used so far, as recorded by the agent itself."""

    by_day: DayModels = field(default_factory=dict)

    @property
    def tokens(self) -> Tokens:
        total = Tokens()
        for usage in self.by_day.values():
            total = total.plus(usage.tokens)
        return total


@dataclass(frozen=True, slots=True, kw_only=True)
class DayUse:
    """What one session used on one UTC day in one project, by model."""

    agent: str
    session: str
    project: str
    by_model: Mapping[str, Usage]


@dataclass(frozen=True, slots=True, kw_only=True)
class DayNote:
    """What all sessions used on one UTC day, in each project. `lost` is the damaged note that this
    one replaces, if that may have contained more."""

    uses: tuple[DayUse, ...] = ()
    lost: str = ""
