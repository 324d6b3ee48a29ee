"""The keepers and other doers that change a home, by item kind and action.

Loaded on first use. What changes more than sessions and their files is in `other_doers`, which is
loaded on request: a prune, and its undo, need none of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from holdfast.homes.sessions.end_sessions import EndSessions
from holdfast.homes.sessions.file_mover import SessionFileMover
from holdfast.homes.sessions.mover import SessionMover, bundles
from holdfast.homes.sessions.session_space import SessionSpace
from holdfast.model.item import (
    CHECKPOINT_SPACE,
    REQUEST_DUMP,
    SESSION,
    SPACE,
    TRANSCRIPT,
)
from holdfast.model.plan import Action
from holdfast.ports.runs import Doer, Space
from holdfast.ports.sessions import SessionStore
from holdfast.spine.empty_trash import Reclaim
from holdfast.spine.keeper import Keeper
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
        from holdfast.homes.other_doers import other_doers

        return other_doers(
            self._ground,
            self._changes.keepers,
            archive=self._archive(),
            checkpoints=self._checkpoints(),
            sessions=self._sessions,
        )

    def _space(self, name: str) -> Space | None:
        if name == CHECKPOINT_SPACE:
            return self._checkpoints().space
        return self._changes.spaces.get(name)


def stored_changes(contents: StoredContents) -> Changes:
    """The doers for a home that has a database and a folder `sessions/`."""

    def archive() -> HomeArchive:
        from holdfast.homes.archive.movers import stored_archive

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
