"""Copilot CLI as it really is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import uuid4

from tests.compat.agents.installed import node
from tests.compat.agents.lab import Lab
from tests.compat.agents.terminal import Terminal


class Copilot(Lab):
    name = "copilot"
    package = "@github/copilot"
    version = "1.0.102"
    command = "copilot"
    folder = ".copilot"
    drawn = "there is to say"

    def settings(self) -> Mapping[str, str]:
        return {}

    def variables(self) -> Mapping[str, str]:
        return {
            "PATH": f"{node()}:{self.program.parent}:/usr/local/bin:/usr/bin:/bin",
            "COPILOT_PROVIDER_BASE_URL": f"{self.model.url}/v1",
            "COPILOT_PROVIDER_TYPE": "openai",
            "COPILOT_PROVIDER_API_KEY": "none",
            "COPILOT_MODEL": "a-model",
            "COPILOT_OFFLINE": "true",
            "COPILOT_AUTO_UPDATE": "false",
        }

    def begin(self, word: str) -> str:
        session = str(uuid4())
        self.run("--allow-all", "--session-id", session, "-p", f"Tell me about {word}")
        return session

    def resuming(self, session: str, prompt: str) -> Sequence[str]:
        return ("--allow-all", f"--resume={session}", "-p", prompt)

    def showing(self, session: str) -> Sequence[str]:
        return ("--allow-all", f"--resume={session}")

    def terminal(self, *words: str) -> Terminal:
        """It asks whether the folder is to be trusted, each time."""
        opened = super().terminal(*words)
        opened.wait(lambda drawn: "folder trust" in drawn)
        opened.settled()
        opened.type("")
        return opened

    def listed(self) -> set[str]:
        """It draws its list piece by piece, and not always the same ones: two looks."""
        found = set()
        for _ in range(2):
            opened = self.terminal("--resume")
            try:
                found |= self.listed_words(opened.settled(5))
            finally:
                opened.close()
        return found
