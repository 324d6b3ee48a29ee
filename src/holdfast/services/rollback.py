"""Roll a project back to one of its checkpoints: an operation, so that it can be undone."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.errors import HoldfastError
from holdfast.model.checkpoint import Checkpoint, NotCaptured, Preview, RestoreState, Rollback
from holdfast.model.item import PROJECT, UNKNOWN_SOURCE
from holdfast.model.operation import OperationAction, Removal
from holdfast.model.plan import Action, PlanItem
from holdfast.model.report import Outcome, Result
from holdfast.ports import CheckpointStore, Clock, Doer, Home, Progress
from holdfast.spine.carry_out import Silent, carry_out
from holdfast.spine.settle import settle
from holdfast.value import replace

_SHORT = 8
_NAMED = 5


def rollback(
    home: Home,
    store: CheckpointStore,
    checkpoint: str,
    paths: Sequence[str] | None = None,
    *,
    command: str,
    clock: Clock,
    progress: Progress | None = None,
    shown: Preview | None = None,
) -> Rollback:
    """Restore a checkpoint into its project, or only the given paths of it.

    The present state is taken first, as the safety checkpoint that undo goes back to. What that
    could not capture is left as it is, and named. With `shown`, which `store.preview` gave,
    nothing else is touched than what that says: what changed since is left as it is, and named.
    """
    target = store.get(checkpoint)
    with home.log.writing(command) as log:
        settled = settle(log, home, clock=clock)
        item = _item(target, store.secure(target.id, paths=paths, now=clock()), paths)
        performing = _Performing(store, clock, shown)
        with log.begin(action=OperationAction.REMOVE, command=command, at=clock()) as journal:
            report = carry_out(
                journal,
                (Removal(operation=journal.operation, number=0, item=item),),
                performing.act,
                home,
                total=1,
                label="restoring",
                clock=clock,
                progress=progress or Silent(),
            )
    done = performing.result(item)
    if report.count(Result.ROLLED_BACK):
        done = replace(done, operation=report.operation)
    if settled and shown is not None and _is_through(done, shown):
        # Settling finished the very restore that was shown.
        return replace(done, written=shown.written, deleted=shown.deleted)
    return done


def _is_through(done: Rollback, shown: Preview) -> bool:
    return not (done.written or done.deleted) and set(done.kept) <= set(shown.kept)


def perform(
    store: CheckpointStore, removal: Removal, *, now: float, shown: Preview | None = None
) -> tuple[Outcome, Rollback | HoldfastError]:
    """Do it, or finish it. One that failed half-way counts as done: undo can take it back."""
    item = removal.item
    try:
        done = store.restore(
            item.target, item.version, paths=item.paths or None, now=now, shown=shown
        )
    except HoldfastError as error:
        if not _is_begun(store, item):
            return removal.end(Result.FAILED, _words(error)), error
        return removal.end(Result.ROLLED_BACK, f"only in part: {_words(error)}"), error
    if not done.written and not done.deleted:
        why = left_alone(done.kept) or "nothing differs"
        return removal.end(Result.SKIPPED, why), done
    return removal.end(Result.ROLLED_BACK, left_alone(done.kept)), done


def left_alone(kept: Sequence[NotCaptured]) -> str:
    """What a restore did not touch, in words; nothing when it touched all."""
    if not kept:
        return ""
    named = ", ".join(f"{each.path} ({each.reason})" for each in kept[:_NAMED])
    more = len(kept) - _NAMED
    return f"left as they are: {named}" + (f" and {more:,} more" if more > 0 else "")


class _Performing:
    """Performs the one item of the operation, and remembers what came of it."""

    def __init__(self, store: CheckpointStore, clock: Clock, shown: Preview | None) -> None:
        self._store = store
        self._clock = clock
        self._shown = shown
        self._done: Rollback | HoldfastError | None = None

    def act(self, _: Doer, batch: Sequence[Removal]) -> Sequence[Outcome]:
        """As the doer does it; what was written and deleted has no place in an outcome."""
        outcomes = []
        for removal in batch:
            outcome, self._done = perform(
                self._store, removal, now=self._clock(), shown=self._shown
            )
            outcomes.append(outcome)
        return outcomes

    def result(self, item: PlanItem) -> Rollback:
        if isinstance(self._done, HoldfastError):
            raise self._done
        if self._done is None:  # stopped before its turn
            return Rollback(written=(), deleted=(), kept=(), safety_checkpoint=item.version)
        return self._done


def _item(target: Checkpoint, safety: str, paths: Sequence[str] | None) -> PlanItem:
    return PlanItem(
        kind=PROJECT,
        id=target.project,
        source=UNKNOWN_SOURCE,
        session=target.session or "",
        bytes=0,
        last_active_at=target.time,
        version=safety,
        action=Action.ROLL_BACK,
        reason=f"rolled back to {target.known_id[:_SHORT]}: {target.workdir}",
        undoable=True,
        target=target.id,
        paths=tuple(paths or ()),
    )


def _is_begun(store: CheckpointStore, item: PlanItem) -> bool:
    try:
        state = store.restore_state(item.target, item.version, paths=item.paths or None)
    except HoldfastError:
        return False
    return state is not RestoreState.NOT_BEGUN


def _words(error: HoldfastError) -> str:
    return error.message if error.hint is None else f"{error.message} {error.hint}"
