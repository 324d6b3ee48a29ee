"""The plans of maintenance, step by step. A run carries out exactly what a dry run shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from holdfast.config.settings import Settings
from holdfast.errors import HoldfastError
from holdfast.model.item import Inventory
from holdfast.model.maintenance import Step
from holdfast.model.operation import MAINTAIN
from holdfast.model.plan import Action, Plan
from holdfast.model.session import SessionFilter
from holdfast.model.vault import VaultRefresh
from holdfast.policy.cap_use import cap_uses, with_waiting
from holdfast.policy.planner import plan, plan_upkeep
from holdfast.policy.rules import CheckpointPolicy, Files, Policy
from holdfast.ports.archive import Archive
from holdfast.ports.home import Home
from holdfast.ports.runs import Clock, Progress
from holdfast.services.budget import plan_home_budget, plan_of, weigh
from holdfast.services.plans import (
    archive_inventory,
    plan_home_endings,
    plan_home_gc,
    plan_prune_checkpoints,
    vault_inventory,
)
from holdfast.spine.settle import settle
from holdfast.value import dataclass, field, replace

COMMAND = MAINTAIN


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPlan:
    """The plan of one step, and the inventory that it was made from. `caps` is the policy whose
    caps the step has to reach. `if_archived` is the plan for when no session waits for the archive
    any more, if that makes a difference."""

    step: Step
    plan: Plan
    inventory: Inventory
    note: str = ""
    caps: Policy = field(default_factory=Policy)
    if_archived: Plan | None = None

    @property
    def over(self) -> bool:
        """True if a cap on bytes was exceeded when the plan was made."""
        return any(use.exceeded for use in cap_uses(self.caps, self.inventory) if use.in_bytes)


def steps_of(settings: Settings, home: Home) -> tuple[Step, ...]:
    """The steps of maintenance in a home with these settings, in order.

    Ending comes last, so that no run both ends a session and removes it, whatever the rules and
    caps are.
    """
    wanted = {
        Step.VAULT: has_vault(home, settings),
        Step.AUTO_ARCHIVE: settings.sessions.auto_archive,
        Step.PRUNE: settings.sessions.auto_prune,
        Step.UPKEEP: not settings.sessions.auto_prune,
        Step.FILES: not settings.files_policy().empty,
        Step.GC: settings.sessions.auto_gc,
        Step.ARCHIVE: not settings.archive_policy().empty,
        Step.CHECKPOINTS: home.has_checkpoints(),
        Step.BUDGET: settings.guardian.max_home_bytes is not None,
        Step.END: _ends_abandoned(settings, home),
    }
    return tuple(step for step, is_wanted in wanted.items() if is_wanted)


def has_vault(home: Home, settings: Settings) -> bool:
    """True if the vault needs maintenance: one that was turned off still holds its sessions."""
    vault = home.vault
    return vault is not None and (settings.vault.enabled or vault.figures().sessions > 0)


def refresh_vault(
    home: Home, *, command: str, clock: Clock, progress: Progress | None = None
) -> VaultRefresh:
    """Bring the vault up to date. Interrupted operations are settled first: the sessions that a
    killed run was removing must not look as if the agent had deleted them."""
    if home.vault is None:
        return VaultRefresh()
    with home.log.writing(command) as log:
        settle(log, home, clock=clock)
        return home.vault.refresh(progress)


def _ends_abandoned(settings: Settings, home: Home) -> bool:
    """True if abandoned sessions are ended. In another agent's home that needs an explicit setting
    in the configuration file: a chat is not dead just because its gateway is down."""
    said = home.root == home.state or settings.is_in_file("sessions", "abandoned_hours")
    return said and settings.sessions.abandoned_hours > 0


def plan_step(
    step: Step, home: Home, settings: Settings, *, now: float, progress: Progress | None = None
) -> StepPlan:
    """The plan of one step of a run, made after the steps before it are done."""
    return _PLANNERS[step](home, settings, now, progress)


def preview(
    home: Home, settings: Settings, *, now: float, progress: Progress | None = None
) -> list[StepPlan]:
    """Plan a whole run. Sessions that are due for the archive count as archived, unless archiving
    is impossible."""
    plans = [
        plan_step(step, home, settings, now=now, progress=progress)
        for step in steps_of(settings, home)
    ]
    if any(each.step is Step.AUTO_ARCHIVE and each.note for each in plans):
        return plans
    return [replace(each, plan=each.if_archived or each.plan) for each in plans]


def _plan_auto_archive(
    home: Home, settings: Settings, now: float, progress: Progress | None
) -> StepPlan:
    """Move ended sessions that were inactive for long into the archive, with their files."""
    if settings.auto_archive_policy().empty:
        return _nothing(
            Step.AUTO_ARCHIVE, home, now, "archive_after_days is 0: nothing is archived"
        )
    inventory = home.scan(now, progress)
    made = _archiving(inventory, settings, now)
    note = _why_not(home.archive) if made.removals else ""
    return StepPlan(step=Step.AUTO_ARCHIVE, plan=made, inventory=inventory, note=note)


def _why_not(archive: Archive) -> str:
    """Return why nothing can be archived, or "". A dry run reports it too, before a user relies on
    it."""
    try:
        archive.check()
    except HoldfastError as error:
        return f"nothing can be archived now. {error.message}"
    return ""


def _archiving(inventory: Inventory, settings: Settings, now: float) -> Plan:
    """Plan which sessions go to the archive. Trash is left to the next step."""
    return plan(
        settings.auto_archive_policy(),
        replace(inventory, trash=()),
        now,
        command=COMMAND,
        leaving=Action.ARCHIVE,
    )


def _without_archived(inventory: Inventory, settings: Settings, now: float) -> Inventory:
    """The inventory without the sessions that are due for the archive.

    In a run, the archiving step has already moved them, unless it failed. Then they wait for the
    next run: sessions that the user wants in the archive must not end up in the trash, nor push out
    younger sessions. They still count against the caps.
    """
    if not settings.sessions.auto_archive or settings.auto_archive_policy().empty:
        return inventory
    return _without(inventory, _archiving(inventory, settings, now))


def _without(inventory: Inventory, made: Plan) -> Inventory:
    """The inventory without the removals of a plan."""
    gone = {(item.kind, item.id) for item in made.removals}
    items = tuple(item for item in inventory.items if (item.kind, item.id) not in gone)
    return replace(inventory, items=items)


def _plan_prune(home: Home, settings: Settings, now: float, progress: Progress | None) -> StepPlan:
    policy = settings.policy()
    if policy.empty:
        why = "the policy has no rule and no cap"
        upkeep = _plan_upkeep(home, settings, now, progress, why=why)
        return replace(upkeep, step=Step.PRUNE, note=f"{why}, so nothing is pruned by it")
    inventory = home.scan(now, progress)
    left = _without_archived(inventory, settings, now)
    made = plan(policy, left, now, command=COMMAND)
    waiting = with_waiting(made, policy, inventory, left)
    return StepPlan(
        step=Step.PRUNE, plan=waiting, inventory=inventory, caps=policy, if_archived=made
    )


def _plan_upkeep(
    home: Home,
    settings: Settings,
    now: float,
    progress: Progress | None,
    why: str = "auto_prune is off",
) -> StepPlan:
    """Empty old trash and give space back. The rules and caps of the policy do not apply."""
    inventory = home.scan(now, progress)
    made = plan_upkeep(settings.policy(), inventory, now, command=COMMAND, why=why)
    return StepPlan(step=Step.UPKEEP, plan=made, inventory=inventory)


def _plan_files(home: Home, settings: Settings, now: float, progress: Progress | None) -> StepPlan:
    """Remove the files of old sessions, and old files without a session. The sessions stay."""
    inventory = home.scan(now, progress)
    left = _without_archived(inventory, settings, now)
    if settings.sessions.auto_prune and not settings.policy().empty:
        # These files go with their sessions.
        left = _without(left, plan(settings.policy(), left, now, command=COMMAND))
    left = replace(left, trash=(), space=())
    made = plan(settings.files_policy(), left, now, command=COMMAND, files=Files.ONLY)
    return StepPlan(step=Step.FILES, plan=made, inventory=inventory)


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
        left=partial(_without_archived, settings=settings, now=now),
        progress=progress,
    )
    return StepPlan(step=Step.GC, plan=made, inventory=inventory)


def _plan_archive(home: Home, settings: Settings, now: float, _: Progress | None) -> StepPlan:
    """Bundles that were in the archive for too long go to the trash. What exceeds the archive's
    caps goes for good."""
    inventory, policy = archive_inventory(home), settings.archive_policy()
    made = plan_of("the archive", policy, inventory, now)
    return StepPlan(step=Step.ARCHIVE, plan=made, inventory=inventory, caps=policy)


def _plan_budget(home: Home, settings: Settings, now: float, progress: Progress | None) -> StepPlan:
    """The budget applies after all other rules, to what they left."""
    weighed = weigh(home, settings, now=now, progress=progress)
    made = plan_home_budget(weighed, now=now)
    return StepPlan(step=Step.BUDGET, plan=made, inventory=weighed.sessions)


def _plan_vault(home: Home, settings: Settings, now: float, _: Progress | None) -> StepPlan:
    """Sessions that their agent deleted too long ago go to the trash. What exceeds the vault's cap
    goes for good. Second names are not items, because they take no space."""
    policy = settings.vault_policy()
    if policy.empty:
        return _nothing(Step.VAULT, home, now, "")
    inventory = vault_inventory(home)
    made = plan_of("the vault", policy, inventory, now)
    return StepPlan(step=Step.VAULT, plan=made, inventory=inventory, caps=policy)


def _plan_ends(home: Home, _: Settings, now: float, progress: Progress | None) -> StepPlan:
    made, inventory = plan_home_endings(home, now=now, command=COMMAND, progress=progress)
    return StepPlan(step=Step.END, plan=made, inventory=inventory)


def checkpoint_policy(settings: Settings) -> CheckpointPolicy:
    """The checkpoint policy of maintenance. Without `auto_prune` it only empties old trash."""
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
        inventory=Inventory(home=root, items=()),
        note=note,
    )


_Planner = Callable[[Home, Settings, float, Progress | None], StepPlan]
_PLANNERS: Mapping[Step, _Planner] = {
    Step.VAULT: _plan_vault,
    Step.AUTO_ARCHIVE: _plan_auto_archive,
    Step.PRUNE: _plan_prune,
    Step.UPKEEP: _plan_upkeep,
    Step.FILES: _plan_files,
    Step.GC: _plan_gc,
    Step.ARCHIVE: _plan_archive,
    Step.CHECKPOINTS: _plan_checkpoints,
    Step.BUDGET: _plan_budget,
    Step.END: _plan_ends,
}
