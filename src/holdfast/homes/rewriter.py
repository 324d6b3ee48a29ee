"""Changes files of other programs, and changes them back: entries of ours in their settings.

There is no undo copy: the log holds the change. A file whose content is neither that from before
nor that from after was changed by somebody else, and stays.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from holdfast.model.operation import Removal
from holdfast.model.plan import PlanItem
from holdfast.model.report import Outcome, Result
from holdfast.model.rewrite import Rewrite, identity
from holdfast.spine.keeper import one_by_one
from holdfast.spine.outcomes import CHANGED, NOT_REACHED
from holdfast.stores.files import PRIVATE_FILE, read_file, sync_dir, write_all

_SINCE = "it was changed since; take our entries out with `holdfast disconnect`"


class Rewriter:
    """The doer for files of kind `setting`."""

    def prepare(self, items: Sequence[PlanItem]) -> None:
        """Nothing has to be ready."""

    def do(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return _each(batch, _do)

    def settle(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return _each(batch, _settle)

    def undo(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return _each(batch, _undo)


def _each(batch: Sequence[Removal], step: Callable[[Removal], Outcome]) -> Sequence[Outcome]:
    """One that fails does not affect the others."""
    outcomes: list[Outcome] = []
    for removal in batch:
        refuse = partial(removal.end, Result.FAILED)
        outcomes += one_by_one([removal], step, refuse)
    return outcomes


def _do(removal: Removal) -> Outcome:
    change = _change(removal)
    content = _content(change.path)
    if identity(content) != change.before:
        return removal.end(Result.SKIPPED, CHANGED)
    _put(change, change.applied(content or b"") if change.after else None)
    return removal.end(Result.CHANGED)


def _settle(removal: Removal) -> Outcome:
    """The content says how far a killed run came: it changes in one step."""
    change = _change(removal)
    if identity(_content(change.path)) == change.after:
        return removal.end(Result.CHANGED)
    return removal.end(Result.SKIPPED, NOT_REACHED)


def _undo(removal: Removal) -> Outcome:
    change = _change(removal)
    content = _content(change.path)
    if identity(content) == change.before:
        return removal.end(Result.BROUGHT_BACK)  # a killed undo had come this far
    if identity(content) != change.after:
        return removal.end(Result.FAILED, _SINCE)
    _put(change, change.reverted(content or b"") if change.before else None)
    return removal.end(Result.BROUGHT_BACK)


def _change(removal: Removal) -> Rewrite:
    return Rewrite.of(removal.item.id, removal.item.version, removal.item.target)


def _content(path: str) -> bytes | None:
    try:
        return read_file(path)
    except FileNotFoundError:
        return None


def _put(change: Rewrite, content: bytes | None) -> None:
    """Write a file whole, with the rights that it had; None removes it, with the folders that were
    made for it. A link stays a link, as in a folder of dotfiles: what it points to is replaced."""
    real = Path(os.path.realpath(change.path))
    if content is None:
        real.unlink(missing_ok=True)
        sync_dir(real.parent)
        for each in reversed(change.folders):
            with contextlib.suppress(OSError):  # somebody else has put something there
                Path(each).rmdir()
        return
    for each in change.folders:
        with contextlib.suppress(FileExistsError):
            Path(each).mkdir()
    mode = real.stat().st_mode & 0o777 if real.exists() else PRIVATE_FILE
    temporary = real.with_name(f".{real.name}.{os.getpid()}.tmp")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE_FILE)
    try:
        with contextlib.suppress(OSError):
            os.fchmod(fd, mode)
        write_all(fd, content)
        os.fsync(fd)
        temporary.replace(real)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    finally:
        os.close(fd)
    sync_dir(real.parent)
