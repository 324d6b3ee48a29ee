"""Checkpoints inside an agent: the store of a home and a recorder, put together."""

from __future__ import annotations

import time
from collections.abc import Sequence

from holdfast import config
from holdfast.homes.checkpoints import checkpoint_store
from holdfast.homes.registry import create_home
from holdfast.model.checkpoint import Capturing
from holdfast.model.places import StrPath, expanded, named_place
from holdfast.ports import Clock
from holdfast.services.recorder import Recorder


def open_checkpoints(
    home: StrPath,
    *,
    session: str | None = None,
    workdirs: Sequence[StrPath] = (),
    enabled: bool | None = None,
    hash_all: bool | None = None,
    user_home: StrPath | None = None,
    clock: Clock = time.time,  # noqa: TID251 - a host that has no clock of its own wants this one
) -> Recorder:
    """A recorder of checkpoints in a home, which is made when there is none.

    What the home's config.toml says under [checkpoints] holds; `enabled` and `hash_all` outrank it.
    With `hash_all` every file is read each time, so that a write through a shared memory map is
    seen, too. Its `store` lists and compares them; `rollback` restores one. `user_home` is a place
    that is too broad for a checkpoint: by default, the home directory of whoever runs this.
    """
    root = named_place(home)
    create_home(root)
    root = root.resolve()
    settings = config.load(root / "config.toml", {}).checkpoints
    how = Capturing(
        user_home=expanded(user_home or "~"),
        max_file_size=settings.max_file_bytes,
        excludes=settings.exclude,
        max_snapshots=settings.max_snapshots,
        max_bytes=settings.max_bytes,
        hash_all=settings.hash_all if hash_all is None else hash_all,
    )
    store = checkpoint_store(root, how)
    return Recorder(
        store,
        clock=clock,
        session=session,
        workdirs=workdirs,
        enabled=settings.enabled if enabled is None else enabled,
    )
