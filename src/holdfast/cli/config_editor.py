"""Editing config.toml: the user edits a copy until everything in it is valid."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.api.configure import plan_text, text_of
from holdfast.cli.output import note
from holdfast.cli.removal import asked
from holdfast.cli.report_error import print_error
from holdfast.config.template import template
from holdfast.errors import ConfigError, HoldfastError, UsageError

if TYPE_CHECKING:
    from holdfast.api.configure import ConfigChange
    from holdfast.api.place import Place


def edited(place: Place, *, json: bool) -> ConfigChange | None:
    """Return the change that the user made, or None if nothing changed. If the text is invalid and
    no user is there to correct it, a `ConfigError` reports where it was saved."""
    before = text_of(place.config_file)
    folder = Path(tempfile.mkdtemp(prefix="holdfast-"))  # readable only by its owner
    draft = folder / "config.toml"
    draft.write_bytes((template() if before is None else before).encode())
    started = draft.read_bytes()
    while True:
        _edit(draft, json=json)
        if draft.read_bytes() == started:
            shutil.rmtree(folder)
            return None
        try:
            change = plan_text(place, _text(draft), before=before)
        except ConfigError as error:
            kept = f"Your text is in {draft}; config.toml is as it was."
            if not sys.stdin.isatty():
                raise ConfigError(error.message, hint=kept) from None
            print_error(ConfigError(error.message), as_json=False)
            if asked("Edit it again?", "changed") is not None:
                note(kept)
                return None
        else:
            shutil.rmtree(folder)
            return change


def _text(draft: Path) -> str:
    try:
        return draft.read_bytes().decode()
    except UnicodeDecodeError:
        raise ConfigError("The text is not UTF-8.") from None


def _edit(draft: Path, *, json: bool) -> None:
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or ""
    if not editor and not sys.stdin.isatty():
        raise UsageError(
            "There is no terminal to edit on.", hint="Set one key: holdfast config set KEY VALUE"
        )
    try:
        words = [*shlex.split(editor or "vi"), str(draft)]
        done = subprocess.run(words, check=False, stdout=sys.stderr if json else None)
    except (OSError, ValueError) as error:
        missing = isinstance(error, FileNotFoundError)
        why = "there is no such command" if missing else error
        raise UsageError(
            f"Cannot start the editor {editor or 'vi'!r}: {why}.",
            hint="Set EDITOR to another one.",
        ) from None
    if done.returncode:
        raise HoldfastError(
            f"The editor ended with exit code {done.returncode}; nothing was changed."
        )
