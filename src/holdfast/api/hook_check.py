"""Check each installed hook: does it work, and what would it answer now?"""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from holdfast.api.loop import Loop
from holdfast.api.place import Place
from holdfast.connect import EVENTS
from holdfast.connect.settings_entries import PROJECT, USER, Setup, Wired, wired
from holdfast.connect.switched_off import switched_off, untrusted
from holdfast.connect.trial import Trial, try_hook
from holdfast.hooks.client import is_private, runtime_folder
from holdfast.model.checkup import Finding, HookAnswer, HookReport, Severity
from holdfast.model.loop import Decision
from holdfast.policy.loop_guard import in_words
from holdfast.ports.runs import Clock
from holdfast.value import replace

_DAY = 86_400
NEW_SESSION = "a tool in a new session here"


def check_hooks(setup: Setup, clock: Clock) -> tuple[tuple[HookReport, ...], Sequence[Finding]]:
    """Examine every connection of this home. Return the reports, and findings for a check-up."""
    found = tuple(examine_hooks(setup, clock()))
    return found, [*_findings_of(found), *_examine_helper(found, setup.home)]


def examine_hooks(setup: Setup, now: float) -> Sequence[HookReport]:
    """Return a report about every connection of this home. The agent and scope of `setup` do not
    matter."""
    loop = Loop(Place(setup.home, clock=lambda: now))
    return [_examined(each, seen, loop, now) for each, seen in _connected(setup)]


def _connected(setup: Setup) -> Iterator[tuple[Setup, Wired]]:
    for agent in EVENTS:
        for scope in (USER, PROJECT):
            each = replace(setup, agent=agent, scope=scope)
            seen = wired(each)
            if scope == PROJECT and seen.path == wired(replace(each, scope=USER)).path:
                continue
            if seen.home == setup.home:
                yield each, seen


def _examined(setup: Setup, seen: Wired, loop: Loop, now: float) -> HookReport:
    found = HookReport(agent=seen.agent, scope=seen.scope, path=str(seen.path))
    again = f"`holdfast connect {seen.agent}` installs it again."
    missing = [each for each in EVENTS[seen.agent] if each not in seen.commands]
    if missing:
        return replace(found, problem=f"it is not installed for {missing[0]}", advice=again)
    off = switched_off(setup, seen)
    if off:
        advice = "Correct that file yourself: Holdfast never changes this setting."
        known = f"{seen.agent} does not start it: {off}"
        return replace(found, problem=known, advice=again if off.endswith(" is gone") else advice)
    trial: Trial = try_hook(seen)
    problem = trial.problem
    if not problem and seen.agent == "codex":
        problem = untrusted(setup)
    found = replace(found, tried=trial.answers)
    if problem:
        return replace(found, problem=problem, advice=again)
    decision, budgets = loop.outlook(seen.agent, setup.project)
    now_here = _answer(NEW_SESSION, decision)
    return replace(
        found,
        now=now_here if now_here.reason else replace(now_here, reason=in_words(budgets)),
        sessions=tuple(_sessions(loop, seen.agent, now)),
        warnings=tuple(_warnings(loop, seen)),
    )


#: Agents whose transcripts record no cost for any model.
_WITHOUT_COST = ("claude-code", "codex", "gemini")


def _warnings(loop: Loop, seen: Wired) -> Iterator[str]:
    blocks = loop.blocks_on_failure()
    if seen.fails_closed != blocks:
        said, was = ("block", "allow") if blocks else ("allow", "block")
        yield (
            f"hooks.on_failure is {said}, but it was {was} when {seen.agent} was connected, and "
            f"{was} still applies if Holdfast cannot be started: run `holdfast connect "
            f"{seen.agent}` again"
        )
    if seen.agent in _WITHOUT_COST and loop.lacks_prices(seen.agent):
        then = "so no tool runs" if blocks else "but tools run anyway"
        yield (
            f"the budget on cost cannot be checked, {then}: {seen.agent} records no cost, and no "
            "model has a price under [prices]"
        )


def _sessions(loop: Loop, agent: str, now: float) -> Iterator[HookAnswer]:
    """Sessions of the last day whose next tool would be blocked, or cannot be decided."""
    for each, session in loop.book.sessions(since=now - _DAY):
        if each == agent:
            decision = loop.next_tool(agent, session)
            if not decision.passes or decision.undecided:
                yield _answer(session, decision)


def _answer(case: str, decision: Decision) -> HookAnswer:
    reason = (decision.reason or decision.notice).removeprefix("Holdfast: ")
    return HookAnswer(case=case, blocked=not decision.passes, reason=reason)


def _examine_helper(reports: Sequence[HookReport], home: Path) -> Sequence[Finding]:
    """Return a finding if clients could not use a helper because its folder is not private. Empty
    if there are no hooks, or the home runs without a helper."""
    folder = Path(runtime_folder())
    if not reports or not Loop(Place(home)).may_have_helper():
        return ()
    try:
        status = folder.lstat()
    except OSError:
        return ()  # the first helper creates it
    if is_private(str(folder)):
        return ()
    ours = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()
    mode = stat.S_IMODE(status.st_mode)
    why = f"other users can enter it (mode {mode:03o})" if ours else "it is not a folder of yours"
    quoted = shlex.quote(str(folder))
    message = f"no helper can start, so every hook is slow: {folder} is not private: {why}"
    advice = f"`chmod 700 {quoted}`" if ours else f"Remove it if you can: `rm -r {quoted}`"
    return [Finding(check="helper", severity=Severity.WARNING, message=message, advice=advice)]


def _findings_of(reports: Sequence[HookReport]) -> Sequence[Finding]:
    """Return the reports as findings of a check-up."""
    return [finding for each in reports for finding in _findings(each)]


def _findings(report: HookReport) -> Iterator[Finding]:
    check = f"hook of {report.agent}"
    if not report.works:
        severity = Severity.BROKEN
        yield Finding(check=check, severity=severity, message=report.problem, advice=report.advice)
        return
    tried = "; ".join(each.describe() for each in report.tried)
    yield Finding(check=check, message=f"it takes checkpoints and enforces budgets ({tried})")
    if report.now is not None:
        yield Finding(check=f"{report.agent} now", message=report.now.describe(reasons=True))
    for warning in report.warnings:
        yield Finding(check=check, severity=Severity.WARNING, message=warning)
    for each in report.sessions:
        told = replace(each, case=f"the next tool of session {each.case}")
        yield Finding(check=f"{report.agent} now", message=told.describe(reasons=True))
