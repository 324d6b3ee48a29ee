"""`holdfast config`: show, check and change the configuration."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from holdfast.api.configure import doubtful_homes, plan_set, setting, settings_of
from holdfast.cli.completing import keys as known_keys
from holdfast.cli.completing import sections as known_sections
from holdfast.cli.config_editor import edited
from holdfast.cli.frame import Group
from holdfast.cli.invocation import Invocation, here, quoted
from holdfast.cli.options import edit_options
from holdfast.cli.output import name, note, nothing_changed, print_json, say, table
from holdfast.cli.streams import write, write_path
from holdfast.errors import HoldfastError, UsageError
from holdfast.model.text import one_line, printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.api.configure import Setting, SettingChange
    from holdfast.api.connect import Connection


@click.group(
    cls=Group,
    default="show",
    example="holdfast config show sessions\nholdfast config set sessions.retention_days 30",
)
def config() -> None:
    """See, check or change the configuration. Without a command, this is `config show`."""


@config.command(
    "show",
    example="holdfast config show\nholdfast config show checkpoints\nholdfast config show --json",
)
@click.argument("sections", nargs=-1, metavar="[SECTION]...", shell_complete=known_sections)
def show(invocation: Invocation, sections: tuple[str, ...] = ()) -> None:
    """Show every setting in effect, and where it comes from: all, or those of some sections."""
    entries = settings_of(invocation.checked_place(invocation.home_path), sections)
    if invocation.json:
        settings = [_json(each) for each in entries]
        print_json({"path": str(invocation.config_file()), "settings": settings})
        return
    rows = table("setting", "value", "from")
    for each in entries:
        rows.add_row(name(each.key), name(_toml(each.value)), name(each.origin))
    say(rows)


@config.command(
    "get",
    example="holdfast config get sessions.retention_days\n"
    "holdfast config get checkpoints.enabled checkpoints.exclude",
)
@click.argument("keys", nargs=-1, required=True, metavar="KEY...", shell_complete=known_keys)
def get(invocation: Invocation, keys: tuple[str, ...]) -> None:
    """Print the value of a setting, and nothing else: for scripts.

    If you name several, each is printed with its key. Text is printed without quotes, a list with
    one item per line, and nothing for a setting that is not set.
    """
    place = invocation.checked_place(invocation.home_path)
    found = [setting(place, each) for each in keys]
    if invocation.json:
        documents = [_json(each) for each in found]
        print_json(documents[0] if len(found) == 1 else {"settings": documents})
        return
    for each in found:
        if len(found) > 1:
            write(f"{each.key} = {_toml(each.value)}\n")
        elif each.value is not None:
            items = each.value if isinstance(each.value, tuple) else (each.value,)
            write("".join(f"{_bare(item)}\n" for item in items))


@config.command(
    "set",
    example="holdfast config set sessions.retention_days 30\n"
    "holdfast config set checkpoints.exclude '*.parquet' data/\n"
    "holdfast config set sessions.source.cron.retention_days 7 --dry-run",
)
@click.argument("key", metavar="KEY", shell_complete=known_keys)
@click.argument("values", nargs=-1, required=True, metavar="VALUE...")
@edit_options
def set_(invocation: Invocation, key: str, values: tuple[str, ...], *, dry_run: bool) -> None:
    """Set one key in config.toml, and show its old and its new value.

    The value is checked like config.toml when it is read, and an invalid one changes nothing.
    Everything else in the file stays as it is, comments too. A list takes several values; []
    empties it. The file is created if it does not exist.
    """
    planned = plan_set(invocation.place(invocation.home_path), key, values)
    _check_home(invocation)
    if not dry_run:
        planned.change.apply()
    if invocation.json:
        print_json(
            {
                "path": str(planned.change.file),
                "key": planned.key,
                "old": None if planned.old is None else planned.old.value,
                "value": planned.value,
                "applied": not dry_run,
            }
        )
    else:
        _tell_set(planned, dry_run=dry_run)
        if not dry_run:
            _tell_whose(invocation)
            _tell_agents(invocation, planned)
    if planned.key == "homes" and isinstance(planned.value, list | tuple):
        for doubt in doubtful_homes(map(str, planned.value)):
            note(f"warning: homes: {one_line(doubt)}")
    if planned.outranked_by is not None:
        note(f"warning: {planned.outranked_by} is set, and overrides config.toml.")


def _tell_agents(invocation: Invocation, planned: SettingChange) -> None:
    """Name agents that have the old value in their own settings, where it applies if Holdfast
    cannot be started."""
    if planned.key != "hooks.on_failure":
        return
    found: Sequence[Connection] = ()
    with suppress(HoldfastError):  # `connect --status` reports what is wrong with a file
        found = invocation.machine.connections_to_renew(
            fails_closed=planned.value == "block",
            project=here() or invocation.user_home,
            home=invocation.home_path.absolute(),
        )
    names = [
        f"{each.agent}{' --scope project' if each.scope == 'project' else ''}" for each in found
    ]
    for each in dict.fromkeys(names):
        note(f"Connect it again to apply this in the agent too: holdfast connect {each}")


def _tell_set(planned: SettingChange, *, dry_run: bool) -> None:
    old = planned.old
    was = "(wrong)" if old is None else _toml(old.value)
    if old is not None and old.origin == "default" and old.value is not None:
        was += " (default)"
    say(name(f"{planned.key}: {was} → {_toml(planned.value)}"))
    if dry_run:
        nothing_changed()
    elif planned.changes_nothing:
        say(name(f"{planned.change.file} already has this value."))
    else:
        say(name(f"Wrote {planned.change.file}."))


@config.command("edit", example="holdfast config edit")
def edit(invocation: Invocation) -> None:
    """Edit config.toml in your editor ($VISUAL, else $EDITOR, else vi).

    You edit a copy. It replaces config.toml when you leave the editor and everything in it is
    valid; if not, the errors are shown and you can continue editing. Without a config.toml you
    begin with the text that `config init` writes.
    """
    _check_home(invocation)
    place = invocation.place(invocation.home_path)
    change = edited(place, json=invocation.json)
    done = change is not None
    if change is not None:
        change.apply()
    if invocation.json:
        print_json({"path": str(place.config_file), "applied": done})
    else:
        say(name(f"Wrote {place.config_file}.") if done else "Nothing was changed.")
        if done:
            _tell_whose(invocation)


@config.command("check", example="holdfast config check")
def check(invocation: Invocation) -> None:
    """Check the whole configuration. The exit code is 2 when anything in it is wrong."""
    path = invocation.config_file()
    settings = invocation.checked_place(invocation.home_path).settings
    exists = path.exists()
    doubts = doubtful_homes(settings.homes)
    for each in doubts:
        note(f"warning: homes: {one_line(each)}")
    if invocation.json:
        print_json({"path": str(path), "exists": exists, "ok": True, "warnings": doubts})
    elif doubts:
        say(name(f"{path} can be used."))
    else:
        say(name(f"{path} is fine." if exists else f"There is no {path}; the defaults apply."))


@config.command("path", example="$EDITOR $(holdfast config path)")
def path(invocation: Invocation) -> None:
    """Print where the configuration is, or would be."""
    if invocation.json:
        print_json(
            {"path": str(invocation.config_file()), "exists": invocation.config_file().exists()}
        )
    else:
        write_path(invocation.config_file())


@config.command("init", example="holdfast config init")
@edit_options
def init(invocation: Invocation, *, dry_run: bool) -> None:
    """Write a config.toml with every key and its default as a comment; create the home if needed.

    An existing file stays as it is.
    """

    place = invocation.place(invocation.home_path)
    is_there = place.config_file.exists()
    path = place.config_file if dry_run else place.create_config()
    if invocation.json:
        print_json({"path": str(path), "created": not dry_run, "applied": not dry_run})
    elif dry_run:
        left = f"{path} already exists; it would be left alone."
        say(name(left if is_there else f"This would write {path}."))
        nothing_changed()
    else:
        rest = "Every key in it is commented out; only the [section] lines are not."
        say(name(f"Wrote {path}. {rest}"))


def _check_home(invocation: Invocation) -> None:
    """Never create a home for settings that are meant for another one."""
    if invocation.chosen_home is not None or invocation.home_path.exists():
        return
    homes = invocation.machine.homes
    if homes:
        found = "\n  ".join(f"{each.label}  {each.path}" for each in homes)
        raise UsageError(
            f"There is no home at {invocation.home_path}. Settings belong to one home:\n  {found}",
            hint=f"Pick one: `holdfast --home {quoted(homes[0].name)} {invocation.command_line}`.",
        )


def _tell_whose(invocation: Invocation) -> None:
    """Settings apply to one home; a user with several may expect that they apply to all."""
    if invocation.chosen_home is None and len(invocation.machine.homes) > 1:
        say("It applies to that home only; --home picks another one.")


def _json(setting: Setting) -> dict[str, Any]:
    return {"key": setting.key, "value": setting.value, "origin": setting.origin}


def _toml(value: object) -> str:
    if value is None:
        return "(not set)"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, tuple | list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return str(value)


def _bare(value: object) -> str:
    return printable(value) if isinstance(value, str) else _toml(value)
