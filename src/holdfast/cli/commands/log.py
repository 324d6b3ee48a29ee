"""`holdfast log`: what was done to a home."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.cli.frame import command
from holdfast.cli.homes import each_or_one
from holdfast.cli.invocation import Invocation
from holdfast.cli.options import Keys, in_order, limit_option, sort_option
from holdfast.cli.output import name, note, print_json, say, say_rest, table, when
from holdfast.errors import DamageError
from holdfast.model.plan_words import did
from holdfast.model.text import format_bytes

if TYPE_CHECKING:
    from holdfast.model.operation import LogView, Operation

_LOG_KEYS: Keys[Operation] = {
    "id": lambda each: int(each.id),
    "when": lambda each: each.started_at,
    "command": lambda each: each.command,
    "did": did,
    "in-trash": lambda each: each.trash_bytes,
}


@command(example="holdfast log\nholdfast log --limit 5 --json")
@limit_option("Show the latest N.")
@sort_option(_LOG_KEYS, "id")
def log(invocation: Invocation, *, limit: int, sort: str) -> int:
    """List operations, the latest first: what they removed, and what undo can bring back."""
    return each_or_one(
        invocation,
        lambda here: _log(here, limit, sort),
        what="The log",
        is_empty=lambda home: not (view := home.log.read()).operations and not view.problems,
    )


def _log(invocation: Invocation, limit: int, sort: str) -> int:
    view = invocation.open_home().log.read()
    shown = in_order(view.operations[::-1], _LOG_KEYS, sort)[:limit]
    if invocation.json:
        print_json(
            {
                "operations": [each.to_json() for each in shown],
                "problems": [{"path": p.path, "reason": p.reason} for p in view.problems],
            }
        )
    else:
        _show_log(view, shown, sort)
    return DamageError.exit_code if view.problems else 0


def _show_log(view: LogView, shown: Sequence[Operation], sort: str) -> None:
    if not view.operations:
        say("The log is empty: there is nothing to undo.")
    else:
        machines = ("machine",) if any(each.machine for each in view.operations) else ()
        rows = table(
            "id",
            "when",
            *machines,
            "command",
            "did",
            "in trash",
            right=("id", "in trash"),
            whole=("id", "when"),
            drops=() if sort == "in-trash" else ("in trash",),
        )
        for operation in shown:
            rows.add_row(
                operation.id,
                when(operation.started_at),
                *(name(operation.machine) for _ in machines),
                name(operation.command),
                did(operation),
                format_bytes(operation.trash_bytes) if operation.trash_bytes else "",
            )
        say(rows)
        say_rest(len(view.operations) - len(shown), "; --limit shows them.")
    for problem in view.problems:
        note(f"warning: damaged: {problem.reason}")
