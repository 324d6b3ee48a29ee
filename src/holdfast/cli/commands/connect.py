"""`holdfast connect` and `disconnect`: Holdfast in the hooks of other agents."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.frame import Command
from holdfast.cli.invocation import Invocation, here
from holdfast.cli.output import name, note, nothing_changed, print_json, say, styled, suggest, table
from holdfast.cli.removal import asked, exit_code, print_declined
from holdfast.cli.show_plan import show_report
from holdfast.errors import UsageError
from holdfast.hooks.agents import AGENTS
from holdfast.hooks.codex_listed import distrusted
from holdfast.hooks.connect import (
    PROJECT,
    USER,
    Setup,
    Wired,
    plan_connect,
    plan_disconnect,
    wired,
)
from holdfast.hooks.switches import switched_off
from holdfast.model.plan import Action
from holdfast.model.rewrite import Rewrite

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.api.home import Home
    from holdfast.api.plan import HomePlan
    from holdfast.model.report import Report

_OTHER_NAMES = {"claude": "claude-code"}
_NAMES = ", ".join(AGENTS)


def _options(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option("--yes", "-y", is_flag=True, help="Do not ask."),
        click.option("--dry-run", "-n", is_flag=True, help="Show the plan and stop there."),
        click.option(
            "--scope",
            type=click.Choice((USER, PROJECT)),
            default=USER,
            show_default=True,
            help="For all your projects, or for the project in the current directory alone.",
        ),
    ):
        function = option(function)
    return function


@click.command(
    cls=Command,
    example="holdfast connect claude-code\nholdfast connect codex --scope project\n"
    "holdfast connect --status",
)
@click.argument("to", required=False, metavar="[AGENT]")
@click.option("--status", is_flag=True, help="Show where Holdfast is connected, and stop there.")
@_options
@click.pass_obj
def connect(
    invocation: Invocation,
    to: str | None,
    *,
    status: bool,
    scope: str,
    dry_run: bool,
    yes: bool,
) -> int:
    """Put Holdfast into the loop of an agent: claude-code, codex, gemini or opencode.

    From then on there is a checkpoint before each tool that may change files, and the budgets of
    [guard] hold: over one of them, no further tool runs. Holdfast adds its entries to the settings
    of the agent and leaves everything else in them as it is. `holdfast undo` takes that back,
    `holdfast disconnect` takes the entries out again at any time, and `holdfast doctor` tries the
    installed hooks.

    Checkpoints and budgets are kept in the home that this command works on: by default, Holdfast's
    own.
    """
    if status:
        return _status(invocation)
    setup = _setup(invocation, to, scope)
    planned = _planned(invocation.create_home(), setup, plan_connect(setup), "connected")
    done = _change(invocation, planned, dry_run=dry_run, yes=yes, question="Connect")
    if done == 0 and not dry_run and not invocation.json:
        flag = _flag(invocation)
        note(f"Agents that run now have to be started again. To try it: holdfast {flag}doctor")
    return done


@click.command(cls=Command, example="holdfast disconnect claude-code")
@click.argument("to", metavar="AGENT")
@_options
@click.pass_obj
def disconnect(invocation: Invocation, to: str, *, scope: str, dry_run: bool, yes: bool) -> int:
    """Take Holdfast out of the loop of an agent.

    Its entries leave the agent's settings; a file that nobody changed since becomes exactly what it
    was before. Checkpoints and notes stay.
    """
    setup = _setup(invocation, to, scope)
    home = invocation.create_home()
    planned = _planned(home, setup, plan_disconnect(setup, _done(home)), "disconnected")
    return _change(invocation, planned, dry_run=dry_run, yes=yes, question="Disconnect")


def _setup(invocation: Invocation, agent: str | None, scope: str) -> Setup:
    if agent is None:
        raise UsageError(f"Say which agent: {_NAMES}.", hint="Or look with --status.")
    named = _OTHER_NAMES.get(agent, agent)
    if named not in AGENTS:
        raise UsageError(f"Holdfast has no hooks for {agent!r}; it has them for {_NAMES}.")
    place = invocation.place(invocation.home_path)
    return Setup(
        agent=named,
        scope=scope,
        user_home=invocation.user_home,
        project=here() or invocation.user_home,
        home=invocation.home_path.absolute(),
        environ=os.environ,
        fails_closed=place.settings.loop_rules().blocks_on_failure,
    )


def _planned(home: Home, setup: Setup, rewrites: Sequence[Rewrite], reason: str) -> HomePlan:
    return home.plan_rewrites(
        rewrites, source=setup.agent, reason=f"{reason}: {setup.agent}, {setup.scope}"
    )


def _done(home: Home) -> Sequence[Rewrite]:
    """What was written into settings of agents and is still there."""
    entries = home.log.read().changed
    items = [e.removal.item for e in entries if e.removal.item.action is Action.REWRITE]
    return [Rewrite.of(each.id, each.version, each.target) for each in items]


def _change(
    invocation: Invocation, planned: HomePlan, *, dry_run: bool, yes: bool, question: str
) -> int:
    plan = planned.plan
    if not invocation.json:
        for item in plan.items:
            _show(Rewrite.of(item.id, item.version, item.target))
        if not plan.items:
            say("Nothing to do: the files are already like that.")
    if dry_run or not plan.items:
        _document(invocation, planned, None)
        if plan.items and not invocation.json:
            nothing_changed()
        return 0
    facts = [f"It changes {each.id}." for each in plan.items]
    declined = None if yes else asked(f"{question} {plan.items[0].source}?", "changed", facts=facts)
    if declined is not None:
        _document(invocation, planned, None)
        print_declined(declined)
        return declined.exit_code
    report = planned.apply().report
    _document(invocation, planned, report)
    if not invocation.json:
        _tell(invocation, report)
    return exit_code(report)


def _document(invocation: Invocation, planned: HomePlan, report: Report | None) -> None:
    if invocation.json:
        said = None if report is None else report.to_json()
        print_json({"plan": planned.plan.to_json(), "applied": report is not None, "report": said})


def _tell(invocation: Invocation, report: Report) -> None:
    flag = _flag(invocation)
    show_report(report, home_flag=flag)
    if report.changed:
        say("To take it back:")
        suggest(f"holdfast {flag}undo {report.operation}")


def _flag(invocation: Invocation) -> str:
    """Most machines with an agent have several homes; undo and the trial of hooks work on one."""
    several = len(invocation.machine.homes) > 1
    return invocation.home_flag or ("--home holdfast " if several else "")


def _show(change: Rewrite) -> None:
    """What is taken out of a file, and what is put in."""
    verb = "Make" if not change.before else "Change" if change.after else "Remove"
    say(name(f"{verb} {change.path}"))
    for sign, data, style in (("-", change.old, "red"), ("+", change.new, "green")):
        lines = [each for each in data.decode(errors="replace").splitlines() if each.strip()]
        most = 12
        for line in lines[:most]:
            say(styled(f"  {sign} {line}", style=style))
        if len(lines) > most:
            say(styled(f"  {sign} … {len(lines) - most} more lines", style="dim"))


def _status(invocation: Invocation) -> int:
    setups = [_setup(invocation, agent, scope) for agent in AGENTS for scope in (USER, PROJECT)]
    found = [_looked_at(each) for each in setups]
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
