"""Holdfast's entries in the settings of agents: plan, write, remove and inspect them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from holdfast.api.place import Place, is_home
from holdfast.api.plan import HomePlan, HomeReport
from holdfast.connect import EVENTS
from holdfast.connect.settings_entries import (
    PROJECT,
    USER,
    Setup,
    Wired,
    leads_to,
    plan_connect,
    plan_disconnect,
    settings_file,
    wired,
)
from holdfast.connect.switched_off import distrusted, switched_off
from holdfast.errors import UsageError, in_voice
from holdfast.model.argument_checks import checked
from holdfast.model.arguments import text
from holdfast.model.item import SETTING
from holdfast.model.plan import Action, Plan, PlanItem
from holdfast.model.rewrite import Rewrite
from holdfast.ports.runs import Progress
from holdfast.spine.settle import settle_if_needed
from holdfast.value import dataclass, field, replace

SCOPES = (USER, PROJECT)
_OTHER_NAMES = {"claude": "claude-code"}
_NAMES = ", ".join(EVENTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """Holdfast's entries in the settings of an agent, for the user or for a project.

    `events` is empty if there are none. `off` is why the agent would not start them, `problem` why
    the file cannot be read. `home` is the home in which they keep checkpoints. With `fails_closed`
    no tool runs while Holdfast cannot be started.
    """

    agent: str
    scope: str
    path: Path
    events: Sequence[str]
    off: str = ""
    problem: str = ""
    home: Path | None = None
    fails_closed: bool = False

    @property
    def connected(self) -> bool:
        return bool(self.events)


@checked
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ConnectPlan:
    """The files that connecting or disconnecting would write. Nothing is created before `apply`,
    not even the home. `word` is "connected" or "disconnected". `links` has the target of each file
    that is a link."""

    agent: str
    word: str
    place: Place = field(repr=False)
    plan: Plan
    rewrites: Sequence[Rewrite]
    links: Mapping[str, str]

    def apply(self, *, progress: Progress | None = None) -> HomeReport:
        """Write exactly this plan, as an operation of the home that undo can reverse. Files that
        changed since the plan was made are skipped and reported."""
        self.place.create_own()
        home = self.place.home
        plan = replace(self.plan, home=str(home.root))
        return HomePlan(place=self.place, home=home, plan=plan).apply(progress=progress)

    def settle(self) -> Sequence[str]:
        """Remove what a killed run left next to the settings, and settle its operation, as every
        change of the home does first. Return the numbers of the settled operations."""
        if not is_home(self.place.root):
            return ()
        return tuple(settle_if_needed(self.place.home, clock=self.place.clock))


def setup_of(place: Place, agent: str, scope: str, where: Setup) -> Setup:
    """Check `agent` and `scope`, and return `where` with them and the failure mode of the home."""
    agent = text(agent, "An agent")
    named = _OTHER_NAMES.get(agent, agent)
    if named not in EVENTS:
        raise UsageError(f"Holdfast cannot connect to {agent!r}, only to {_NAMES}.")
    if scope not in SCOPES:
        raise UsageError(f'scope must be "user" or "project", not {scope!r}.')
    if scope == PROJECT and not where.project.is_dir():
        raise UsageError(f"There is no project at {where.project}.")
    fails_closed = place.settings.loop_rules().blocks_on_failure
    return replace(where, agent=named, scope=scope, fails_closed=fails_closed)


def connecting(place: Place, setup: Setup) -> ConnectPlan:
    return _plan(place, setup, plan_connect(setup), "connect")


def disconnecting(place: Place, setup: Setup) -> ConnectPlan:
    return _plan(place, setup, plan_disconnect(setup, _done(place)), "disconnect")


def _done(place: Place) -> Sequence[Rewrite]:
    """The rewrites of agents' settings that are in effect: undo could still reverse them."""
    if not is_home(place.root):
        return ()
    items = [each.removal.item for each in place.home.log.read().changed]
    rewritten = [each for each in items if each.action is Action.REWRITE]
    return [Rewrite.of(each.id, each.version, each.target) for each in rewritten]


def _plan(place: Place, setup: Setup, rewrites: Sequence[Rewrite], name: str) -> ConnectPlan:
    changes = [each for each in rewrites if not each.nothing]
    now = place.clock()
    items = [
        PlanItem(
            kind=SETTING,
            id=each.path,
            source=setup.agent,
            bytes=0,
            last_active_at=now,
            version=each.before,
            action=Action.REWRITE,
            reason=f"{name}ed: {setup.agent}, {setup.scope}",
            undoable=True,
            target=each.target(),
        )
        for each in changes
    ]
    command = place.command(name)
    links = {each.path: leads_to(setup, Path(each.path)) for each in changes}
    return ConnectPlan(
        agent=setup.agent,
        word=f"{name}ed",
        place=place,
        plan=Plan(home=str(setup.home), command=command, made_at=now, items=tuple(items)),
        rewrites=changes,
        links={path: link for path, link in links.items() if link},
    )


def connections(place: Place, where: Setup) -> Sequence[Connection]:
    """Inspect every agent in both scopes. In the home directory both scopes may use the same file,
    which then counts as the user's."""
    setups = [setup_of(place, agent, scope, where) for agent in EVENTS for scope in SCOPES]
    by_file = {(each.agent, settings_file(each)): each for each in reversed(setups)}
    return [_looked_at(each) for each in reversed(by_file.values())]


def _looked_at(setup: Setup) -> Connection:
    seen = wired(setup)
    return Connection(
        agent=seen.agent,
        scope=seen.scope,
        path=seen.path,
        events=sorted(seen.commands),
        off=_why_off(setup, seen) if seen.installed else "",
        problem=seen.problem,
        home=seen.home,
        fails_closed=seen.fails_closed,
    )


def _why_off(setup: Setup, seen: Wired) -> str:
    off = switched_off(setup, seen)
    if not off and seen.agent == "codex":
        why = distrusted(setup)
        scope = "" if seen.scope == USER else " with --scope project"
        off = why and in_voice(f"{why}; `holdfast connect codex`{scope} puts that right")
    return off
