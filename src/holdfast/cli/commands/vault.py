"""`holdfast vault`: keep sessions that agents delete by themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.frame import Group
from holdfast.cli.homes import all_homes_option, failed_json, home_json, tell_unread
from holdfast.cli.invocation import Invocation
from holdfast.cli.options import edit_options
from holdfast.cli.output import name, note, nothing_changed, print_json, say, suggest, table
from holdfast.cli.progress import progress
from holdfast.model.text import format_bytes

if TYPE_CHECKING:
    from holdfast.api.agent_home import UnreadHome
    from holdfast.api.home import Home
    from holdfast.model.vault import VaultRefresh, VaultStatus

    Row = tuple[str, str, VaultStatus]


@click.group(
    cls=Group,
    default="status",
    example="holdfast vault\nholdfast vault on --home claude-code",
)
def vault() -> None:
    """Keep hard links to sessions, so that what an agent deletes by itself is not lost.

    Without a command, this is `vault status`.
    """


@vault.command(example="holdfast vault status\nholdfast vault status --json")
def status(invocation: Invocation) -> int:
    """Show which agents delete sessions by themselves, and what their vaults hold.

    A session that its agent still has takes only a few kilobytes here, for notes: the vault has
    hard links to its files, not copies. Sessions that their agent deleted take their full size, and
    so do copies of what cannot be linked, such as rows of a database.
    """
    machine = invocation.several()
    unread: Sequence[UnreadHome] = ()
    if machine is None:
        home = invocation.open_home()
        found = [(home.kind, home.path, home.vault_status)]
    else:
        looked = machine.vaults()
        found = [(each.label, each.path, told) for each, told in looked.seen]
        unread = looked.unread
    rows = [(label, str(path), vault) for label, path, vault in found if vault is not None]
    if invocation.json:
        print_json({"vaults": [_json(each) for each in rows], "failed": failed_json(unread)})
    elif rows:
        _show(rows, invocation)
    else:
        say("No home here can have a vault: only you and Holdfast delete their sessions.")
    return tell_unread(unread)


def _json(row: Row) -> dict[str, Any]:
    label, home, held = row
    sweep = held.sweep
    swept = None if sweep is None else {"days": sweep.days, "setting": sweep.setting}
    return {"agent": label, "home": home, **held.figures.to_json(), "deletes_after": swept}


def _show(rows: list[Row], invocation: Invocation) -> None:
    numbers = ("in both", "only here", "on disk")
    shown = table(
        "home",
        "vault",
        "the agent deletes after",
        *numbers,
        right=numbers,
        whole=("home",),
        drops=("in both",),
    )
    for label, _, held in rows:
        figures, sweep = held.figures, held.sweep
        shown.add_row(
            name(label),
            "on" if figures.enabled else "off",
            "" if sweep is None else f"{sweep.days:g} days ({sweep.setting})",
            f"{figures.sessions - figures.alone:,}",
            f"{figures.alone:,}",
            format_bytes(figures.bytes),
        )
    say(shown)
    threatened = [label for label, _, held in rows if held.is_missed]
    if threatened:
        agents = " and ".join(threatened)
        verb = "delete" if len(threatened) > 1 else "deletes"
        flag = invocation.home_flag or (f"--home {threatened[0]} " if len(rows) > 1 else "")
        on = f"holdfast {flag}vault on" if len(threatened) == 1 else "holdfast vault on --all-homes"
        told = f"{agents} {verb} sessions that have not been used for a while."
        suggest(told, "To keep them:", on)
    if any(held.figures.alone for *_, held in rows):
        sessions = f"holdfast {invocation.home_flag}sessions"
        suggest(
            "",
            "To see the sessions that their agent deleted, and to bring one back:",
            f"{sessions} list --vaulted",
            f"{sessions} restore ID",
        )


@vault.command(example="holdfast vault on --home claude-code\nholdfast vault on --all-homes")
@edit_options
@all_homes_option()
def on(invocation: Invocation, *, dry_run: bool) -> int:
    """Turn the vault on, and link every session now.

    Maintenance looks after it from then on. In config.toml this is `enabled` of [vault].
    """
    return _turn(invocation, dry_run=dry_run, to=True)


@vault.command(example="holdfast vault off --home claude-code")
@edit_options
@all_homes_option()
def off(invocation: Invocation, *, dry_run: bool) -> int:
    """Turn the vault off. Sessions that their agent has already deleted stay in it.

    `holdfast sessions delete ID` removes such a session, and so does `retention_days` of [vault].
    """
    return _turn(invocation, dry_run=dry_run, to=False)


def _turn(invocation: Invocation, *, dry_run: bool, to: bool) -> int:
    home = invocation.one_home(fits=lambda each: each.vault is not None)
    if home.vault is None and invocation.together is not None:  # --all-homes
        note(f"note: {home.path} has no vault: only you and Holdfast delete sessions there.")
        return 0
    done: VaultRefresh | None = None
    planned = home.plan_vault(to)
    if not dry_run:
        with progress("linking sessions") as shown:
            done = home.turn_vault(to, progress=shown)
    if invocation.json:
        _print(invocation, home, to, done)
        return 0
    word = "on" if to else "off"
    if done is None:
        same = planned.changes_nothing
        say(f"The vault is {word} already." if same else f"This would turn the vault {word}.")
        nothing_changed()
        return 0
    if planned.changes_nothing and not done.changed:
        say(f"The vault was already {word}.")
    else:
        say(f"The vault is {word}: {done.describe()}.")
    for each in done.problems:
        note(f"warning: {each.path} {each.reason}")
    return 0


def _print(invocation: Invocation, home: Home, to: bool, done: VaultRefresh | None) -> None:
    report = None if done is None else done.to_json()
    print_json(
        {**home_json(invocation, home), "enabled": to, "applied": done is not None}
        | {"report": report}
    )
