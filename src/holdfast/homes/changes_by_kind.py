"""The keepers and other doers that change a home, by item kind and action. The doers for sessions
are loaded on first use and the rest on request, because a prune needs only half of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from holdfast.homes.archive.movers import stored_archive
from holdfast.homes.checkpoints.movers import RollBack
from holdfast.homes.checkpoints.open_store import FOLDER
from holdfast.homes.checkpoints.remove_from_remote import RemovePushed
from holdfast.homes.edits import Rewriter, edits
from holdfast.homes.sessions.end_sessions import EndSessions
from holdfast.homes.sessions.file_mover import SessionFileMover
from holdfast.homes.sessions.mover import SessionMover, bundles
from holdfast.homes.sessions.session_space import SessionSpace
from holdfast.model.item import (
    CHECKPOINT_SPACE,
    PROJECT,
    PUSHED,
    REQUEST_DUMP,
    SESSION,
    SETTING,
    SPACE,
    TRANSCRIPT,
    TRASH,
)
from holdfast.model.plan import Action
from holdfast.ports.runs import Doer, Space
from holdfast.ports.sessions import SessionStore
from holdfast.spine.empty_trash import EmptyTrash, Reclaim
from holdfast.spine.keeper import Keeper
from holdfast.stores.checkpoints.repository import Layout
from holdfast.value import dataclass, field

if TYPE_CHECKING:
    from holdfast.homes.archive.home_archive import HomeArchive
    from holdfast.homes.home import Ground, HomeCheckpoints
    from holdfast.homes.sessions.stored import StoredContents

_Doers = Mapping[tuple[str, Action], Doer]


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """The doers for the contents of one kind of home. `keepers` are by item kind, `spaces` by item
    id; `archive` creates the archive."""

    keepers: Mapping[str, Keeper]
    archive: Callable[[], HomeArchive]
    doers: _Doers = field(default_factory=dict)
    spaces: Mapping[str, Space] = field(default_factory=dict)


class DoersByKind:
    """All doers of a home."""

    def __init__(
        self,
        ground: Ground,
        changes: Changes,
        *,
        archive: Callable[[], HomeArchive],
        checkpoints: Callable[[], HomeCheckpoints],
        sessions: Callable[[], SessionStore | None],
    ) -> None:
        self._ground = ground
        self._changes = changes
        self._archive = archive
        self._checkpoints = checkpoints
        self._sessions = sessions

    def get(self, kind: str, action: Action) -> Doer | None:
        found = self._of_contents.get((kind, action))
        return self._others.get((kind, action)) if found is None else found

    @cached_property
    def _of_contents(self) -> _Doers:
        return {
            **{(kind, Action.REMOVE): keeper for kind, keeper in self._changes.keepers.items()},
            (SPACE, Action.RECLAIM): Reclaim(self._space),
            **self._changes.doers,
        }

    @cached_property
    def _others(self) -> _Doers:
        ground, checkpoints, archive = self._ground, self._checkpoints(), self._archive()
        others = {**checkpoints.keepers, **archive.keepers}
        everything = {**self._changes.keepers, **others}
        return {
            **{(kind, Action.REMOVE): keeper for kind, keeper in others.items()},
            (PROJECT, Action.ROLL_BACK): RollBack(checkpoints.store, ground.clock),
            (PUSHED, Action.REMOVE): RemovePushed(Layout(folder=ground.state / FOLDER)),
            (SETTING, Action.REWRITE): Rewriter(),
            (TRASH, Action.REMOVE): EmptyTrash(lambda: ground.log.read().trash, everything),
            **edits(self._sessions, checkpoints.store),
            **archive.doers,
        }

    def _space(self, name: str) -> Space | None:
        if name == CHECKPOINT_SPACE:
            return self._checkpoints().space
        return self._changes.spaces.get(name)


def stored_changes(contents: StoredContents) -> Changes:
    """The doers for a home that has a database and a folder `sessions/`."""

    def archive() -> HomeArchive:
        return stored_archive(contents, loose)

    ground = contents.ground
    loose = Keeper(SessionFileMover(ground.root, ground.trash, ground.clock, contents.life))
    sessions = Keeper(SessionMover(contents.engine, ground.trash))
    space = SessionSpace(contents.engine, lambda name: bundles(ground.trash, name))
    return Changes(
        keepers={SESSION: sessions, TRANSCRIPT: loose, REQUEST_DUMP: loose},
        archive=archive,
        doers={(SESSION, Action.END): EndSessions(contents.engine, ground.clock)},
        spaces={} if contents.database is None else {contents.database: space},
    )
