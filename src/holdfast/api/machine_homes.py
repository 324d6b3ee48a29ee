"""The homes of a machine: found, opened and asked, one after the other.

Reading opens homes and changes nothing. A home that cannot be read is reported and does not affect
the others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeVar

from holdfast.api.agent_home import (
    OF_THE_HOME,
    AgentHome,
    HomeRef,
    Looked,
    UnreadHome,
    bug_in,
    find_homes,
    missing_homes,
    named_home,
)
from holdfast.api.place import Place, listed_homes, system_clock, usual_homes, usual_places_of
from holdfast.errors import HoldfastError, UsageError
from holdfast.homes.foreign.shared_scan import one_look
from holdfast.model.argument_checks import checked
from holdfast.model.arguments import checked_clock, several
from holdfast.model.session import texts_of
from holdfast.stores.files import storage_errors
from holdfast.stores.sqlite.database import PATIENCE

if TYPE_CHECKING:  # a list of sessions loads as little as it can
    from contextlib import AbstractContextManager

    from holdfast.api.home import Home
    from holdfast.ports.runs import Clock

_T = TypeVar("_T")


@checked
class MachineHomes:
    """Finds, opens and asks the homes of one user."""

    def __init__(
        self,
        user_home: Path,
        *,
        environ: Mapping[str, str],
        overrides: Mapping[str, str] | None = None,
        clock: Clock | None = None,
        command: str | None = None,
        agents: Collection[str] | None = None,
        only: Path | None = None,
    ) -> None:
        """With `only`, the one home in that folder."""
        self._agents = texts_of(agents, "agents")
        self._only = only
        self._user_home = user_home
        self._environ = environ
        self._overrides = overrides
        self._clock = None if clock is None else checked_clock(clock)
        self._command = command
        self._places: dict[Path, Place] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<the homes of {self._user_home}>"

    def close(self) -> None:
        """Close every home that was opened. The machine itself can be used again."""
        while self._places:
            self._places.popitem()[1].close()

    # --- Its homes --------------------------------------------------------------------------------

    @cached_property
    def looked_at(self) -> Sequence[Path]:
        """The places where homes may be: the usual ones, and those in environment variables and in
        the configuration."""
        if self._only is not None:
            return (self._only,)
        return usual_homes(self._user_home, self._environ, self._listed)

    @cached_property
    def _listed(self) -> Sequence[str]:
        """The homes in the configuration."""
        return () if self._only is not None else listed_homes(self._user_home, self._environ)

    @property
    def is_whole(self) -> bool:
        """True if this is all homes, not just those of some agents or a single one."""
        return self._agents is None and self._only is None

    @property
    def clock(self) -> Clock:
        return self._clock or system_clock

    @property
    def homes(self) -> Sequence[AgentHome]:
        """The homes that exist; searched for once."""
        return self._found[0]

    def look_for_homes(self) -> None:
        """Search for homes again at the next use: the first session of an agent creates its
        home."""
        self.__dict__.pop("_found", None)

    @property
    def unread(self) -> Sequence[UnreadHome]:
        """Places of homes that cannot be read."""
        return self._found[1]

    @cached_property
    def _found(self) -> tuple[Sequence[AgentHome], Sequence[UnreadHome]]:
        usual = usual_places_of(self._user_home, self._environ)
        homes, unread = find_homes(self.looked_at, usual, self._agents)
        if self._agents is None:
            unread = [*unread, *missing_homes(self._listed)]
        return homes, unread

    def place(self, home: HomeRef) -> Place:
        """Open a home and return its place; raises `ConfigError` if its configuration is wrong."""
        place = self.unchecked_place(home)
        place.check_settings()
        _ = place.home
        return place

    def unchecked_place(self, home: HomeRef) -> Place:
        """The same without opening the home, for a caller that corrects its configuration or finds
        out what is wrong with it."""
        home = named_home(self.homes, home)
        known = self._places.get(home.path)
        if known is None or known.is_closed:  # a caller closed it with `with`
            self._places[home.path] = Place(
                home.path, clock=self._clock, command=self._command, environ=self._overrides
            )
        return self._places[home.path].checked()

    def open(self, home: HomeRef) -> Home:
        """One of the homes, with everything that can be done to it: an item of `homes`, the name or
        label of one ("codex"), or its path. Closed with the machine."""
        from holdfast.api.home import Home  # noqa: PLC0415 - a list needs only the places

        return Home(self.place(home))

    def wait_at_most(self, seconds: float) -> None:
        """Limit how long homes that are opened from now on, here and in what this calls, wait for
        other processes that write to their stores; after that they raise `BusyError`."""
        PATIENCE.set(seconds)

    def one_look(self) -> AbstractContextManager[None]:
        """Inside this context each home is scanned once, however often it is read. Only for code
        that changes nothing."""
        return one_look()

    def look(
        self, what: Callable[[Place], _T], *, homes: HomeRef | Collection[HomeRef] | None = None
    ) -> Looked[_T]:
        """Call `what` for every home, or only for these. An error that concerns the request itself
        is raised."""
        asked = self._chosen(homes)
        seen: list[tuple[AgentHome, _T]] = []
        unread = list(self.unread) if homes is None else []
        for home in asked:
            try:
                with storage_errors(f"read {home.path}"):
                    seen.append((home, what(self.place(home))))
            except HoldfastError as error:
                if isinstance(error, UsageError) and not isinstance(error, OF_THE_HOME):
                    raise
                unread.append(UnreadHome(path=home.path, error=error))
            except Exception as error:  # noqa: BLE001 - a bug in one format must not blind the rest
                unread.append(UnreadHome(path=home.path, error=bug_in(home, error)))
        return Looked(seen=seen, unread=unread)

    def _chosen(self, homes: HomeRef | Iterable[HomeRef] | None) -> Sequence[AgentHome]:
        """All homes, or the named ones."""
        if homes is None:
            return self.homes
        return [named_home(self.homes, each) for each in several(homes)]

    def _ask(self, what: Callable[[Home], _T]) -> Looked[_T]:
        from holdfast.api.home import Home  # noqa: PLC0415 - as above

        with one_look():
            return self.look(lambda place: what(Home(place)))
