"""gptme, from PyPI."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.compat.agents.installed import python_program
from tests.compat.agents.lab import Lab

_HOW = ("--model", "local/a-model", "--tool-format", "tool")


class Gptme(Lab):
    name = "gptme"
    package = "gptme"
    version = "0.35.1"
    command = "gptme"
    folder = ".local/share/gptme"

    @classmethod
    def installed(cls) -> Path:
        return python_program(cls.package, cls.version, cls.command, "3.11")

    def settings(self) -> Mapping[str, str]:
        return {}

    def variables(self) -> Mapping[str, str]:
        return {
            "OPENAI_API_KEY": "none",
            "OPENAI_BASE_URL": f"{self.model.url}/v1",
            "LOCAL_API_KEY": "none",
            "MODEL": "local/a-model",
        }

    def begin(self, word: str) -> str:
        session = f"about-{word}"
        self.run("-n", *_HOW, "--name", session, f"Tell me about {word}")
        return session

    def resuming(self, session: str, prompt: str) -> Sequence[str]:
        return ("-n", *_HOW, "--name", session, prompt)

    def showing(self, session: str) -> Sequence[str]:
        """What began without a terminal ends at once in one, because a conversation keeps its
        settings; its user changes this one."""
        path = self.home / "logs" / session / "config.toml"
        path.write_text(path.read_text().replace("interactive = false", "interactive = true"))
        return (*_HOW, "--name", session)

    def listed(self) -> set[str]:
        said = self.run("chats", "list", "-n", "50")
        return set(re.findall(r"\babout-\w+", said))
