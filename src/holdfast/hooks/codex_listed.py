"""Whether Codex trusts our hooks: it passes over those that it does not trust, without a word."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
from collections.abc import Mapping, Sequence

from holdfast.errors import HoldfastError
from holdfast.hooks.agents import AGENTS
from holdfast.hooks.codex_trust import passed_over
from holdfast.hooks.connect import (
    Setup,
    codex_config,
    entries_of,
    settings_file,
    snake,
    text_of,
)

_SECONDS = 20


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


_QUESTION = 2
_CLIENT = {"name": "holdfast", "version": "1"}


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
        entries = {event: entries_of(said, event) for event in AGENTS["codex"].events}
    except (HoldfastError, ValueError):
        return ""  # whoever reads the hooks says what is wrong with a file
    for event, each in entries.items():
        name = snake(event)
        why = passed_over(trust, f"{os.path.realpath(path)}:{name}", name, each)
        if why:
            return f"{why} in {config}"
    return ""
