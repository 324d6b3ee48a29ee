"""Why an agent would not start hooks that are installed: a switch of its own, a lost program, or in
Codex a lack of trust. Codex passes over hooks that it does not trust, without a word."""

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


# --- Trust of Codex -------------------------------------------------------------------------------


def untrusted(setup: Setup) -> str:
    """Why Codex would not start the hooks: it says so itself; without the program, its file
    does."""
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
    """It answers only while its input is open. One that does not answer is ended."""
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
    """Why Codex would pass over hooks of ours, as its files say; "" when it would start them."""
    path, config = settings_file(setup), codex_config(setup)
    try:
        said, trust = text_of(path), text_of(config) or ""
        entries = {event: entries_of(said, event) for event in EVENTS["codex"]}
    except (HoldfastError, ValueError):
        return ""  # reading the hooks tells what is wrong with a file
    for event, each in entries.items():
        name = snake(event)
        why = passed_over(trust, f"{os.path.realpath(path)}:{name}", name, each)
        if why:
            return f"{why} in {config}"
    return ""
