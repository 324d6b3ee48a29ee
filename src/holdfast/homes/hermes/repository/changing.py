"""Who may change Hermes's checkpoint store, and when."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from holdfast.errors import StorageError
from holdfast.homes.hermes.repository.gc_lock import gc_lock
from holdfast.homes.hermes.repository.known import check_known
from holdfast.homes.hermes.repository.layout import HermesLayout
from holdfast.homes.hermes.repository.quarantine import Quarantine
from holdfast.stores import lock
from holdfast.stores.files import make_private_dir, storage_errors

_WAIT = 30.0


@contextlib.contextmanager
def changing(layout: HermesLayout, *, holder: str) -> Iterator[None]:
    """One process of ours at a time changes the store, and no `git gc` removes objects meanwhile.

    Hermes knows no lock, so whatever is done under this one must be safe beside a Hermes that
    takes a checkpoint.
    """
    _check_owner(layout)
    check_known(layout)
    with storage_errors(f"make {layout.notes}"):
        make_private_dir(layout.notes)
    with (
        lock.exclusive(
            layout.notes / "lock",
            holder=holder,
            wait=_WAIT,
            doing="changing the checkpoints in",
            place=layout.folder,
        ),
        gc_lock(layout.store, wait=_WAIT),
    ):
        Quarantine(layout.store).bring_back_all()  # of a killed run: nobody looked at it again
        yield


def _check_owner(layout: HermesLayout) -> None:
    with storage_errors(f"open the checkpoint store {layout.store}"):
        owner = layout.store.stat().st_uid
    if owner != os.geteuid():
        raise StorageError(
            f"The checkpoint store {layout.store} belongs to user {owner}, not to you.",
            hint="Run this as its owner: files of two owners would lock Hermes out.",
        )
