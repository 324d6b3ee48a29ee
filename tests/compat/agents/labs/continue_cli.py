"""Continue, its command line, from npm."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.compat.agents.installed import node, program
from tests.compat.agents.lab import Lab
from tests.compat.agents.model_server import LINE


class Continue(Lab):
    name = "continue"
    package = "@continuedev/cli"
    version = "1.5.47"
    command = "cn"
    folder = ".continue"
    anywhere = True

    @classmethod
    def installed(cls) -> Path:
        return program(cls.package, cls.version, cls.command, path=[node()])

    def settings(self) -> Mapping[str, str]:
        return {
            ".continue/config.yaml": f"""\
name: here
version: 0.0.1
schema: v1
models:
  - name: a-model
    provider: openai
    model: a-model
    apiBase: {self.model.url}/v1
    apiKey: none
    roles: [chat, edit, apply]
"""
        }

    def variables(self) -> Mapping[str, str]:
        return {
            "PATH": f"{node()}:{self.program.parent}:/usr/local/bin:/usr/bin:/bin",
            "CONTINUE_TELEMETRY_ENABLED": "0",
            "CONTINUE_CLI_ENABLE_TELEMETRY": "0",
        }

    def begin(self, word: str) -> str:
        before = self._files()
        self.run(*self._how, "-p", f"Tell me about {word}")
        [session] = self._files() - before
        return session

    def resuming(self, session: str, prompt: str) -> Sequence[str]:
        return (*self.showing(session), "-p", prompt)

    def showing(self, session: str) -> Sequence[str]:
        """It goes on with the file that was written last, whatever is asked for, even by its own
        list. So the one that we mean is made that file."""
        path = self._file(session)
        assert path.is_file(), f"{session} is not there"
        path.touch()
        return (*self._how, "--resume")

    def resume_with(self, session: str, prompt: str) -> None:
        super().resume_with(session, prompt)
        said = json.loads(self._file(session).read_text())["history"]
        assert prompt in said[-2]["message"]["content"], "it went on with another session"
        assert LINE in said[-1]["message"]["content"]

    def listed(self) -> set[str]:
        return {each["id"] for each in json.loads(self.run("ls", "--json"))["sessions"]}

    @property
    def _how(self) -> Sequence[str]:
        return ("--config", str(self.home / "config.yaml"))

    def _file(self, session: str) -> Path:
        return self.home / "sessions" / f"{session}.json"

    def _files(self) -> set[str]:
        return {path.stem for path in self.home.glob("sessions/*-*.json")}
