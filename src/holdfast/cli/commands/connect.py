"""`holdfast connect` and `disconnect`: Holdfast in the hooks of other agents."""

from __future__ import annotations

import os
from difflib import SequenceMatcher
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.api.place import is_home
from holdfast.api.plan import rewrite_plan
from holdfast.cli.frame import command, option_group
from holdfast.cli.invocation import Invocation, here
from holdfast.cli.output import name, note, nothing_changed, print_json, say, suggest, table
from holdfast.cli.removal import applied_json, asked, exit_code, print_declined
from holdfast.cli.show_plan import show_report
from holdfast.errors import UsageError
from holdfast.hooks.agents import AGENTS
from holdfast.hooks.connect import (
    PROJECT,
    USER,
    Setup,
    Wired,
    leads_to,
    plan_connect,
    plan_disconnect,
    settings_file,
    wired,
)
from holdfast.hooks.switches import distrusted, switched_off
from holdfast.model.plan import Action
from holdfast.model.rewrite import Rewrite, identity
from holdfast.value import dataclass, replace

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.model.plan import Plan
    from holdfast.model.report import Report

_OTHER_NAMES = {"claude": "claude-code"}
_NAMES = ", ".join(AGENTS)
#: Lines of a change that are shown.
_MOST = 12
#: A longer line is a whole file in one, and says more than what is changed in it.
_LONGEST = 300
_STYLES = {"-": "red", "+": "green"}


