"""Why an agent would not run installed hooks: a switch in its own settings, a missing program, or
in Codex a lack of trust. Codex silently ignores hooks that it does not trust."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

from holdfast.connect import EVENTS, json_edit
from holdfast.connect.codex_trust import passed_over
from holdfast.connect.settings_entries import (
    PROJECT,
    USER,
    Setup,
    Wired,
    codex_config,
    entries_of,
    settings_file,
    snake,
    text_of,
)
from holdfast.errors import HoldfastError
from holdfast.model.session import Json
from holdfast.stores.files import read_file
from holdfast.value import replace

_SECONDS = 20
_QUESTION = 2
_CLIENT = {"name": "holdfast", "version": "1"}


def switched_off(setup: Setup, seen: Wired) -> str:
    """Return why the hooks in `seen` do not run; "" if no reason is known."""
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
    """Return a program of the installed command that does not exist, or "". The word after `closed`
    is skipped: it is the home, which is created when it is needed."""
    for words in seen.commands.values():
        at = words.index(seen.agent) if seen.agent in words else len(words)
        for word in (*words[:at], *words[at + 3 :]):
            if word.startswith("/") and not Path(word).exists():
                return word
    return ""


def _claude_code(setup: Setup) -> str:
    """The settings nearest to the project take precedence."""
    shared = setup.project / ".claude" / "settings.json"
    for path in (_file(setup, PROJECT), shared, _file(setup, USER)):
        said = _setting(path, "disableAllHooks")
        if said is not None:
            return f"disableAllHooks is set in {path}" if said is True else ""
    return ""


def _gemini(setup: Setup) -> str:
    """For `enabled`, the project takes precedence over the user; a hook is off if either of them
    disables it by name."""
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
            return f"hooksConfig.disabled lists holdfast in {path}"
    return ""


def _codex(setup: Setup) -> str:
    path = codex_config(setup)
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
    """A value in a settings file; None if it is not there or the file cannot be read. The code that
    reads the hooks reports what is wrong with the file."""
    try:
        text = read_file(path).decode()
        found: Json = json_edit.value_of(text, json_edit.parse(text))
    except (OSError, ValueError, HoldfastError):
        return None
    for key in keys:
        found = found.get(key) if isinstance(found, dict) else None
    return found


# --- Trust of Codex -------------------------------------------------------------------------------


def untrusted(setup: Setup) -> str:
    """Return why Codex would not run the hooks, or "". Codex is asked; if the program is missing or
    does not answer, its config.toml decides."""
    codex = shutil.which("codex", path=setup.environ.get("PATH"))
    listed = None if codex is None else _asked(codex, setup)
    if listed is None:
        return distrusted(setup)
    ours = [each for each in listed if "holdfast/hooks/client." in str(each.get("command"))]
    states = {str(each.get("trustStatus")) for each in ours}
    if not ours:
        return "Codex does not see it"
    if any(each.get("enabled") is False for each in ours):
        return f"it is switched off in {codex_config(setup)}"
    return "" if states <= {"trusted", "managed"} else f"Codex says that it is {min(states)}"


def _asked(codex: str, setup: Setup) -> list[Mapping[str, object]] | None:
    said: Sequence[Mapping[str, object]] = (
        {"id": 1, "method": "initialize", "params": {"clientInfo": _CLIENT}},
        {"method": "initialized"},
        {"id": _QUESTION, "method": "hooks/list", "params": {"cwds": [str(setup.project)]}},
    )
    lines = "".join(f"{json.dumps(each)}\n" for each in said)
    try:
        with subprocess.Popen(
            [codex, "app-server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=setup.project,
            env=dict(setup.environ),
        ) as server:
            return _answer(server, lines)
    except (OSError, ValueError):
        return None


def _answer(server: subprocess.Popen[str], lines: str) -> list[Mapping[str, object]] | None:
    """Read the server's answer with its stdin kept open: it answers only as long as that is. A
    server that does not answer in time is killed."""
    if server.stdin is None or server.stdout is None:
        return None
    limit = threading.Timer(_SECONDS, server.kill)
    limit.start()
    try:
        server.stdin.write(lines)
        server.stdin.flush()
        for line in server.stdout:
            said = json.loads(line)
            if said.get("id") == _QUESTION and "result" in said:
                return [hook for each in said["result"]["data"] for hook in each["hooks"]]
        return None
    finally:
        limit.cancel()
        server.kill()


def distrusted(setup: Setup) -> str:
    """Return why Codex would ignore our hooks according to its files; "" if it would run them."""
    path, config = settings_file(setup), codex_config(setup)
    try:
        said, trust = text_of(path), text_of(config) or ""
        entries = {event: entries_of(said, event) for event in EVENTS["codex"]}
    except (HoldfastError, ValueError):
        return ""  # the code that reads the hooks reports what is wrong with the file
    for event, each in entries.items():
        name = snake(event)
        why = passed_over(trust, f"{os.path.realpath(path)}:{name}", name, each)
        if why:
            return f"{why} (see {config})"
    return ""
