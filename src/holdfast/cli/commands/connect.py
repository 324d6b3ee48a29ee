"""`holdfast connect` and `disconnect`: Holdfast in the hooks of other agents."""

from __future__ import annotations

from difflib import SequenceMatcher
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.api.connect import SCOPES, Connection, ConnectPlan
from holdfast.cli.frame import command, option_group
from holdfast.cli.invocation import Invocation, here
from holdfast.cli.output import name, note, nothing_changed, print_json, say, suggest, table
from holdfast.cli.removal import applied_json, asked, exit_code, print_declined, tell_finished
from holdfast.cli.show_plan import show_report
from holdfast.errors import UsageError
from holdfast.model.rewrite import Rewrite, identity

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.model.plan import Plan
    from holdfast.model.report import Report

_NAMES = "claude-code, codex, gemini, opencode"
#: How many lines of a change are shown.
_MOST = 12
#: A longer line is a whole file in one line, and contains more than the change.
_LONGEST = 300
_STYLES = {"-": "red", "+": "green"}


_options = option_group(
    click.option(
        "--scope",
        type=click.Choice(SCOPES),
        default=SCOPES[0],
        show_default=True,
        help="For all your projects, or for the project in the current directory alone.",
    ),
    click.option("--all", "all_items", is_flag=True, help="Show every line of the plan."),
    click.option("--dry-run", "-n", is_flag=True, help="Show the plan and stop there."),
    click.option("--yes", "-y", is_flag=True, help="Do not ask."),
)


@command(
    example="holdfast connect claude-code\nholdfast connect codex --scope project\n"
    "holdfast connect --status"
)
@click.argument("to", required=False, metavar="[AGENT]")
@click.option("--status", is_flag=True, help="Show where Holdfast is connected, and stop there.")
@_options
def connect(
    invocation: Invocation,
    to: str | None,
    *,
    status: bool,
    scope: str,
    dry_run: bool,
    all_items: bool,
    yes: bool,
) -> int:
    """Connect Holdfast to an agent: claude-code, codex, gemini or opencode.

    From then on Holdfast takes a checkpoint before each tool that may change files, and the budgets
    of [guard] apply: over a budget, no further tool runs. Holdfast adds its entries to the settings
    of the agent and leaves everything else in them as it is. `holdfast undo` undoes that,
    `holdfast disconnect` removes the entries at any time, and `holdfast doctor` tests the installed
    hooks.

    Checkpoints and budgets are kept in the home that this command works on: by default, Holdfast's
    own.
    """
    if status:
        return _status(invocation)
    if to is None:
        raise UsageError(f"Name an agent: {_NAMES}.", hint="--status shows which are connected.")
    planned = invocation.machine.plan_connect(to, scope=scope, **_where(invocation))
    question = f"Connect {to}?"
    code, changed = _change(
        invocation, planned, question, dry_run=dry_run, all_items=all_items, yes=yes
    )
    if changed and not invocation.json:
        flag = invocation.one_home_flag
        note(f"Restart agents that are running now. To test the hooks: holdfast {flag}doctor")
    return code


@command(example="holdfast disconnect claude-code")
@click.argument("to", metavar="AGENT")
@_options
def disconnect(
    invocation: Invocation, to: str, *, scope: str, dry_run: bool, all_items: bool, yes: bool
) -> int:
    """Disconnect Holdfast from an agent.

    Removes Holdfast's entries from the agent's settings; a file that was not changed since
    becomes exactly what it was before. Checkpoints and notes stay.
    """
    planned = invocation.machine.plan_disconnect(to, scope=scope, **_where(invocation))
    question = f"Disconnect {to}?"
    code, _ = _change(invocation, planned, question, dry_run=dry_run, all_items=all_items, yes=yes)
    return code


def _where(invocation: Invocation) -> dict[str, Path]:
    """The home in which hooks keep checkpoints, and the project of the current directory."""
    return {"home": invocation.home_path, "project": here() or invocation.user_home}


