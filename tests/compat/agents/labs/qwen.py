"""Qwen Code as it really is."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from uuid import uuid4

from tests.compat.agents.installed import node
from tests.compat.agents.lab import Lab, answers_in


class Qwen(Lab):
    name = "qwen"
    package = "@qwen-code/qwen-code"
    version = "0.24.4"
    command = "qwen"
    folder = ".qwen"
    delegating = (
        'CALL agent {"description": "look", "prompt": "Say hi", "subagent_type": "general-purpose"}'
    )

    def settings(self) -> Mapping[str, str]:
        settings = {
            "security": {"auth": {"selectedType": "openai"}},
            "model": {"name": "a-model"},
            "general": {"checkpointing": {"enabled": True}, "enableAutoUpdate": False},
            "privacy": {"usageStatisticsEnabled": False},
            "telemetry": {"enabled": False},
        }
        return {".qwen/settings.json": json.dumps(settings)}

    def variables(self) -> Mapping[str, str]:
        return {
            "PATH": f"{node()}:{self.program.parent}:/usr/local/bin:/usr/bin:/bin",
            "OPENAI_API_KEY": "none",
            "OPENAI_BASE_URL": f"{self.model.url}/v1",
            "OPENAI_MODEL": "a-model",
        }

    def begin(self, word: str) -> str:
        session = str(uuid4())
        self.run("--yolo", "--session-id", session, "-p", f"Tell me about {word}")
        return session

    def resuming(self, session: str, prompt: str) -> Sequence[str]:
        return ("--yolo", "--resume", session, "-p", prompt)

    def showing(self, session: str) -> Sequence[str]:
        return ("--yolo", "--resume", session)

    def resume_with(self, session: str, prompt: str) -> None:
        """After a crash it may print no answer; it stands in its transcript all the same."""
        [chat] = self.home.glob(f"projects/*/chats/{session}.jsonl")
        before = answers_in(chat, '"type":"assistant"')
        self.run(*self.resuming(session, f"{prompt}, about {self.said.get(session)}"))
        assert answers_in(chat, '"type":"assistant"') > before

    def listed(self) -> set[str]:
        opened = self.terminal("--resume")
        try:
            opened.wait(lambda drawn: "Resume Session" in drawn)
            return self.listed_words(opened.settled())
        finally:
            opened.close()
