"""`holdfast completion`: scripts for bash, zsh and fish."""

from __future__ import annotations

import click

from holdfast.cli.frame import Choice, command
from holdfast.cli.invocation import Invocation
from holdfast.cli.output import print_json
from holdfast.cli.streams import write

_INSTALL = {
    "bash": 'eval "$(holdfast completion bash)"        # in ~/.bashrc',
    "zsh": 'eval "$(holdfast completion zsh)"         # in ~/.zshrc',
    "fish": "holdfast completion fish | source         # in ~/.config/fish/config.fish",
}
#: Fixes for click's script for fish: it cuts a description at its first comma, and fish would sort
#: words that have an order of their own.
_BETTER = {
    'string split "," ': 'string split --max 1 "," ',
    "complete --no-files ": "complete --no-files --keep-order ",
}


@command(example="\n".join(_INSTALL.values()))
@click.argument("shell", metavar="SHELL", type=Choice(list(_INSTALL)))
def completion(invocation: Invocation, shell: str) -> None:
    """Print a completion script for your shell: bash, zsh or fish."""
    from click.shell_completion import BashComplete, FishComplete, ZshComplete

    from holdfast.cli.app import root

    kinds = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}
    script = kinds[shell](root, {}, "holdfast", "_HOLDFAST_COMPLETE").source()
    for old, new in _BETTER.items():
        script = script.replace(old, new)
    if invocation.json:
        print_json({"shell": shell, "script": script})
    else:
        write(script + "\n")