_options = option_group(
    click.option(
        "--scope",
        type=click.Choice((USER, PROJECT)),
        default=USER,
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
    """Put Holdfast into the loop of an agent: claude-code, codex, gemini or opencode.

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
    setup = _setup(invocation, to, scope)
    change = _Change(setup=setup, rewrites=plan_connect(setup), word="connected")
    code, changed = _change(
        invocation, change, dry_run=dry_run, all_items=all_items, yes=yes, question="Connect"
    )
    if changed and not invocation.json:
        flag = _flag(invocation)
        note(f"Restart agents that are running now. To test the hooks: holdfast {flag}doctor")
    return code


@command(example="holdfast disconnect claude-code")
@click.argument("to", metavar="AGENT")
@_options
def disconnect(
    invocation: Invocation, to: str, *, scope: str, dry_run: bool, all_items: bool, yes: bool
) -> int:
    """Take Holdfast out of the loop of an agent.

    Removes Holdfast's entries from the agent's settings; a file that nobody has changed since
    becomes exactly what it was before. Checkpoints and notes stay.
    """
    setup = _setup(invocation, to, scope)
    rewrites = plan_disconnect(setup, _done(invocation))
    change = _Change(setup=setup, rewrites=rewrites, word="disconnected")
    code, _ = _change(
        invocation, change, dry_run=dry_run, all_items=all_items, yes=yes, question="Disconnect"
    )
    return code


def _setup(invocation: Invocation, agent: str | None, scope: str) -> Setup:
    if agent is None:
        raise UsageError(f"Name an agent: {_NAMES}.", hint="--status shows which are connected.")
    named = _OTHER_NAMES.get(agent, agent)
    if named not in AGENTS:
        raise UsageError(f"Holdfast cannot connect to {agent!r}, only to {_NAMES}.")
    place = invocation.place(invocation.home_path)
    fails_closed = place.settings.loop_rules().blocks_on_failure
    return replace(setup_of(invocation, named, scope), fails_closed=fails_closed)


def setup_of(invocation: Invocation, agent: str, scope: str = USER) -> Setup:
    """An agent as it is, or would be, connected to the chosen home."""
    return Setup(
        agent=agent,
        scope=scope,
        user_home=invocation.user_home,
        project=here() or invocation.user_home,
        home=invocation.home_path.absolute(),
        environ=os.environ,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    """What is to be written, and where."""

    setup: Setup
    rewrites: Sequence[Rewrite]
    word: str

    @property
    def reason(self) -> str:
        return f"{self.word}: {self.setup.agent}, {self.setup.scope}"


def _done(invocation: Invocation) -> Sequence[Rewrite]:
    """What was written into settings of agents and is still there."""
    if not is_home(invocation.home_path):
        return ()
    entries = invocation.open_home().log.read().changed
    items = [e.removal.item for e in entries if e.removal.item.action is Action.REWRITE]
    return [Rewrite.of(each.id, each.version, each.target) for each in items]


def _change(
    invocation: Invocation,
    change: _Change,
    *,
    dry_run: bool,
    all_items: bool,
    yes: bool,
    question: str,
) -> tuple[int, bool]:
    """The exit code, and whether anything was changed. Until somebody says yes nothing is made, not
    even the home."""
    setup, rewrites = change.setup, [each for each in change.rewrites if not each.nothing]
    words = {"source": setup.agent, "reason": change.reason}
    place = invocation.place(invocation.home_path)
    plan = rewrite_plan(place, setup.home, rewrites, **words)
    if not invocation.json:
        for each in rewrites:
            _show_rewrite(each, leads_to(setup, Path(each.path)), all_lines=all_items)
        if not rewrites:
            say(f"Nothing to do: {setup.agent} is already {change.word}.")
    if dry_run or not rewrites:
        _document(invocation, plan, None)
        if rewrites and not invocation.json:
            nothing_changed()
        return 0, False
    facts = [f"It changes {each.path}." for each in rewrites]
    declined = None if yes else asked(f"{question} {setup.agent}?", "changed", facts=facts)
    if declined is not None:
        _document(invocation, plan, None)
        return print_declined(declined), False
    planned = invocation.create_home().plan_rewrites(rewrites, **words)
    report = planned.apply().report
    _document(invocation, planned.plan, report)
    if not invocation.json:
        _tell(invocation, report)
    return exit_code(report), bool(report.changed)


def _document(invocation: Invocation, plan: Plan, report: Report | None) -> None:
    if invocation.json:
        print_json({"plan": plan.to_json(), **applied_json(report)})


def _tell(invocation: Invocation, report: Report) -> None:
    flag = _flag(invocation)
    show_report(report, home_flag=flag)
    if report.changed:
        suggest("", "To undo it:", f"holdfast {flag}undo {report.operation}")


def _flag(invocation: Invocation) -> str:
    """Most machines with an agent have several homes; undo and the trial of hooks work on one."""
    several = len(invocation.machine.homes) > 1
    return invocation.home_flag or ("--home holdfast " if several else "")


def _status(invocation: Invocation) -> int:
    setups = [_setup(invocation, agent, scope) for agent in AGENTS for scope in (USER, PROJECT)]
    # In the home directory both scopes may have one file.
    by_file = {(each.agent, settings_file(each)): each for each in reversed(setups)}
    found = [_looked_at(each) for each in reversed(by_file.values())]
    if invocation.json:
        print_json({"connections": [_json(*each) for each in found]})
        return 0
    rows = table("agent", "scope", "connected", "file")
    for each, off in found:
        if each.scope == USER or each.installed:
            rows.add_row(each.agent, each.scope, _word(each, off), name(str(each.path)))
    say(rows)
    return 0


def _looked_at(setup: Setup) -> tuple[Wired, str]:
    """What is installed, and why it does not run all the same."""
    seen = wired(setup)
    if not seen.installed:
        return seen, ""
    off = switched_off(setup, seen)
    if not off and seen.agent == "codex":
        why = distrusted(setup)
        scope = "" if seen.scope == USER else f" --scope {seen.scope}"
        off = why and f"{why}; `holdfast connect codex{scope}` puts that right"
    return seen, off


def _word(each: Wired, off: str) -> str:
    if each.problem:
        return f"unreadable: {each.problem}"
    if not each.installed:
        return "no"
    return f"yes, but off: {off}" if off else "yes"


def _json(each: Wired, off: str) -> dict[str, Any]:
    return {
        "agent": each.agent,
        "scope": each.scope,
        "path": str(each.path),
        "connected": each.installed,
        "events": sorted(each.commands),
        "problem": each.problem or off or None,
    }


# --- What changes in a file: the lines that leave it, and those that come -------------------------


def _show_rewrite(change: Rewrite, leads_to: str, *, all_lines: bool) -> None:
    """`leads_to` is where a link in the place of the file leads to; "" when there is none."""
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
    """What differs line by line: between two places that change, others wrote something too. A
    comma at the end of a line is no difference. Nothing when that would not be plain."""
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
