"""What changes a home, by kind of item and action: the keepers and the other doers. Loaded on first
use: looking at a home takes half of what this module imports."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from holdfast.homes.archive.home_archive import HomeArchive
from holdfast.homes.archive.movers import stored_archive
from holdfast.homes.checkpoints.movers import RollBack
from holdfast.homes.checkpoints.open_store import FOLDER
from holdfast.homes.checkpoints.pushed import RemovePushed
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
    from holdfast.homes.home import Ground, HomeCheckpoints
    from holdfast.homes.sessions.stored import StoredContents


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What changes the contents of a kind of home. `keepers` are by kind, `spaces` by the id of
    their item."""

    keepers: Mapping[str, Keeper]
    archive: HomeArchive
    doers: Mapping[tuple[str, Action], Doer] = field(default_factory=dict)
    spaces: Mapping[str, Space] = field(default_factory=dict)


def doers_of(
    ground: Ground,
    changes: Changes,
    checkpoints: HomeCheckpoints,
    sessions: Callable[[], SessionStore | None],
) -> Mapping[tuple[str, Action], Doer]:
    """Every doer of a home."""
    keepers = {**changes.keepers, **checkpoints.keepers, **changes.archive.keepers}
    return {
        **{(kind, Action.REMOVE): keeper for kind, keeper in keepers.items()},
        (SPACE, Action.RECLAIM): Reclaim({**changes.spaces, CHECKPOINT_SPACE: checkpoints.space}),
        (PROJECT, Action.ROLL_BACK): RollBack(checkpoints.store, ground.clock),
        (PUSHED, Action.REMOVE): RemovePushed(Layout(folder=ground.state / FOLDER)),
        (SETTING, Action.REWRITE): Rewriter(),
        (TRASH, Action.REMOVE): EmptyTrash(lambda: ground.log.read().trash, keepers),
        **edits(sessions, checkpoints.store),
        **changes.doers,
        **changes.archive.doers,
    }


def stored_changes(contents: StoredContents) -> Changes:
    """Who changes a home that has a database and a folder `sessions/`."""
    ground = contents.ground
    loose = Keeper(SessionFileMover(ground.root, ground.trash, ground.clock, contents.life))
    sessions = Keeper(SessionMover(contents.engine, ground.trash))
    space = SessionSpace(contents.engine, lambda name: bundles(ground.trash, name))
    return Changes(
        keepers={SESSION: sessions, TRANSCRIPT: loose, REQUEST_DUMP: loose},
        archive=stored_archive(contents, loose),
        doers={(SESSION, Action.END): EndSessions(contents.engine, ground.clock)},
        spaces={} if contents.database is None else {contents.database: space},
    )
