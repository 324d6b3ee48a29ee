"""The doers of a home for all but its sessions and their files: checkpoints, archive, trash,
settings, names and pins."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from holdfast.homes.checkpoints.movers import RollBack
from holdfast.homes.checkpoints.open_store import FOLDER
from holdfast.homes.checkpoints.remove_from_remote import RemovePushed
from holdfast.homes.edits import Rewriter, edits
from holdfast.model.item import PROJECT, PUSHED, SETTING, TRASH
from holdfast.model.plan import Action
from holdfast.ports.runs import Doer
from holdfast.ports.sessions import SessionStore
from holdfast.spine.empty_trash import EmptyTrash
from holdfast.spine.keeper import Keeper
from holdfast.stores.checkpoints.repository import Layout

if TYPE_CHECKING:
    from holdfast.homes.archive.home_archive import HomeArchive
    from holdfast.homes.home import Ground, HomeCheckpoints


def other_doers(
    ground: Ground,
    keepers: Mapping[str, Keeper],
    *,
    archive: HomeArchive,
    checkpoints: HomeCheckpoints,
    sessions: Callable[[], SessionStore | None],
) -> Mapping[tuple[str, Action], Doer]:
    """`keepers` are those of the sessions and their files: the trash has copies of theirs, too."""
    others = {**checkpoints.keepers, **archive.keepers}
    return {
        **{(kind, Action.REMOVE): keeper for kind, keeper in others.items()},
        (PROJECT, Action.ROLL_BACK): RollBack(checkpoints.store, ground.clock),
        (PUSHED, Action.REMOVE): RemovePushed(Layout(folder=ground.state / FOLDER)),
        (SETTING, Action.REWRITE): Rewriter(),
        (TRASH, Action.REMOVE): EmptyTrash(lambda: ground.log.read().trash, {**keepers, **others}),
        **edits(sessions, checkpoints.store),
        **archive.doers,
    }
