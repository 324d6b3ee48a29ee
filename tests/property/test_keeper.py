"""The keeper over a mover of this test's own, killed at any step: everything is on one side."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence

from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.operation import Removal
from holdfast.model.plan import Action, PlanItem
from holdfast.model.report import Moved, Outcome, Presence, Result, failed, stayed
from holdfast.spine.keeper import Keeper
from holdfast.spine.outcomes import CHANGED, PLACE_TAKEN


class Killed(BaseException):
    """Nobody catches it, as nobody catches a kill."""


class Shelf:
    """Things in their place and in the trash, by id. It breaks off before the step with number
    `kill_at`; a `rename` moves a thing in one step, without a copy before."""

    def __init__(self, things: Mapping[str, str], *, rename: bool) -> None:
        self.place = dict(things)
        self.trash: dict[str, str] = {}
        self.alive: set[str] = set()
        self.rename = rename
        self.kill_at: int | None = None

    def _step(self) -> None:
        if self.kill_at is not None:
            self.kill_at -= 1
            if self.kill_at < 0:
                raise Killed

    def prepare(self, items: Sequence[PlanItem]) -> None:
        """Nothing to prepare."""

    def look(self, batch: Sequence[Removal]) -> Sequence[Presence]:
        return [self._seen(each) for each in batch]

    def _seen(self, removal: Removal) -> Presence:
        name = removal.item.id
        return Presence(
            here=name in self.place,
            copied=name in self.trash,
            changed=self.place.get(name, removal.item.version) != removal.item.version,
            obstacle="it is alive" if name in self.alive else "",
            bytes=1,
        )

    def copy(self, batch: Sequence[Removal]) -> Sequence[Moved]:
        for each in batch:
            if not self.rename:
                self._step()
                self.trash[each.item.id] = self.place[each.item.id]
        return [Moved()] * len(batch)

    def drop(self, batch: Sequence[Removal]) -> Sequence[Moved]:
        return [self._drop(each) for each in batch]

    def _drop(self, removal: Removal) -> Moved:
        name = removal.item.id
        if self.place[name] != removal.item.version:
            return stayed(CHANGED)
        self._step()
        self.trash[name] = self.place.pop(name)
        return Moved(copied=True, bytes=1)

    def put_back(self, batch: Sequence[Removal]) -> Sequence[Moved]:
        return [self._put_back(each.item.id) for each in batch]

    def _put_back(self, name: str) -> Moved:
        if self.place.get(name, self.trash[name]) != self.trash[name]:
            return failed(PLACE_TAKEN)
        self._step()
        self.place[name] = self.trash[name]
        if self.rename:
            del self.trash[name]
        return Moved(copied=name in self.trash)

    def discard(self, batch: Sequence[Removal]) -> Sequence[Moved]:
        return [self._discard(each.item.id) for each in batch]

    def _discard(self, name: str) -> Moved:
        if name not in self.trash:
            return Moved()
        self._step()
        del self.trash[name]
        return Moved(copied=True, bytes=1)


def removal(number: int, *, undoable: bool) -> Removal:
    item = PlanItem(
        kind="thing",
        id=str(number),
        source="test",
        bytes=1,
        last_active_at=0,
        version="judged",
        action=Action.REMOVE,
        reason="test",
        undoable=undoable,
    )
    return Removal(operation="1", number=number, item=item)


def killed_in(
    shelf: Shelf, kill_at: int, act: Callable[[Sequence[Removal]], object], batch: list[Removal]
) -> None:
    shelf.kill_at = kill_at
    with contextlib.suppress(Killed):
        act(batch)
    shelf.kill_at = None


def check_one_side(shelf: Shelf, batch: list[Removal], outcomes: Sequence[Outcome]) -> None:
    for each, outcome in zip(batch, outcomes, strict=True):
        name = each.item.id
        if outcome.result is Result.REMOVED:
            assert name not in shelf.place
            assert (name in shelf.trash) is each.item.undoable
        else:
            assert name in shelf.place
            assert name not in shelf.trash


steps = st.integers(min_value=0, max_value=12)


@given(
    undoable=st.lists(st.booleans(), min_size=1, max_size=4),
    rename=st.booleans(),
    killed_at=steps,
    again_at=steps,
    wakes=st.sets(st.integers(min_value=0, max_value=3)),
)
def test_killed_while_removing_everything_is_on_one_side(
    undoable: list[bool], rename: bool, killed_at: int, again_at: int, wakes: set[int]
) -> None:
    batch = [removal(number, undoable=each) for number, each in enumerate(undoable)]
    shelf = Shelf({each.item.id: "judged" for each in batch}, rename=rename)
    keeper = Keeper(shelf)
    killed_in(shelf, killed_at, keeper.do, batch)
    shelf.alive = {str(number) for number in wakes}
    killed_in(shelf, again_at, keeper.settle, batch)
    settled = keeper.settle(batch)
    check_one_side(shelf, batch, settled)
    for each in keeper.settle(batch):  # and it is safe to repeat
        assert each.result in (Result.REMOVED, Result.SKIPPED)


@given(
    undoable=st.lists(st.just(True), min_size=1, max_size=4), rename=st.booleans(), killed_at=steps
)
def test_killed_while_bringing_back_everything_comes_back(
    undoable: list[bool], rename: bool, killed_at: int
) -> None:
    batch = [removal(number, undoable=each) for number, each in enumerate(undoable)]
    before = {each.item.id: "judged" for each in batch}
    shelf = Shelf(before, rename=rename)
    keeper = Keeper(shelf)
    check_one_side(shelf, batch, keeper.do(batch))
    killed_in(shelf, killed_at, keeper.undo, batch)
    assert {each.result for each in keeper.undo(batch)} == {Result.BROUGHT_BACK}
    assert (shelf.place, shelf.trash) == (before, {})


@given(
    changed=st.sets(st.integers(min_value=0, max_value=3)),
    alive=st.sets(st.integers(min_value=0, max_value=3)),
    undoable=st.booleans(),
    rename=st.booleans(),
)
def test_what_changed_or_lives_stays(
    changed: set[int], alive: set[int], undoable: bool, rename: bool
) -> None:
    batch = [removal(number, undoable=undoable) for number in range(4)]
    shelf = Shelf(
        {str(n): "changed" if n in changed else "judged" for n in range(4)}, rename=rename
    )
    shelf.alive = {str(number) for number in alive}
    outcomes = Keeper(shelf).do(batch)
    check_one_side(shelf, batch, outcomes)
    went = {number for number, each in enumerate(outcomes) if each.result is Result.REMOVED}
    assert went == set(range(4)) - changed - alive
    freed, in_trash = (0, len(went)) if undoable else (len(went), 0)
    assert sum(each.bytes_freed for each in outcomes) == freed
    assert sum(each.bytes_in_trash for each in outcomes) == in_trash


def test_copies_that_are_kept_outlive_a_plan_without_undo() -> None:
    """The archive: what a saved plan says of undo must not cost a bundle."""
    batch = [removal(0, undoable=False)]
    shelf = Shelf({"0": "judged"}, rename=False)
    keeper = Keeper(shelf, keeps_copies=True)
    assert keeper.do(batch)[0].result is Result.REMOVED
    assert keeper.settle(batch)[0].result is Result.REMOVED
    assert shelf.trash == {"0": "judged"}
