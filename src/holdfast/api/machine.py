"""All homes of a machine as one.

Reading opens homes and changes nothing. A home that cannot be read is reported and does not affect
the others. Changes are methods of one `Home`: `machine.open(home)` returns it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from holdfast.api.agent_home import (
    AgentHome,
    HomeRef,
    Looked,
    UnreadHome,
    agent_home,
    check_agents,
    homes_in_projects,
    latest_folders,
)
from holdfast.api.disks import in_order_of_room
from holdfast.api.machine_agents import MachineAgents
from holdfast.api.machine_limits import MachineLimits
from holdfast.api.machine_sessions import MachineSessions
from holdfast.api.place import warn_of_unknown
from holdfast.homes.foreign.shared_scan import one_look
from holdfast.model.argument_checks import called, checked, made_by
from holdfast.model.arguments import named_place
from holdfast.model.session import texts_of
from holdfast.value import dataclass

if TYPE_CHECKING:  # a list of sessions loads as little as it can
    from holdfast.api.arguments import OperationRef
    from holdfast.api.home import Home
    from holdfast.api.overview import MachineOverview
    from holdfast.api.plan import HomePlan
    from holdfast.api.plans_across_homes import (
        DoneInHome,
        MachinePlan,
        OperationOfRun,
        UndoOrRedo,
    )
    from holdfast.api.undo_across_homes import RunAcrossHomes
    from holdfast.api.values import HomeStats, HomeStatus
    from holdfast.model.arguments import StrPath
    from holdfast.model.figures import Growth, HomeFigures
    from holdfast.model.operation import LogView
    from holdfast.model.usage import CostTotals
    from holdfast.model.vault import VaultStatus
    from holdfast.ports.runs import Clock, Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineStatus:
    """The status of each home that can be read, and the homes that cannot. `in_projects` are homes
    inside projects in which agents worked, and which are not among the machine's homes: they can be
    listed in the configuration. `growth` is that of all homes together."""

    seen: Sequence[tuple[AgentHome, HomeStatus]]
    unread: Sequence[UnreadHome]
    growth: Growth
    in_projects: Sequence[AgentHome] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineGrowth:
    """How each home grew by its recorded figures, and all of them together."""

    seen: Sequence[tuple[AgentHome, Growth]]
    together: Growth
    unread: Sequence[UnreadHome]


@made_by("`holdfast.machine()`")
@called("machine")
@checked
class Machine(MachineSessions, MachineAgents, MachineLimits):
    """The homes of one user. `holdfast.machine` finds them; use it with `with`, or `close` it."""

    # --- Work in several homes --------------------------------------------------------------------

    def to_undo(self) -> RunAcrossHomes:
        """The operations of the latest run over several homes, to undo it in each of them; without
        such a run, the latest operation of each home. What agents did on their own is left out."""
        from holdfast.api.undo_across_homes import to_undo  # noqa: PLC0415 - no list needs it

        return to_undo(self)

    def to_redo(self) -> RunAcrossHomes:
        """The same for redo: what the latest undo over several homes undid."""
        from holdfast.api.undo_across_homes import to_redo  # noqa: PLC0415 - no list needs it

        return to_redo(self)

    def plan(
        self,
        make: Callable[[Home], HomePlan],
        *,
        homes: HomeRef | Collection[HomeRef] | None = None,
    ) -> MachinePlan[HomePlan]:
        """A plan for each home, such as `machine.plan(lambda home: home.plan_prune())`, to apply
        together. A home that cannot be read does not prevent the others; one whose policy is empty
        is skipped, unless all are empty. With `homes` only those, and any error is raised.
        """
        from holdfast.api.plans_across_homes import plan_in  # noqa: PLC0415 - no list needs it

        return plan_in(self, make, None if homes is None else self._chosen(homes))

    def in_order_of_room(self, plan: Callable[[AgentHome], HomePlan]) -> Sequence[AgentHome]:
        """The homes in the order in which such plans fit on the disk: when a disk is nearly full,
        the log of a home that frees little must not use up the space that one that frees much
        needs for its own log."""
        return in_order_of_room(self.homes, plan)

    def logs(self) -> Looked[LogView]:
        """The log of each home."""
        from holdfast.api.trash import Log  # noqa: PLC0415 - as above

        return self.look(lambda place: Log(place).read())

    def operations_of_run(self, run: str) -> Sequence[OperationOfRun]:
        """What one run did in each home. `run` is the name that its operations share."""
        from holdfast.api.plans_across_homes import operations_of_run  # noqa: PLC0415 - as above

        return operations_of_run(self, run)

    def plan_run(self, run: str, verb: str) -> MachinePlan[UndoOrRedo]:
        """Plan the "undo", or the "redo", of everything that one run did in several homes.
        Operations that cannot be undone or redone are left out."""
        from holdfast.api.plans_across_homes import plan_run  # noqa: PLC0415 - as above

        return plan_run(self, run, verb)

    def undo_each(
        self,
        operations: Iterable[tuple[AgentHome, OperationRef]],
        *,
        progress: Progress | None = None,
    ) -> Sequence[DoneInHome]:
        """Undo these operations as one run. One that fails does not prevent the others."""
        from holdfast.api.plans_across_homes import undo_each  # noqa: PLC0415 - as above

        return undo_each(self, operations, progress)

    def vaults(self) -> Looked[VaultStatus | None]:
        """What the vault of each home holds, and what its agent deletes by itself; None for a home
        that cannot have a vault."""
        return self._ask(lambda home: home.vault_status)

    # --- Seeing -----------------------------------------------------------------------------------

    def status(self, *, progress: Progress | None = None) -> MachineStatus:
        """What is in each home, what it costs, and what its policy would free."""
        with one_look():
            looked = self._ask(lambda home: home.status(progress=progress))
            folders = self.look(latest_folders).seen if self._agents is None else ()
        worked_in = {each for _, found in folders for each in found}
        known = {home.path for home in self.homes}
        found = [
            agent_home(path, kind)
            for path, kind in homes_in_projects(worked_in, self._user_home)
            if path not in known
        ]
        return MachineStatus(
            seen=looked.seen,
            unread=looked.unread,
            growth=_added([each.growth for _, each in looked.seen]),
            in_projects=found,
        )

    def record_figures(self, *, progress: Progress | None = None) -> Looked[HomeFigures]:
        """Measure each home and record the figures for its growth, as maintenance does."""
        return self._ask(lambda home: home.record_figures(progress=progress))

    def growth(self) -> MachineGrowth:
        """How the homes grew in the last weeks, by the recorded figures. Reads no session."""
        looked = self._ask(lambda home: home.growth())
        added = _added([each for _, each in looked.seen])
        return MachineGrowth(seen=looked.seen, together=added, unread=looked.unread)

    def overview(self, *, progress: Progress | None = None) -> MachineOverview:
        """A summary of `status`, with the sessions in use and the latest operations."""
        from holdfast.api.overview import overview  # noqa: PLC0415 - a list needs none of it

        status = self.status(progress=progress)
        return overview(self, status, now=self.clock())

    def last_overview(self) -> MachineOverview | None:
        """An overview from the figures that were recorded last; None if there are none. Reads no
        session."""
        from holdfast.api.overview import last_overview  # noqa: PLC0415 - as above

        return last_overview(self)

    def stats(self, *, progress: Progress | None = None) -> Looked[HomeStats]:
        """The totals of the sessions and files of each home."""
        return self._ask(lambda home: home.stats(progress=progress))

    def costs(self) -> Looked[CostTotals]:
        """Tokens and cost in each home; sessions that were removed count too."""
        return self._ask(lambda home: home.costs())


@checked
def machine(
    *,
    user_home: StrPath | None = None,
    environ: Mapping[str, str] | None = None,
    clock: Clock | None = None,
    command: str | None = None,
    agents: Collection[str] | None = None,
) -> Machine:
    """All homes of the user on this machine, of any agent; with `agents`, only those of the agents
    with these names.

    Homes are searched at their usual places below `user_home`, by default your home directory, and
    at the places in the variables in `environ`, such as CODEX_HOME and HOLDFAST_HOME; by default
    the environment of this process. Variables that outrank config.toml, such as
    `HOLDFAST_SESSIONS_RETENTION_DAYS`, count only if you pass `environ`. `clock` and `command` are
    as in `holdfast.open`.
    """
    warn_of_unknown(environ)
    check_agents(texts_of(agents, "agents") or ())
    return Machine(
        named_place("~" if user_home is None else user_home),
        environ=os.environ if environ is None else environ,  # noqa: TID251 - the edge
        overrides=environ,
        clock=clock,
        command=command,
        agents=agents,
    )


def _added(growths: Sequence[Growth]) -> Growth:
    from holdfast.policy.growth import together  # noqa: PLC0415 - a list does without it

    return together(growths)
