"""The plans of maintenance, step by step. What a dry run shows is what a run carries out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from holdfast.config import Settings
from holdfast.model.inventory import Inventory
from holdfast.model.maintenance import Step
from holdfast.model.plan import Plan
from holdfast.model.session import SessionFilter
from holdfast.policy.checkpoint_rules import CheckpointPolicy
from holdfast.policy.retention import plan
from holdfast.policy.rules import Limits, Rules
from holdfast.policy.selection import Selection
from holdfast.ports import Home, Progress
from holdfast.services.gc import plan_home_gc
from holdfast.services.prune import plan_prune
from holdfast.services.prune_checkpoints import plan_prune_checkpoints

COMMAND = "maintain"
_FOR_EVER = 1e15


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPlan:
    """The plan of one step, and the inventory that it was made from."""

    step: Step
    plan: Plan
    inventory: Inventory
    note: str = ""


def steps_of(settings: Settings, home: Home) -> tuple[Step, ...]:
    """What maintenance does in a home with these settings, in order."""
    wanted = {
        Step.PRUNE: settings.sessions.auto_prune,
        Step.UPKEEP: not settings.sessions.auto_prune,
        Step.GC: settings.sessions.auto_gc,
        Step.ARCHIVE: not settings.archive_policy().empty,
        Step.CHECKPOINTS: home.has_checkpoints(),
    }
    return tuple(step for step, is_wanted in wanted.items() if is_wanted)


def plan_step(
    step: Step, home: Home, settings: Settings, *, now: float, progress: Progress | None = None
) -> StepPlan:
    return _PLANNERS[step](home, settings, now, progress)


def _plan_prune(home: Home, settings: Settings, now: float, progress: Progress | None) -> StepPlan:
    policy = settings.policy()
    if policy.empty:
        note = "the policy has no rule and no cap, so nothing is pruned by it"
        return replace(_plan_upkeep(home, settings, now, progress), step=Step.PRUNE, note=note)
    made, inventory = plan_prune(
        home, policy, now=now, command=COMMAND, selection=Selection(), progress=progress
    )
    return StepPlan(step=Step.PRUNE, plan=made, inventory=inventory)


def _plan_upkeep(home: Home, settings: Settings, now: float, progress: Progress | None) -> StepPlan:
    """Give abandoned sessions their end, empty trash whose time is over, give space back.

    Every item stays: the policy's rules and caps are replaced by one rule that keeps them all.
    """
    everything = Limits(rules=Rules(keep_within=_FOR_EVER))
    keeping = replace(settings.policy(), everywhere=everything, by_source={})
    inventory = home.scan(now, progress)
    made = plan(keeping, inventory, now, command=COMMAND)
    return StepPlan(step=Step.UPKEEP, plan=made, inventory=inventory)


def _plan_gc(home: Home, settings: Settings, now: float, progress: Progress | None) -> StepPlan:
    rules = settings.gc_rules()
    if rules.empty:
        return _nothing(Step.GC, home, now, "both rules of gc are off")
    made, inventory = plan_home_gc(
        home,
        rules,
        settings.policy(),
        now=now,
        command=COMMAND,
        wanted=SessionFilter(),
        progress=progress,
    )
    return StepPlan(step=Step.GC, plan=made, inventory=inventory)


def _plan_archive(home: Home, settings: Settings, now: float, _: Progress | None) -> StepPlan:
    """What has been in the archive for too long goes to the trash; what is too much, at once."""
    inventory = Inventory(home=str(home.root), scanned_at=now, items=tuple(home.archive.items()))
    made = plan(settings.archive_policy(), inventory, now, command=COMMAND)
    unreached = tuple(replace(each, cap=f"{each.cap} of the archive") for each in made.shortfalls)
    return StepPlan(
        step=Step.ARCHIVE, plan=replace(made, shortfalls=unreached), inventory=inventory
    )


def checkpoint_policy(settings: Settings) -> CheckpointPolicy:
    """What maintenance does to checkpoints: without leave to prune, it only clears up."""
    policy = settings.checkpoint_policy()
    return policy if settings.checkpoints.auto_prune else policy.upkeep_only()


def _plan_checkpoints(home: Home, settings: Settings, now: float, _: Progress | None) -> StepPlan:
    made, _inventory = plan_prune_checkpoints(
        home.checkpoint_upkeep, checkpoint_policy(settings), now=now, command=COMMAND
    )
    return replace(_nothing(Step.CHECKPOINTS, home, now, ""), plan=made)


def _nothing(step: Step, home: Home, now: float, note: str) -> StepPlan:
    root = str(home.root)
    return StepPlan(
        step=step,
        plan=Plan(home=root, command=COMMAND, made_at=now, items=()),
        inventory=Inventory(home=root, scanned_at=now, items=()),
        note=note,
    )


_Planner = Callable[[Home, Settings, float, Progress | None], StepPlan]
_PLANNERS: Mapping[Step, _Planner] = {
    Step.PRUNE: _plan_prune,
    Step.UPKEEP: _plan_upkeep,
    Step.GC: _plan_gc,
    Step.ARCHIVE: _plan_archive,
    Step.CHECKPOINTS: _plan_checkpoints,
}
