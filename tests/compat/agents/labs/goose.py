"""Goose, from npm."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from tests.compat.agents.lab import Lab


class Goose(Lab):
    name = "goose"
    package = "@aaif/goose"
    version = "0.20.1"
    command = "goose"
    folder = ".local/share/goose"
    delegating = 'CALL delegate {"instructions": "Say hi"}'

    def settings(self) -> Mapping[str, str]:
        return {
            ".config/goose/config.yaml": """\
GOOSE_TELEMETRY_ENABLED: false
extensions:
  developer:
    enabled: true
    type: builtin
    name: developer
    timeout: 300
    bundled: true
"""
        }

    def variables(self) -> Mapping[str, str]:
        return {
            "GOOSE_PROVIDER": "openai",
            "GOOSE_MODEL": "a-model",
            "OPENAI_HOST": self.model.url,
            "OPENAI_API_KEY": "none",
            "OPENAI_BASE_PATH": "v1/chat/completions",
            "GOOSE_DISABLE_KEYRING": "1",
            "GOOSE_TELEMETRY_ENABLED": "false",
            "GOOSE_MODE": "auto",
        }

    def begin(self, word: str) -> str:
        before = self.listed()
        self.run("run", "-t", f"Tell me about {word}")
        [session] = self.listed() - before
        return session

    def resuming(self, session: str, prompt: str) -> Sequence[str]:
        return ("run", "--resume", "--session-id", session, "-t", prompt)

    def showing(self, session: str) -> Sequence[str]:
        return ("session", "--resume", "--session-id", session, "--history")

    def listed(self) -> set[str]:
        said = self.run("session", "list", "--format", "json").strip()
        return {each["id"] for each in json.loads(said)} if said else set()
