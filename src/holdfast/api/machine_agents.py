"""What the agents and the schedulers of a machine start: hooks and maintenance."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.api.machine_homes import MachineHomes
from holdfast.api.place import Place, find_home, usual_places_of
from holdfast.homes.kind import OWN
from holdfast.model.argument_checks import checked
from holdfast.model.arguments import named_place

if TYPE_CHECKING:  # a list of sessions loads as little as it can
    from holdfast.api.connect import Connection, ConnectPlan
    from holdfast.api.schedulers.schedule import Schedule
    from holdfast.connect.settings_entries import Setup
    from holdfast.model.arguments import StrPath


@checked
class MachineAgents(MachineHomes):
    """The methods that connect agents, and plan what a scheduler runs."""

    def plan_connect(
        self,
        agent: str,
        *,
        scope: str = "user",
        project: StrPath | None = None,
        home: StrPath | None = None,
    ) -> ConnectPlan:
        """Plan the entries in an agent's settings that let Holdfast take a checkpoint before each
        tool that may change files, and enforce budgets. `agent` is "claude-code", "codex", "gemini"
        or "opencode". `scope` is "user" for the user's settings, or "project" for those in
        `project`, by default the current directory.

        Checkpoints and budgets are kept in `home`, by default Holdfast's own. `apply` creates that
        home if it does not exist; undoing its report removes the entries again.
        """
        from holdfast.api.connect import connecting, setup_of  # noqa: PLC0415 - no list needs it

        place, where = self._own_home(home), self.hook_setup(project=project, home=home)
        return connecting(place, setup_of(place, agent, scope, where))

    def plan_disconnect(
        self,
        agent: str,
        *,
        scope: str = "user",
        project: StrPath | None = None,
        home: StrPath | None = None,
    ) -> ConnectPlan:
        """Plan to remove the entries from an agent's settings. A file that has not changed since it
        was connected gets exactly its old content back."""
        from holdfast.api.connect import disconnecting, setup_of  # noqa: PLC0415 - as above

        place, where = self._own_home(home), self.hook_setup(project=project, home=home)
        return disconnecting(place, setup_of(place, agent, scope, where))

    def connections(
        self, *, project: StrPath | None = None, home: StrPath | None = None
    ) -> Sequence[Connection]:
        """The agents that are connected, for the user and in `project`, and any problems."""
        from holdfast.api.connect import connections  # noqa: PLC0415 - as above

        return connections(self._own_home(home), self.hook_setup(project=project, home=home))

    def connections_to_renew(
        self, *, fails_closed: bool, project: StrPath | None = None, home: StrPath | None = None
    ) -> Sequence[Connection]:
        """Agents whose entries for this home disagree with `fails_closed`, which says what happens
        when Holdfast cannot be started. Connecting them again corrects that."""
        own = self._own_home(home).root.absolute()
        return [
            each
            for each in self.connections(project=project, home=home)
            if each.home == own and each.fails_closed != fails_closed
        ]

    def hook_setup(self, *, project: StrPath | None = None, home: StrPath | None = None) -> Setup:
        """Where the settings of agents are, and the home in which their hooks keep checkpoints."""
        from holdfast.connect.settings_entries import Setup  # noqa: PLC0415 - as above

        return Setup(
            agent="",
            scope="user",
            user_home=self._user_home,
            project=named_place(os.curdir if project is None else project).absolute(),
            home=self._own_home(home).root.absolute(),
            environ=self._environ,
        )

    def _own_home(self, home: StrPath | None) -> Place:
        """The named home, by default Holdfast's own; it need not exist yet."""
        if home is None:
            root = usual_places_of(self._user_home, self._environ)[OWN.name]
        else:
            root = find_home(home, self._environ)
        known = self._places.get(root)
        if known is None or known.is_closed:
            known = self._places[root] = Place(
                root, clock=self._clock, command=self._command, environ=self._overrides
            )
        return known

    def plan_schedule(
        self, scheduler: str, *, home: StrPath | None = None, program: Sequence[str] | None = None
    ) -> Schedule:
        """Plan the files that let the system run maintenance: "systemd" and "launchd" keep the
        watch over all homes running, and "cron" runs maintenance of all homes once a day. With
        `home`, a folder or the name of an agent, each of them maintains that home once a day.

        `install` writes the files, and `uninstall` removes them again. `program` is the command
        that starts Holdfast, by default with the current Python.
        """
        from holdfast.api.schedulers import schedule_of  # noqa: PLC0415 - no list needs it

        root = None
        if home is not None:
            place = Place(find_home(home, self._environ), environ=self._overrides).checked()
            root = place.home.root  # raises if the configuration is wrong: it would never run
            place.close()
        return schedule_of(
            scheduler,
            home=root,
            user_home=self._user_home,
            environ=self._environ,
            program=program,
        )
