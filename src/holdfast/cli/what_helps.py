"""The one command that gives back most room, in all homes or in one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from holdfast.api.values import Freeable, Remedy, freeable_together
from holdfast.cli.invocation import quoted
from holdfast.cli.output import say, suggest
from holdfast.model.text import format_bytes, format_count

if TYPE_CHECKING:
    from holdfast.api.agent_home import AgentHome
    from holdfast.api.values import HomeStatus
    from holdfast.model.plan import Outlook

    Seen = tuple[AgentHome, HomeStatus]


def helps_json(seen: Sequence[tuple[AgentHome | None, HomeStatus]], home_flag: str) -> Any:
    """For a program: what helps, how much, and by which command."""
    found = freeable_together(status.freeable for _, status in seen)
    best = found.best
    if best is None:
        return None
    homes = [(home, status) for home, status in seen if home is not None]
    command = _command(best, homes) if homes else _one_command(best, home_flag)
    return {"what": best.value, "bytes": found.bytes_of(best), "command": command}


def show_what_helps(seen: Sequence[Seen], *, tight: bool) -> None:
    """`tight` is a sentence of one line and a command."""
    found = freeable_together(status.freeable for _, status in seen)
    outlooks = [status.outlook for _, status in seen if status.outlook]
    best = found.best
    if best is Remedy.PRUNE:
        words = "To see what the policy would remove:"
        say(words if tight else f"{would_words(outlooks)} Have a look first:")
        suggest(_command(best, seen))
        if not tight:
            say("What is removed stays in the trash; add --now to free the space at once.")
    elif best is Remedy.TRASH:
        say(f"{format_bytes(found.trash)} is in the trash. To free the space now, for good:")
        suggest(_command(best, seen))
    elif best is Remedy.LEFTOVERS:
        _show_leftovers(seen, found, outlooks, tight=tight)
    elif seen:
        home, _ = max(seen, key=lambda each: each[1].inventory.total_bytes)
        said = "" if tight else "Nothing here exceeds the policy. "
        say(f"{said}Most of it is in {home.label}; see what is largest:")
        suggest(f"holdfast sessions list --home {quoted(home.name)} --sort size")


def show_remedy(remedy: Remedy, status: HomeStatus, home_flag: str) -> None:
    """The same for one home."""
    size = format_bytes(status.freeable.bytes_of(remedy))
    if remedy is Remedy.PRUNE:
        say(f"{would_words([status.outlook] if status.outlook else [])} Have a look first:")
    elif remedy is Remedy.TRASH:
        say(f"{size} is in the trash. To free the space now, for good:")
    else:
        say(
            f"{size} is leftovers that no session needs, such as logs, caches and copies of "
            "programs. They stay until you say how long to keep them. To have them pruned after "
            "30 days:"
        )
    suggest(_one_command(remedy, home_flag))


def show_threats(seen: Sequence[Seen]) -> None:
    """Agents that will delete sessions soon, and the switch that keeps them."""
    found = [(home, status.threat) for home, status in seen if status.threat is not None]
    if not found:
        return
    sessions = format_count(sum(threat.sessions for _, threat in found), "session")
    agents = " and ".join(home.label for home, _ in found)
    where = f"--home {quoted(found[0][0].name)}" if len(found) == 1 else "--all-homes"
    say(f"{agents} will soon delete {sessions} that nobody uses. To keep them all the same:")
    suggest(f"holdfast vault on {where}")


def show_threat(status: HomeStatus, home_flag: str) -> None:
    """The same for one home."""
    if status.threat is None:
        return
    days = f"{status.threat.sweep.days:g} days"
    sessions = format_count(status.threat.sessions, "session")
    say(
        f"The agent deletes sessions that nobody used for {days} ({status.threat.sweep.setting}), "
        f"{sessions} of these within a week. To keep what it deletes:"
    )
    suggest(f"holdfast {home_flag}vault on")
    say()


def would_words(outlooks: Sequence[Outlook]) -> str:
    """What the policy would remove, and what that frees: on the disk, and inside databases of
    agents, whose files do not shrink."""
    items = format_count(sum(each.removals for each in outlooks), "item")
    frees = sum(each.frees for each in outlooks)
    in_rows = format_bytes(sum(each.in_rows for each in outlooks))
    databases = sum(bool(each.in_rows) for each in outlooks)
    whose = "the agent's database, which uses" if databases == 1 else "agents' databases, which use"
    inside = f"{in_rows} inside {whose} it again" if databases else ""
    parts = [format_bytes(frees)] if frees or not inside else []
    free = ", and ".join([*parts, inside] if inside else parts)
    return f"The policy would remove {items} and free {free}."


def _show_leftovers(
    seen: Sequence[Seen], found: Freeable, outlooks: Sequence[Outlook], *, tight: bool
) -> None:
    most, home = format_bytes(found.leftovers), _largest(Remedy.LEFTOVERS, seen)
    if tight:
        say(f"{most} is leftovers, most of it in {home.label}. To see what they are:")
        suggest(f"holdfast status --home {quoted(home.name)}")
        return
    say(
        f"{most} is leftovers that no session needs, such as logs, caches and "
        f"copies of programs, most of it in {home.label}. To see what they are:"
    )
    suggest(f"holdfast status --home {quoted(home.name)}")
    say("They stay until you say how long to keep them. To have them pruned after 30 days:")
    suggest(_command(Remedy.LEFTOVERS, seen))
    if found.policy:
        say(would_words(outlooks))
        suggest(_command(Remedy.PRUNE, seen))


def _command(remedy: Remedy, seen: Sequence[Seen]) -> str:
    if remedy is Remedy.LEFTOVERS:
        return _one_command(remedy, f"--home {quoted(_largest(remedy, seen).name)} ")
    homes = [home for home, status in seen if status.freeable.bytes_of(remedy)]
    where = f"--home {quoted(homes[0].name)}" if len(homes) == 1 else "--all-homes"
    return {
        Remedy.PRUNE: f"holdfast sessions prune {where} --dry-run",
        Remedy.TRASH: f"holdfast trash empty {where}",
    }[remedy]


def _one_command(remedy: Remedy, home_flag: str) -> str:
    return {
        Remedy.PRUNE: f"holdfast {home_flag}sessions prune --dry-run",
        Remedy.TRASH: f"holdfast {home_flag}trash empty",
        Remedy.LEFTOVERS: f"holdfast {home_flag}config set sessions.leftovers_retention_days 30",
    }[remedy]


def _largest(remedy: Remedy, seen: Sequence[Seen]) -> AgentHome:
    return max(seen, key=lambda each: each[1].freeable.bytes_of(remedy))[0]
