"""droid, of Factory, from npm.

Without a terminal it takes any key where we answer for its service. Its terminal lets in only who
has a valid one, and its subagents run in a daemon, which is not reached without one either.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from typing import ClassVar

from tests.compat.agents.lab import Lab

_HOW = ("--auto", "high", "-m", "custom:a-model")


class Droid(Lab):
    name = "droid"
    package = "droid"
    version = "0.215.0"
    command = "droid"
    folder = ".factory"
    anywhere = True
    undecided: ClassVar[Mapping[str, str]] = {
        "test_a_subagent_is_a_delegate_of_its_session": "droid runs subagents in its daemon, for"
        " which it wants a login",
        "test_an_agent_that_shows_a_session_is_never_touched": "droid wants a login in a terminal",
    }

    def settings(self) -> Mapping[str, str]:
        model = {
            "model": "a-model",
            "displayName": "a-model",
            "baseUrl": f"{self.model.url}/v1",
            "apiKey": "none",
            "provider": "generic-chat-completion-api",
            "maxOutputTokens": 8_000,
        }
        settings = {"cloudSessionSync": False, "customModels": [model]}
        return {".factory/settings.json": json.dumps(settings)}

    def variables(self) -> Mapping[str, str]:
        return {"FACTORY_API_KEY": "fk-none", "FACTORY_API_BASE_URL": self.model.url}

    def begin(self, word: str) -> str:
        before = self._files()
        self.run("exec", *_HOW, f"Tell me about {word}")
        [session] = self._files() - before
        return session

    def resuming(self, session: str, prompt: str) -> Sequence[str]:
        return ("exec", *_HOW, "-s", session, prompt)

    def showing(self, session: str) -> Sequence[str]:
        return ()

    def listed(self) -> set[str]:
        """What it tells editors, which is what its own list shows."""
        server = subprocess.Popen(
            [str(self.program), "exec", "--output-format", "acp"],
            cwd=self.project,
            env=dict(self.environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        assert server.stdin is not None
        assert server.stdout is not None
        asked: Mapping[str, Mapping[str, object]] = {
            "initialize": {"protocolVersion": 1, "clientCapabilities": {}},
            "session/list": {},
        }
        answers = []
        try:
            for method, params in asked.items():
                said = {"jsonrpc": "2.0", "id": method, "method": method, "params": params}
                server.stdin.write(json.dumps(said) + "\n")
                server.stdin.flush()
                answers.append(
                    next(
                        each for each in map(json.loads, server.stdout) if each.get("id") == method
                    )
                )
        finally:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait(timeout=20)
            server.stdin.close()
            server.stdout.close()
        return {each["sessionId"] for each in answers[-1]["result"]["sessions"]}

    def _files(self) -> set[str]:
        return {path.stem for path in self.home.glob("sessions/*/*.jsonl")}
