"""`holdfast checkpoints excluded`: what the default excludes leave out of a directory."""

from __future__ import annotations

import click

from holdfast.cli.checkpoint_options import capture, directory_argument, resolved
from holdfast.cli.frame import Command
from holdfast.cli.invocation import Invocation


@click.command(
    "excluded",
    cls=Command,
    example="holdfast checkpoints excluded\nholdfast checkpoints excluded ~/work/site --all",
)
@directory_argument
@click.option("--all", "all_items", is_flag=True, help="List every path.")
@click.pass_obj
def command(invocation: Invocation, /, directory: str | None, *, all_items: bool) -> int:
    """List what checkpoints of a directory leave out by default, each path with the rule.

    These are dependencies, build output, caches, media, archives, secrets, logs and what `exclude`
    in config.toml adds. A folder is named once, without what is in it. What your own .gitignore
    files leave out is not listed; `git status --ignored` does that. To capture something after
    all, put `!name` into the project's .gitignore or into `exclude`.
    """
    workdir = resolved(directory)
    found = capture(invocation).excluded(workdir)
    if invocation.json:
        from holdfast.cli.output import print_json

        print_json(
            {
                "workdir": str(workdir),
                "excluded": [
                    {"path": each.path, "rule": each.rule, "directory": each.is_directory}
                    for each in found
                ],
            }
        )
        return 0
    from holdfast.cli.output import name, say
    from holdfast.cli.show_checkpoints import show_paths
    from holdfast.model.text import format_count

    if not found:
        say(name(f"The default excludes leave nothing out of {workdir}."))
    show_paths(
        f"Left out of {workdir} by default ({format_count(len(found), 'path')})",
        [
            name(each.path + ("/" if each.is_directory else "")).append(
                f"  {each.rule}", style="dim"
            )
            for each in found
        ],
        style="yellow",
        all_items=all_items,
    )
    return 0
