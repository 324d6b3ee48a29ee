"""`holdfast config`: see, check and create the configuration."""

from __future__ import annotations

from pathlib import Path

import click

from holdfast.cli.frame import Command, Group, run_default
from holdfast.cli.invocation import Invocation
from holdfast.cli.output import name, print_json, say, table
from holdfast.cli.streams import write_path


@click.group(
    cls=Group,
    invoke_without_command=True,
    example="holdfast config init\nholdfast config check",
)
@click.pass_context
def config(ctx: click.Context) -> int | None:
    """See, check or create the configuration. Without a command, this is `config show`."""
    return run_default(ctx, config, "show") if ctx.invoked_subcommand is None else None


@config.command("show", cls=Command, example="holdfast config show\nholdfast config show --json")
@click.pass_obj
def show(invocation: Invocation) -> int:
    """Show every setting in effect, and where it comes from."""
    entries = list(invocation.settings(invocation.home_path).entries())
    if invocation.json:
        print_json(
            {
                "path": str(_path(invocation)),
                "settings": [
                    {"key": key, "value": value, "origin": origin} for key, value, origin in entries
                ],
            }
        )
        return 0
    rows = table("setting", "value", "from")
    for key, value, origin in entries:
        rows.add_row(name(key), name(_toml(value)), name(origin))
    say(rows)
    return 0


@config.command("check", cls=Command, example="holdfast config check")
@click.pass_obj
def check(invocation: Invocation) -> int:
    """Check the whole configuration. The exit code is 2 when anything in it is wrong."""
    path = _path(invocation)
    invocation.settings(invocation.home_path)
    exists = path.exists()
    if invocation.json:
        print_json({"path": str(path), "exists": exists, "ok": True})
    else:
        say(name(f"{path} is fine." if exists else f"There is no {path}; the defaults apply."))
    return 0


@config.command("path", cls=Command, example="$EDITOR $(holdfast config path)")
@click.pass_obj
def path(invocation: Invocation) -> int:
    """Print where the configuration is, or would be."""
    if invocation.json:
        print_json({"path": str(_path(invocation)), "exists": _path(invocation).exists()})
    else:
        write_path(_path(invocation))
    return 0


@config.command("init", cls=Command, example="holdfast config init")
@click.pass_obj
def init(invocation: Invocation) -> int:
    """Write a config.toml with every key and its default as a comment; create the home if needed.

    An existing file stays as it is.
    """

    path = invocation.place(invocation.home_path).create_config()
    if invocation.json:
        print_json({"path": str(path), "created": True})
    else:
        say(name(f"Wrote {path}. Every setting in it is a comment until you change it."))
    return 0


def _path(invocation: Invocation) -> Path:
    return invocation.config_file()


def _toml(value: object) -> str:
    if value is None:
        return "(not set)"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return str(value)
