"""Cline as it really is."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Mapping, Sequence

from holdfast.homes.life import locked
from tests.compat.agents.installed import node
from tests.compat.agents.lab import Lab


class Cline(Lab):
    """Each command leaves a daemon behind that has all sessions; it is ended after each, as its
    user would. A session is resumed in a terminal only."""

    name = "cline"
    package = "cline"
    version = "3.0.65"
    command = "cline"
    folder = ".cline/data"
    delegating = 'CALL spawn_agent {"systemPrompt": "You look", "task": "Say hi"}'

    def settings(self) -> Mapping[str, str]:
        settings = {
            "provider": "openai-compatible",
            "apiKey": "none",
            "model": "a-model",
            "baseUrl": f"{self.model.url}/v1",
        }
        made = {"settings": settings, "updatedAt": "2026-01-01T00:00:00Z", "tokenSource": "manual"}
        said = {
            "version": 1,
            "lastUsedProvider": "openai-compatible",
            "modes": {},
            "providers": {"openai-compatible": made},
        }
        return {".cline/data/settings/providers.json": json.dumps(said)}

    def variables(self) -> Mapping[str, str]:
        return {
            "PATH": f"{node()}:{self.program.parent}:/usr/local/bin:/usr/bin:/bin",
            "CLINE_TELEMETRY_DISABLED": "1",
            "CLINE_NO_AUTO_UPDATE": "1",
        }

    def begin(self, word: str) -> str:
        before = self.listed()
        self.run(f"Tell me about {word}")
        [session] = self.listed() - before
        return session

    def resuming(self, session: str, prompt: str) -> Sequence[str]:
        """Another session: while it runs, the daemon has them all."""
        return (prompt,)

    def resume_with(self, session: str, prompt: str) -> None:
        opened = self.terminal(*self.showing(session))
        try:
            opened.wait(lambda drawn: self.said.get(session, "") in drawn)
            opened.settled()
            before = opened.text.count(self.drawn)
            opened.type(f"{prompt}, about {self.said.get(session)}")
            opened.wait(lambda drawn: drawn.count(self.drawn) > before)
            opened.settled()
        finally:
            opened.close()
            self.close()

    def showing(self, session: str) -> Sequence[str]:
        return ("--tui", "--id", session)

    def run(self, *words: str) -> str:
        said = super().run(*words)
        self.close()
        return said

    def listed(self) -> set[str]:
        said = self.run("history", "--json")
        return {each["sessionId"] for each in json.loads(said[said.index("[") :])}

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """The daemon is the agent; the process is its window."""
        lock = self.home / "locks" / "hub" / "production.json.instance.lock"
        holder = re.search(r"process (\d+) holds", locked(lock) or "")
        assert holder is not None
        os.kill(int(holder[1]), signal.SIGKILL)
        super().kill(process)

    def close(self) -> None:
        subprocess.run(
            [str(self.program), "hub", "stop"],
            cwd=self.project,
            env=dict(self.environment),
            capture_output=True,
            timeout=60,
            check=False,
        )
