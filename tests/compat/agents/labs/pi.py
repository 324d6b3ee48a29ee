"""pi as it really is."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from tests.compat.agents.installed import node
from tests.compat.agents.lab import Lab


class Pi(Lab):
    name = "pi"
    package = "@mariozechner/pi-coding-agent"
    version = "0.73.1"
    command = "pi"
    folder = ".pi/agent"

    def settings(self) -> Mapping[str, str]:
        model = {"id": "a-model", "name": "a-model", "contextWindow": 128_000, "maxTokens": 8_000}
        here = {
            "baseUrl": f"{self.model.url}/v1",
            "api": "openai-completions",
            "apiKey": "none",
            "models": [model],
        }
        return {".pi/agent/models.json": json.dumps({"providers": {"here": here}})}

    def variables(self) -> Mapping[str, str]:
        return {
            "PATH": f"{node()}:{self.program.parent}:/usr/local/bin:/usr/bin:/bin",
            "PI_OFFLINE": "1",
            "PI_SKIP_VERSION_CHECK": "1",
        }

    def begin(self, word: str) -> str:
        before = self._files()
        self.run(*_MODEL, "-p", f"Tell me about {word}")
        [name] = self._files() - before
        return name.rpartition("_")[2]

    def resuming(self, session: str, prompt: str) -> Sequence[str]:
        return (*_MODEL, "--session", session, "-p", prompt)

    def showing(self, session: str) -> Sequence[str]:
        return (*_MODEL, "--session", session)

    def listed(self) -> set[str]:
        """Its list shows the first message of each."""
        opened = self.terminal(*_MODEL, "--resume")
        try:
            opened.wait(lambda drawn: "Resume Session" in drawn)
            return self.listed_words(opened.settled())
        finally:
            opened.close()

    def _files(self) -> set[str]:
        return {path.stem for path in self.home.glob("sessions/*/*.jsonl")}


_MODEL = ("--provider", "here", "--model", "a-model")
