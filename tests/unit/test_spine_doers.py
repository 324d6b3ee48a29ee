"""What the doers of the spine say about items that they do not know."""

from __future__ import annotations

from dataclasses import replace

from holdfast.model.item import TRASH
from holdfast.model.operation import Removal, TrashEntry
from holdfast.model.plan import Action, PlanItem
from holdfast.model.report import Result
from holdfast.spine.empty_trash import UNKNOWN_KIND, EmptyTrash, Reclaim
from holdfast.spine.outcomes import ALREADY_GONE


def removal() -> Removal:
    item = PlanItem(
        kind="of a later version",
        id="a",
        source="test",
        bytes=1,
        last_active_at=0,
        version="1",
        action=Action.REMOVE,
        reason="test",
        undoable=True,
    )
    return Removal(operation="1", number=0, item=item)


def test_trash_of_an_unknown_kind_stays() -> None:
    entry = TrashEntry(removal=removal(), removed_at=0, bytes=1)
    item = replace(removal().item, kind=TRASH, id=entry.as_item().id)
    batch = [Removal(operation="2", number=0, item=item)]
    [outcome] = EmptyTrash(lambda: [entry], {}).do(batch)
    assert (outcome.kind, outcome.id) == (TRASH, item.id)
    assert (outcome.result, outcome.reason) == (Result.FAILED, UNKNOWN_KIND)


def test_space_of_a_store_that_is_not_here_is_gone_already() -> None:
    doer = Reclaim(lambda _: None)
    doer.prepare([removal().item])
    [outcome] = doer.do([removal()])
    assert (outcome.result, outcome.reason) == (Result.SKIPPED, ALREADY_GONE)
