"""Copilot CLI as it really is."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import ClassVar
from uuid import uuid4

from tests.compat.agents.installed import node
from tests.compat.agents.lab import Lab
from tests.compat.agents.model_server import LINE


class Copilot(Lab):
    name = "copilot"
    package = "@github/copilot"
    version = "1.0.102"
    command = "copilot"
    folder = ".copilot"
    drawn = "there is to say"
    undecided: ClassVar[Mapping[str, str]] = {
        "test_what_is_archived_comes_back": "its list in a terminal cannot be read reliably"
    }

    def settings(self) -> Mapping[str, str]:
        return {".copilot/config.json": json.dumps({"trustedFolders": [str(self.project)]})}

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

    def resume_with(self, session: str, prompt: str) -> None:
        """After a crash it prints no answer; it stands in its events all the same."""
        self.run(*self.resuming(session, f"{prompt}, about {self.said.get(session)}"))
        events = self.home / "session-state" / session / "events.jsonl"
        answers = [
            line for line in events.read_text().splitlines() if '"assistant.message"' in line
        ]
        assert LINE in answers[-1]

    def listed(self) -> set[str]:
        """Its terminal redraws only what changed of a line, so that a look may miss a word: some
        looks together."""
        found: set[str] = set()
        for _ in range(4):
            opened = self.terminal("--resume")
            try:
                found |= self.listed_words(opened.settled(5))
            finally:
                opened.close()
            if found == self.said.keys():
                break
        return found
