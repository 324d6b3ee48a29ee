"""OpenClaw, from npm. It needs a newer Node than most; its agent runs without a gateway here."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from tests.compat.agents.installed import node, program
from tests.compat.agents.lab import Lab


class OpenClaw(Lab):
    name = "openclaw"
    package = "openclaw"
    version = "2026.9.6"
    command = "openclaw"
    folder = ".openclaw"

    @classmethod
    def installed(cls) -> Path:
        return program(cls.package, cls.version, cls.command, path=[node()])

    @property
    def environment(self) -> Mapping[str, str]:
        usual = super().environment
        return {**usual, "PATH": f"{node()}:{usual['PATH']}"}

    def settings(self) -> Mapping[str, str]:
        nothing = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}
        model = {
            "id": "a-model",
            "name": "a-model",
            "reasoning": False,
            "input": ["text"],
            "contextWindow": 128_000,
            "maxTokens": 8_000,
            "cost": nothing,
        }
        here = {
            "baseUrl": f"{self.model.url}/v1",
            "apiKey": "none",
            "api": "openai-completions",
            "models": [model],
        }
        agents = {
            "model": {"primary": "here/a-model"},
            "workspace": str(self.project),
            "skipBootstrap": True,
        }
        settings = {
            "models": {"mode": "merge", "providers": {"here": here}},
            "agents": {"defaults": agents},
            "gateway": {"mode": "local", "bind": "loopback", "port": 18_789},
            "update": {"checkOnStart": False},
        }
        return {".openclaw/openclaw.json": json.dumps(settings)}

    def variables(self) -> Mapping[str, str]:
        return {}

    def begin(self, word: str) -> str:
        session = f"agent.main.explicit.{word}"
        self.run(*self.resuming(session, f"Tell me about {word}"))
        return session

    def naming(self, session: str) -> set[str]:
        """Its key, and the id of its window."""
        return {session.replace(".", ":"), session.rpartition(".")[2]}

    def resuming(self, session: str, prompt: str) -> Sequence[str]:
        name = session.rpartition(".")[2]
        return ("agent", "--local", "--session-id", name, "--message", prompt)

    def showing(self, session: str) -> Sequence[str]:
        return ()

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """The agent itself is a child that does not end with its parent."""
        children = psutil.Process(process.pid).children(recursive=True)
        super().kill(process)
        for each in children:
            with suppress(psutil.NoSuchProcess):
                each.kill()
        psutil.wait_procs(children, timeout=20)

    def listed(self) -> set[str]:
        said = self.run("sessions", "--json")
        found = json.loads(said[said.index("{") : said.rindex("}") + 1])
        return {str(each["key"]).replace(":", ".") for each in found["sessions"]}
