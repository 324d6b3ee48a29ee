"""A lab whose agent Holdfast is connected to, and prompts that make it use its tools."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypedDict

import holdfast
from holdfast.api.connect import ConnectPlan
from holdfast.api.loop import Loop
from holdfast.api.place import Place
from holdfast.connect.settings_entries import USER, Setup
from holdfast.model.loop import ToolCall
from tests.compat.agents.installed import package
from tests.compat.agents.lab import Lab
from tests.ending_helpers import refuse_helpers

#: How each agent calls what writes a file and what runs a shell, and how it is run once.
WRITE = {"claude-code": "Write", "gemini": "write_file", "opencode": "write"}
SHELL = {
    "claude-code": "Bash",
    "codex": "exec_command",
    "gemini": "run_shell_command",
    "opencode": "bash",
}
PATH = {"claude-code": "file_path", "gemini": "file_path", "opencode": "filePath"}
RUN: Mapping[str, Sequence[str]] = {
    "claude-code": ("-p", "--dangerously-skip-permissions"),
    "codex": ("exec", "--dangerously-bypass-approvals-and-sandbox"),
    "gemini": ("--yolo", "-p"),
    "opencode": ("run",),
}


class _Where(TypedDict):
    project: Path
    home: Path


class Connected:
    """Connects on the way in. The helper has a folder of its own and is ended by `close`."""

    def __init__(self, lab: Lab, config: str = "") -> None:
        self.lab = lab
        self.home = lab.place / "holdfast"
        self.runtime = lab.place / "run"
        self.runtime.mkdir(mode=0o700, exist_ok=True)
        holdfast.open(self.home, create=True).close()
        (self.home / "config.toml").write_text(config)
        if lab.name == "opencode":
            self._provide_plugin_package()

    def _provide_plugin_package(self) -> None:
        """OpenCode installs this as soon as there is a plugin; nothing leaves the lab."""
        made = package("@opencode-ai/plugin", self.lab.version)
        folder = self.lab.user / ".config" / "opencode"
        shutil.copytree(made / "node_modules", folder / "node_modules", symlinks=True)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(made / name, folder / name)

    def setup(self) -> Setup:
        return Setup(
            agent=self.lab.name,
            scope=USER,
            user_home=self.lab.user,
            project=self.lab.project,
            home=self.home,
            environ={"PATH": os.environ["PATH"]},
        )

    def connect(self) -> None:
        self._apply(self._machine().plan_connect(self.lab.name, **self._where()))

    def disconnect(self) -> None:
        self._apply(self._machine().plan_disconnect(self.lab.name, **self._where()))

    def _machine(self) -> holdfast.Machine:
        return holdfast.machine(user_home=self.lab.user, environ={"PATH": os.environ["PATH"]})

    def _where(self) -> _Where:
        return {"project": self.lab.project, "home": self.home}

    def _apply(self, planned: ConnectPlan) -> None:
        report = planned.apply()
        assert not report.failed, report.outcomes

    def say(self, prompt: str, *, check: bool = True) -> str:
        env = {**self.lab.environment, "XDG_RUNTIME_DIR": str(self.runtime)}
        done = subprocess.run(
            [str(self.lab.program), *RUN[self.lab.name], prompt],
            cwd=self.lab.project,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=self.lab.patience,
            check=False,
        )
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def calls(self) -> list[ToolCall]:
        """All calls that Holdfast saw, of any session."""
        book = Loop(Place(self.home)).book
        folder = self.home / "loop" / self.lab.name
        found = [call for path in sorted(folder.glob("*.calls")) for call in book.calls(path.stem)]
        return sorted(found, key=lambda call: call.at)

    def shell(self, command: str) -> str:
        name = SHELL[self.lab.name]
        given = {"cmd": command} if self.lab.name == "codex" else {"command": command}
        more = {} if self.lab.name == "codex" else {"description": "a step"}
        return f"CALL {name} {json.dumps({**given, **more})}"

    def write(self, name: str, content: str) -> str:
        if self.lab.name not in WRITE:  # Codex writes by its shell or by a patch
            return self.shell(f"printf %s {content} > {name}")
        path = {PATH[self.lab.name]: str(self.lab.project / name)}
        return f"CALL {WRITE[self.lab.name]} {json.dumps({**path, 'content': content})}"

    def close(self) -> None:
        with suppress(OSError):
            refuse_helpers(self.runtime / "holdfast")
        self.lab.close()


def tree_of(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Everything in a project but its repository: modes and contents."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if name.parts[0] != ".git":
            content = path.read_bytes() if path.is_file() else b""
            found[str(name)] = (path.lstat().st_mode, content)
    return found
