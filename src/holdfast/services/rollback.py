"""Roll a project back to one of its checkpoints: an operation, so that it can be undone."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.errors import HoldfastError
from holdfast.model.checkpoint import Checkpoint, NotCaptured, Preview, RestoreState, Rollback
from holdfast.model.item import PROJECT, UNKNOWN_SOURCE
from holdfast.model.operation import OperationAction, Removal
from holdfast.model.plan import Action, PlanItem
from holdfast.model.report import Outcome, Result
from holdfast.ports.checkpoints import CheckpointStore
from holdfast.ports.home import Home
from holdfast.ports.runs import Clock, Doer, Progress
from holdfast.spine.carry_out import Silent, carry_out
from holdfast.spine.settle import Settled, settle
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

    First a safety checkpoint of the current state is taken, to which undo goes back. Files that it
    could not capture are left alone and reported. With `shown`, a result of `store.preview`, only
    the files in it are touched: a file that changed since is left alone and reported.
    """
    target = store.get(checkpoint)
    with home.log.writing(command) as log:
        settled = settle(log, home, clock=clock)
        item = _item(target, store.secure(target.id, paths=paths, now=clock()), paths)
        done: Rollback | HoldfastError = Rollback(
            written=(), deleted=(), kept=(), safety_checkpoint=item.version
        )

        def act(_: Doer, batch: Sequence[Removal]) -> Sequence[Outcome]:
            """Also keep the result, because an outcome does not have the changed paths."""
            nonlocal done
            outcome, done = perform(store, batch[0], now=clock(), shown=shown)
            return [outcome]

        with log.begin(action=OperationAction.REMOVE, command=command, at=clock()) as journal:
            report = carry_out(
                journal,
                (Removal(operation=journal.operation, number=0, item=item),),
                act,
                home,
                label="restoring",
                clock=clock,
                progress=progress or Silent(),
            )
    if isinstance(done, HoldfastError):
        raise done
    if report.count(Result.ROLLED_BACK):
        done = replace(done, operation=report.operation)
    if done.written or done.deleted or not settled:
        return done
    return _finished(home, settled, item, done, shown)


def _finished(
    home: Home, settled: Settled, asked: PlanItem, done: Rollback, shown: Preview | None
) -> Rollback:
    """The restore that settling finished, if it is the requested one. If it was killed when only
    its record was missing, the changed files are unknown; then those in `shown` are returned."""
    for entry in home.log.read().rolled_back:
        operation, item = entry.removal.operation, entry.removal.item
        same = (item.id, item.target, item.paths) == (asked.id, asked.target, asked.paths)
        for outcome in settled.get(operation, ()) if same else ():
            if outcome.id == item.id:
                known = outcome if outcome.written or outcome.deleted else shown or outcome
                return replace(
                    done,
                    written=known.written,
                    deleted=known.deleted,
                    safety_checkpoint=item.version,
                    operation=operation,
                )
    return done


def perform(
    store: CheckpointStore, removal: Removal, *, now: float, shown: Preview | None = None
) -> tuple[Outcome, Rollback | HoldfastError]:
    """Do or finish a restore. One that failed halfway counts as done, because it can be undone."""
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
    outcome = removal.end(Result.ROLLED_BACK, left_alone(done.kept))
    return replace(outcome, paths=len(done.written) + len(done.deleted)), done


def left_alone(kept: Sequence[NotCaptured]) -> str:
    """The paths that a restore did not touch, as one string; "" if there are none."""
    if not kept:
        return ""
    named = ", ".join(f"{each.path} ({each.reason})" for each in kept[:_NAMED])
    more = len(kept) - _NAMED
    return f"left as they are: {named}" + (f" and {more:,} more" if more > 0 else "")


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
