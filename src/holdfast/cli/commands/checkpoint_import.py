"""`holdfast checkpoints import`: bring the checkpoints of another agent into our own store."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.checkpoint_options import resolved
from holdfast.cli.frame import Command
from holdfast.cli.invocation import Invocation
from holdfast.cli.progress import progress
from holdfast.errors import HoldfastError, UsageError

if TYPE_CHECKING:
    from holdfast.model.checkpoint import Imported

_HERMES = "hermes"
_USUAL = ".hermes"
_SHOWN = 10


@click.command(
    "import",
    cls=Command,
    example="holdfast checkpoints import --dry-run\n"
    "holdfast checkpoints import ~/work/site\n"
    "holdfast checkpoints import /srv/agent/.hermes",
)
@click.argument("source", metavar="[PATH]", required=False, type=click.Path())
@click.option("--all", "all_items", is_flag=True, help="List every checkpoint.")
@click.option("--dry-run", "-n", is_flag=True, help="Show what would be imported.")
@click.pass_obj
def command(invocation: Invocation, source: str | None, *, all_items: bool, dry_run: bool) -> int:
    """Bring checkpoints that Hermes took into Holdfast's own store, with their times and reasons.

    PATH is a home of Hermes, or a directory that it took checkpoints of; by default all of
    $HERMES_HOME, else of ~/.hermes. Nothing there is changed. What was imported before is left
    out, so it can be repeated. Older layouts are read, too.
    """
    from holdfast.api.home import Home
    from holdfast.model.checkpoint import ImportState

    home, workdir = _place(invocation, source)
    place = invocation.checked_place(invocation.home_path)
    with progress(stoppable=True) as shown:
        done = Home(place).import_checkpoints(home, path=workdir, dry_run=dry_run, progress=shown)
    if invocation.json:
        from holdfast.cli.output import print_json

        print_json(_document(home, done, dry_run=dry_run))
    else:
        _show(invocation, home, done, all_items=all_items, dry_run=dry_run)
    skipped = any(each.state is ImportState.SKIPPED for each in done)
    return HoldfastError.exit_code if skipped else 0


def _place(invocation: Invocation, source: str | None) -> tuple[Path, Path | None]:
    """The home of Hermes, and the directory that is meant, if it is one."""
    usual = invocation.named_homes.get(_HERMES, invocation.user_home / _USUAL)
    if source is None:
        return _checked(usual), None
    path = resolved(source)
    if _is_hermes(path):
        return path, None
    return _checked(usual), path


def _checked(home: Path) -> Path:
    if not _is_hermes(home):
        raise UsageError(
            f"There is no home of Hermes at {home}.",
            hint="Name one: holdfast checkpoints import PATH",
        )
    return home.resolve()


def _is_hermes(path: Path) -> bool:
    from holdfast.homes.registry import kind_of
    from holdfast.stores.files import storage_errors

    with storage_errors(f"read {path}"):
        kind = kind_of(path) if path.is_dir() else None
    return kind is not None and kind.name == _HERMES


def _document(home: Path, done: Sequence[Imported], *, dry_run: bool) -> dict[str, Any]:
    return {
        "source": str(home),
        "applied": not dry_run,
        **_counts(done),
        "checkpoints": [each.to_json() for each in done],
    }


def _counts(done: Sequence[Imported]) -> dict[str, int]:
    from holdfast.model.checkpoint import ImportState

    return {state.value: sum(each.state is state for each in done) for state in ImportState}


def _show(
    invocation: Invocation,
    home: Path,
    done: Sequence[Imported],
    *,
    all_items: bool,
    dry_run: bool,
) -> None:
    from holdfast.cli.output import name, say, suggest, table, when
    from holdfast.cli.show_checkpoints import short
    from holdfast.model.checkpoint import ImportState
    from holdfast.model.text import format_count

    fresh = [each for each in done if each.state is not ImportState.KNOWN]
    if fresh:
        rows = table("of Hermes", "here", "taken", "why", "directory")
        for each in fresh if all_items else fresh[:_SHOWN]:
            why = each.reason if not each.why else f"skipped: {each.why}"
            rows.add_row(
                short(each.origin), short(each.id), when(each.time), name(why), name(each.workdir)
            )
        say(rows)
        if len(fresh) > _SHOWN and not all_items:
            say(f"… and {len(fresh) - _SHOWN:,} more; --all lists them.")
        say()
    counts = _counts(done)
    verb = "would be imported" if dry_run else "imported"
    parts = [f"{format_count(counts['imported'], 'checkpoint')} {verb} from {home}"]
    parts += [f"{counts['known']:,} known already"] if counts["known"] else []
    parts += [f"{counts['skipped']:,} skipped"] if counts["skipped"] else []
    shown = bool(counts["imported"]) and not dry_run
    say(name("; ".join(parts) + (". To see them:" if shown else ".")))
    if shown:
        suggest(f"holdfast {invocation.home_flag}checkpoints list --all-projects")
