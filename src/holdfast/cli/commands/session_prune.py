"""`holdfast sessions prune`: remove what the policy does not keep."""

from __future__ import annotations

from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.frame import Choice, Command
from holdfast.cli.invocation import Invocation
from holdfast.cli.progress import progress
from holdfast.cli.removal import removal_options, remove
from holdfast.errors import UsageError
from holdfast.model.item import REQUEST_DUMP, TRANSCRIPT
from holdfast.model.units import parse_duration, parse_size

if TYPE_CHECKING:
    from holdfast.config import Settings
    from holdfast.model.inventory import Inventory
    from holdfast.policy.rules import Caps, Policy, Rules

_KINDS = {"transcript": TRANSCRIPT, "request-dump": REQUEST_DUMP}
_COUNT = click.IntRange(min=1)


@click.command(
    "prune",
    cls=Command,
    example="holdfast sessions prune --older-than 30d --source cron --dry-run\n"
    "holdfast sessions prune --keep-last 20 --keep-daily 14 --yes\n"
    "holdfast sessions prune --max-total-size 500MB",
)
@click.option(
    "--older-than", metavar="WHEN", help="Last active before: 5h, 2d, 1w, 2026-03-25, an ISO time."
)
@click.option("--source", "sources", multiple=True, metavar="NAME", help="Only from this source.")
@click.option(
    "--kind", "kinds", multiple=True, type=Choice(list(_KINDS)), help="Only of this kind."
)
@click.option("--keep-last", type=_COUNT, metavar="N", help="Keep the last N of each group.")
@click.option("--keep-within", metavar="DURATION", help="Keep what is this close to the newest.")
@click.option("--keep-hourly", type=_COUNT, metavar="N", help="Keep the last of each of N hours.")
@click.option("--keep-daily", type=_COUNT, metavar="N", help="Keep the last of each of N days.")
@click.option("--keep-weekly", type=_COUNT, metavar="N", help="Keep the last of each of N weeks.")
@click.option("--keep-monthly", type=_COUNT, metavar="N", help="Keep the last of N months each.")
@click.option("--keep-yearly", type=_COUNT, metavar="N", help="Keep the last of N years each.")
@click.option("--max-total-size", metavar="SIZE", help="Bound the bytes that stay: 500MB, 2GB.")
@click.option("--max-count", type=_COUNT, metavar="N", help="Bound the number of files that stay.")
@click.option("--now", "skip_trash", is_flag=True, help="Skip the trash; this cannot be undone.")
@removal_options
@click.pass_obj
def command(
    invocation: Invocation,
    /,
    *,
    sources: tuple[str, ...],
    kinds: tuple[str, ...],
    skip_trash: bool,
    dry_run: bool,
    yes: bool,
    plan_out: Path | None,
    all_items: bool,
    **knobs: Any,
) -> int:
    """Remove session files that the policy does not keep.

    Without rules of its own the command uses the policy in config.toml: by default, what was
    last active more than 90 days ago goes. Any --older-than or --keep-… flag replaces those
    rules for this run, any --max-… flag the caps. A group is the files of one kind and source.

    Files that are open, or were touched within the last day, always stay, and so do pinned
    sessions. What goes stays in the trash for a week (trash_days), where `holdfast undo` finds
    it; what only a size cap removes goes at once, because the trash counts too.
    """
    from holdfast.policy.selection import Selection
    from holdfast.services.prune import plan_prune

    home, settings = invocation.open_home()
    policy = _policy(invocation, settings, knobs, use_trash=not skip_trash)
    with progress() as shown:
        plan, inventory = plan_prune(
            home,
            policy,
            now=invocation.now,
            command=invocation.command_line,
            selection=Selection(
                kinds=frozenset(_KINDS[kind] for kind in kinds) or None,
                sources=frozenset(sources) or None,
            ),
            progress=shown,
        )
    _tell(inventory, sources)
    return remove(
        invocation,
        home,
        plan,
        dry_run=dry_run,
        yes=yes,
        plan_out=plan_out,
        all_items=all_items,
    )


def _policy(
    invocation: Invocation, settings: Settings, knobs: dict[str, Any], *, use_trash: bool
) -> Policy:
    """The policy of the configuration, with its rules or caps replaced by those of the flags."""
    from holdfast.policy.rules import Limits

    policy = settings.policy(use_trash=use_trash)
    rules, caps = _rules(invocation, knobs), _caps(knobs)
    if rules.empty and caps.empty:
        return policy
    everywhere = Limits(
        rules=policy.everywhere.rules if rules.empty else rules,
        caps=policy.everywhere.caps if caps.empty else caps,
    )
    by_source = {
        source: Limits(rules=limits.rules if rules.empty else rules, caps=limits.caps)
        for source, limits in policy.by_source.items()
    }
    return replace(policy, everywhere=everywhere, by_source=by_source)


def _rules(invocation: Invocation, knobs: dict[str, Any]) -> Rules:
    from holdfast.policy.rules import BUCKETS, Rules

    older_than, within = knobs["older_than"], knobs["keep_within"]
    counts = {f"keep_{name}": knobs[f"keep_{name}"] or 0 for name in (*BUCKETS, "last")}
    return Rules(
        max_age=None if older_than is None else _age(invocation, older_than),
        keep_within=None if within is None else parse_duration(within),
        **counts,
    )


def _age(invocation: Invocation, text: str) -> float:
    age = invocation.now - invocation.moment(text)
    if age < 0:
        raise UsageError(
            f"--older-than {text} lies in the future.", hint="Everything would count as old."
        )
    return age


def _caps(knobs: dict[str, Any]) -> Caps:
    from holdfast.policy.rules import Caps

    size = knobs["max_total_size"]
    return Caps(max_bytes=None if size is None else parse_size(size), max_count=knobs["max_count"])


def _tell(inventory: Inventory, sources: tuple[str, ...]) -> None:
    """What the plan does not show: what could not be looked at, and sources that are not there."""
    from holdfast.cli.output import note

    for problem in inventory.problems:
        note(f"warning: {problem.path}: {problem.reason}")
    known = {item.source for item in inventory.everything}
    for source in sources:
        if source not in known:
            near = get_close_matches(source, known, n=1)
            also = f"; did you mean {near[0]!r}?" if near else "."
            note(f"note: nothing here comes from {source!r}{also}")