def _change(
    invocation: Invocation,
    planned: ConnectPlan,
    question: str,
    *,
    dry_run: bool,
    all_items: bool,
    yes: bool,
) -> tuple[int, bool]:
    """Apply a change after asking. Returns the exit code, and whether anything was changed."""
    rewrites = planned.rewrites
    if not invocation.json:
        for each in rewrites:
            _show_rewrite(each, planned.links.get(each.path, ""), all_lines=all_items)
        if not rewrites:
            say(f"Nothing to do: {planned.agent} is already {planned.word}.")
    if not rewrites and not dry_run:
        tell_finished(planned.settle())
    if dry_run or not rewrites:
        _document(invocation, planned.plan, None)
        if rewrites and not invocation.json:
            nothing_changed()
        return 0, False
    facts = [f"It changes {each.path}." for each in rewrites]
    declined = None if yes else asked(question, "changed", facts=facts)
    if declined is not None:
        _document(invocation, planned.plan, None)
        return print_declined(declined), False
    invocation.warn()
    report = planned.apply().report
    _document(invocation, planned.plan, report)
    if not invocation.json:
        _tell(invocation, report)
    return exit_code(report), bool(report.changed)


def _document(invocation: Invocation, plan: Plan, report: Report | None) -> None:
    if invocation.json:
        print_json({"plan": plan.to_json(), **applied_json(report)})


def _tell(invocation: Invocation, report: Report) -> None:
    flag = invocation.one_home_flag
    show_report(report, home_flag=flag)
    if report.changed:
        suggest("", "To undo it:", f"holdfast {flag}undo {report.operation}")


def _status(invocation: Invocation) -> int:
    found = invocation.machine.connections(**_where(invocation))
    if invocation.json:
        print_json({"connections": [_json(each) for each in found]})
        return 0
    rows = table("agent", "scope", "connected", "file")
    for each in found:
        if each.scope == SCOPES[0] or each.connected:
            rows.add_row(each.agent, each.scope, _word(each), name(str(each.path)))
    say(rows)
    return 0


def _word(each: Connection) -> str:
    if each.problem:
        return f"unreadable: {each.problem}"
    if not each.connected:
        return "no"
    return f"yes, but off: {each.off}" if each.off else "yes"


def _json(each: Connection) -> dict[str, Any]:
    return {
        "agent": each.agent,
        "scope": each.scope,
        "path": str(each.path),
        "connected": each.connected,
        "events": list(each.events),
        "problem": each.problem or each.off or None,
    }


# --- What changes in a file: its removed and added lines ------------------------------------------


def _show_rewrite(change: Rewrite, leads_to: str, *, all_lines: bool) -> None:
    """`leads_to` is the target if the file is a link; "" if it is not."""
    verb = "Make" if not change.before else "Change" if change.after else "Remove"
    where = f", a link to {leads_to}" if leads_to else ""
    say(name(f"{verb} {change.path}{where}"))
    lines = _by_line(change) or [*_lines("-", change.old), *_lines("+", change.new)]
    for sign, style in _STYLES.items():
        shown = [line for which, line in lines if which == sign]
        for line in shown if all_lines else shown[:_MOST]:
            say(f"  {sign} {line.expandtabs(4)}", style)
        if len(shown) > _MOST and not all_lines:
            rest = len(shown) - _MOST
            say(f"  {sign} … {rest} more lines; --all shows them", "dim")


def _by_line(change: Rewrite) -> Sequence[tuple[str, str]]:
    """The changed lines, or nothing if the change cannot be shown clearly. The rewrite covers
    everything between two changed places, including content of others, which a comparison by lines
    leaves out. A comma at the end of a line does not count as a difference."""
    try:
        content = Path(change.path).read_bytes() if change.before else b""
    except OSError:
        return ()
    if not change.before or identity(content) != change.before:
        return ()
    was, now = _texts(content), _texts(change.applied(content))
    old, new = ([each.rstrip().removesuffix(",") for each in lines] for lines in (was, now))
    found: list[tuple[str, str]] = []
    matches = SequenceMatcher(None, old, new, autojunk=False)
    for what, start, end, begin, stop in matches.get_opcodes():
        if what != "equal":
            found += [("-", each) for each in was[start:end] if each.strip()]
            found += [("+", each) for each in now[begin:stop] if each.strip()]
    return () if any(len(each) > _LONGEST for _, each in found) else found


def _lines(sign: str, data: bytes) -> Iterator[tuple[str, str]]:
    return ((sign, each) for each in _texts(data) if each.strip())


def _texts(data: bytes) -> list[str]:
    return data.decode(errors="replace").splitlines()
