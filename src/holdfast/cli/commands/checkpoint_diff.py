"""`holdfast checkpoints diff`: what differs between a checkpoint and now, or another one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.checkpoint_options import (
    chosen,
    hash_option,
    need_store,
    newest_here,
    paths_argument,
    second_id,
    within,
)
from holdfast.cli.frame import Command
from holdfast.cli.invocation import Invocation

if TYPE_CHECKING:
    from holdfast.model.checkpoint import Change, Checkpoint
    from holdfast.ports import CheckpointStore


@click.command(
    "diff",
    cls=Command,
    example="holdfast checkpoints diff\n"
    "holdfast checkpoints diff 3f2a1b9c\n"
    "holdfast checkpoints diff 3f2a1b9c 77e0d2aa src --stat\n"
    "holdfast checkpoints diff 3f2a1b9c src/main.py | git apply --reverse",
)
@click.argument("checkpoint", metavar="[ID]", required=False)
@paths_argument
@hash_option
@click.option("--stat", is_flag=True, help="Only how much changed, file by file.")
@click.pass_obj
def command(
    invocation: Invocation,
    checkpoint: str | None,
    paths: tuple[str, ...],
    *,
    hash_all: bool,
    stat: bool,
) -> int:
    """Show what changed since a checkpoint: until now, or until another one.

    Usage: diff [ID] [ID2] [PATH]...  Without an id it is the newest of the current directory. It
    reads like git's, and `git apply` understands it. A path that looks like an id is one if there
    is such a checkpoint; write ./path otherwise.
    """
    store = need_store(invocation, hash_all=hash_all)
    old = store.ready(newest_here(store) if checkpoint is None else chosen(store, checkpoint))
    other, rest = second_id(store, paths)
    other = None if other is None else store.ready(other)
    wanted = within(old, rest)
    with store.reading():  # what a look finds is held by nothing else
        new = other.tree if other else store.look(Path(old.workdir)).tree
        changes = [each for each in store.changes(old.tree, new) if _is_below(each.path, wanted)]
        lines = () if invocation.json else _lines(store, old.tree, new, wanted, stat=stat)
    if invocation.json:
        from holdfast.cli.output import print_json

        print_json(_document(old, other, changes))
        return 0
    from holdfast.cli.show_diff import show_diff

    show_diff(lines, changes)
    return 0


def _is_below(path: str, wanted: Sequence[str]) -> bool:
    return not wanted or any(not w or path == w or path.startswith(f"{w}/") for w in wanted)


def _lines(
    store: CheckpointStore, old: str, new: str, wanted: Sequence[str], *, stat: bool
) -> Iterable[bytes]:
    from holdfast.cli.output import console

    paths = () if "" in wanted else tuple(wanted)
    if stat:
        return store.statistics(old, new, paths, width=console().width)
    return store.patch(old, new, paths)


def _document(
    old: Checkpoint, other: Checkpoint | None, changes: Sequence[Change]
) -> dict[str, Any]:
    return {
        "from": old.known_id,
        "to": other.known_id if other else None,
        "workdir": old.workdir,
        "changes": [
            {
                "path": each.path,
                "kind": each.kind.value,
                "old_mode": f"{each.old.mode:06o}" if each.old else None,
                "new_mode": f"{each.new.mode:06o}" if each.new else None,
            }
            for each in changes
        ],
    }
