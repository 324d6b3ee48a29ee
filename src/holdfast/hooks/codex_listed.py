"""Whether Codex trusts our hooks: it passes over those that it does not trust, without a word."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

from holdfast.hooks.connect import Setup, Wired

_SECONDS = 20


def untrusted(setup: Setup, seen: Wired) -> str:
    """Codex itself says whether it trusts the hooks; without the program, its file does."""
    codex = shutil.which("codex", path=setup.environ.get("PATH"))
    listed = None if codex is None else _asked(codex, setup)
    if listed is None:
        return _unlisted(setup, seen)
    ours = [each for each in listed if "holdfast/hooks/client." in str(each.get("command"))]
    states = {str(each.get("trustStatus")) for each in ours if each.get("enabled") is not False}
    if not ours:
        return "Codex does not see it"
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


def _unlisted(setup: Setup, seen: Wired) -> str:
    given = setup.environ.get("CODEX_HOME")
    folder = Path(given) if given else setup.user_home / ".codex"
    try:
        state = tomllib.loads((folder / "config.toml").read_text())["hooks"]["state"]
    except (OSError, ValueError, KeyError, TypeError):
        state = {}
    source = os.path.realpath(seen.path)
    known = [key for key in state if str(key).startswith(f"{source}:")]
    return "" if len(known) >= len(seen.commands) else "Codex does not trust it"
