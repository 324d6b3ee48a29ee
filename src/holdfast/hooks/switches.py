"""Why an agent would not start hooks that are installed: a switch of its own, or a lost program."""

from __future__ import annotations

import tomllib
from pathlib import Path

from holdfast.errors import HoldfastError
from holdfast.hooks import json_edit
from holdfast.hooks.connect import PROJECT, USER, Setup, Wired, settings_file
from holdfast.model.session import Json
from holdfast.stores.files import read_file
from holdfast.value import replace


def switched_off(setup: Setup, seen: Wired) -> str:
    """Why the hooks in `seen` do not run; "" when nothing is known to keep them from it."""
    lost = _lost(seen)
    if lost:
        return f"{lost} is gone"
    match setup.agent:
        case "claude-code":
            return _claude_code(setup)
        case "gemini":
            return _gemini(setup)
        case "codex":
            return _codex(setup)
        case _:
            return ""


def _lost(seen: Wired) -> str:
    """A program of the installed command that is not there. The word behind `closed` is a home,
    which is made when it is needed."""
    for words in seen.commands.values():
        at = words.index(seen.agent) if seen.agent in words else len(words)
        for word in (*words[:at], *words[at + 3 :]):
            if word.startswith("/") and not Path(word).exists():
                return word
    return ""


def _claude_code(setup: Setup) -> str:
    """What is nearest to the project decides."""
    shared = setup.project / ".claude" / "settings.json"
    for path in (_file(setup, PROJECT), shared, _file(setup, USER)):
        said = _setting(path, "disableAllHooks")
        if said is not None:
            return f"disableAllHooks is set in {path}" if said is True else ""
    return ""


def _gemini(setup: Setup) -> str:
    """The project decides before the user; a hook that either turned off is off."""
    files = (_file(setup, PROJECT), _file(setup, USER))
    for path in files:
        enabled = _setting(path, "hooksConfig", "enabled")
        if enabled is False:
            return f"hooksConfig.enabled is false in {path}"
        if enabled is True:
            break
    for path in files:
        names = _setting(path, "hooksConfig", "disabled")
        if isinstance(names, list) and "holdfast" in names:
            return f"hooksConfig.disabled names holdfast in {path}"
    return ""


def _codex(setup: Setup) -> str:
    path = _file(setup, USER).with_name("config.toml")
    try:
        features = tomllib.loads(read_file(path).decode()).get("features")
    except FileNotFoundError:
        return ""
    except (OSError, ValueError) as error:
        return f"{path} cannot be read: {error}"
    off = isinstance(features, dict) and features.get("hooks") is False
    return f"features.hooks is false in {path}" if off else ""


def _file(setup: Setup, scope: str) -> Path:
    return settings_file(replace(setup, scope=scope))


def _setting(path: Path, *keys: str) -> Json:
    """A value in a file of settings; None when it is not there. Whoever reads the hooks says what
    is wrong with the file."""
    try:
        text = read_file(path).decode()
        found: Json = json_edit.value_of(text, json_edit.parse(text))
    except (OSError, ValueError, HoldfastError):
        return None
    for key in keys:
        found = found.get(key) if isinstance(found, dict) else None
    return found
