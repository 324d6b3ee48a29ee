"""Mistral Vibe, from PyPI. It needs Python 3.12 or later."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.compat.agents.installed import python_program
from tests.compat.agents.lab import Lab

_HOW = ("--trust", "--auto-approve")


class Vibe(Lab):
    name = "vibe"
    package = "mistral-vibe"
    version = "3.0.2"
    command = "vibe"
    folder = ".vibe"
    #: Its model starts subagents from a program.
    delegating = "CALL run_typescript " + json.dumps(
        {
            "code": "async function main() {"
            " return await tools.agents.spawn({name: 'look', message: 'Say hi'}); }"
        }
    )

    @classmethod
    def installed(cls) -> Path:
        return python_program(cls.package, cls.version, cls.command, "3.13")

    def settings(self) -> Mapping[str, str]:
        return {
            ".vibe/config.toml": f"""\
active_model = "here"
enable_telemetry = false
enable_update_checks = false
enable_auto_update = false
[[providers]]
name = "here"
api_base = "{self.model.url}/v1"
api_key_env_var = "HERE_KEY"
backend = "generic"
[[models]]
name = "a-model"
provider = "here"
alias = "here"
"""
        }

    def variables(self) -> Mapping[str, str]:
        return {"HERE_KEY": "none", "MISTRAL_API_KEY": "none"}

    def begin(self, word: str) -> str:
        before = self._folders()
        self.run(*_HOW, "-p", f"Tell me about {word}")
        [session] = self._folders() - before
        return session

    def resuming(self, session: str, prompt: str) -> Sequence[str]:
        return (*_HOW, "--resume", session, "-p", prompt)

    def showing(self, session: str) -> Sequence[str]:
        return (*_HOW, "--resume", session)

    def listed(self) -> set[str]:
        """It lists in a terminal alone: each session with the beginning of its first prompt."""
        opened = self.terminal(*_HOW, "--resume")
        try:
            opened.wait(lambda drawn: "about" in drawn)
            return self.listed_words(opened.settled())
        finally:
            opened.close()

    def _folders(self) -> set[str]:
        found = self.home.glob("logs/session/unified/*/meta.json")
        return {str(json.loads(path.read_text())["session_id"]) for path in found}
