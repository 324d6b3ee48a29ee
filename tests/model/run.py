"""One sequence under way: its world, its model, its configuration, and what steps share.

A step gets three numbers of chance and turns them into a choice among what is there, so that any
part of a sequence is a sequence again. It acts, and returns what it may have done; None when there
was nothing to do it to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tests.model.faults import Fault
from tests.model.judge import Step
from tests.model.kept import AGENT, DEAD, GONE, Model, Session
from tests.model.world import Said, World

HOUR, DAY = 3_600.0, 86_400.0
SOURCES = ("cli", "cron", "telegram", "subagent")
#: A session of at most so many messages is trivial.
TRIVIAL = 5
Thing = TypeVar("Thing")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the configuration of the home says."""

    on_reset: str = "archive"
    transcripts: bool = True
    auto_prune: bool = False
    auto_gc: bool = False
    remove_delivered: bool = False
    max_snapshots: int = 20
    trash_days: int = 7

    def toml(self) -> str:
        return "\n".join(
            (
                f"trash_days = {self.trash_days}",
                "[sessions]",
                f'on_reset = "{self.on_reset}"',
                f"auto_prune = {str(self.auto_prune).lower()}",
                f"auto_gc = {str(self.auto_gc).lower()}",
                "[transcripts]",
                f'default = "{"jsonl" if self.transcripts else "none"}"',
                "[cron]",
                f'after_delivery = "{"remove" if self.remove_delivered else "keep"}"',
                "[checkpoints]",
                f"max_snapshots = {self.max_snapshots}",
                "",
            )
        )


@dataclass(slots=True)
class Run:
    """One sequence under way."""

    world: World
    model: Model
    options: Options
    fault: Fault | None = None
    told: list[str] = field(default_factory=list)

    @property
    def now(self) -> float:
        return self.world.now

    def command(self, *args: str, codes: Sequence[int] = (0,)) -> Said:
        """Run it. Without a fault it must end with one of the codes."""
        said = self.world.holdfast(*args, fault=self.fault)
        self.told.append(f"holdfast {' '.join(args)} -> {said.code}")
        if self.fault is None:
            assert said.code in codes, f"{' '.join(args)} ended with {said.code}: {said.err}"
        return said

    def ask(self, name: str, *args: Any, **kwargs: Any) -> Any:
        answer = self.world.call(name, *args, fault=self.fault, **kwargs)
        self.told.append(f"agent {name} {args} {kwargs} -> {answer}")
        if self.world.agent is None:
            agent_gone(self.model, DEAD)
        return answer


def pick(things: Sequence[Thing], number: int) -> Thing | None:
    return things[number % len(things)] if things else None


def agent_gone(model: Model, how: str) -> None:
    for each in model.sessions:
        if each.holder == AGENT:
            each.holder = how


def a_session(name: str, source: str, now: float, **line: Any) -> Session:
    made: dict[str, Any] = {
        "id": name,
        "source": source,
        "relation": None,
        "title": None,
        "cwd": None,
        "model": None,
        "started_at": now,
        "ended_at": None,
        "end_reason": None,
        "messages": [],
    }
    return Session(id=name, line=made | line, row=totals([]) | {"pinned": False}, place=GONE)


def totals(messages: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """What the list must say of a session with these messages."""
    said = list(messages)
    mine = [each.get("tokens") or 0 for each in said if each["role"] == "assistant"]
    others = [each.get("tokens") or 0 for each in said if each["role"] != "assistant"]
    return {
        "message_count": len(said),
        "tokens_in": sum(others),
        "tokens_out": sum(mine),
        "tokens_cached": 0,
        "cost": 0.0,
    }


#: How often a step comes, beside the others, and what it does.
Steps = dict[str, tuple[int, Callable[[Run, int, int, int], Step | None]]]
