"""Kimi Code, from npm. It needs a newer Node than most."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path

from tests.compat.agents.installed import node, program
from tests.compat.agents.lab import Lab


class KimiCode(Lab):
    name = "kimi-code"
    package = "@moonshot-ai/kimi-code"
    version = "2.1.0"
    command = "kimi"
    folder = ".kimi-code"
    delegating = 'CALL Agent {"description": "look", "prompt": "Say hi", "subagent_type": "coder"}'

    @classmethod
    def installed(cls) -> Path:
        return program(cls.package, cls.version, cls.command, path=[node()])

    @property
    def environment(self) -> Mapping[str, str]:
        usual = super().environment
        return {**usual, "PATH": f"{node()}:{usual['PATH']}"}

    def settings(self) -> Mapping[str, str]:
        workspace = f"wd_project_{sha256(str(self.project).encode()).hexdigest()[:12]}"
        trusted = {"root": str(self.project), "trustedAt": 1_794_800_000_000}
        return {
            f".kimi-code/workspace-trust/{workspace}": json.dumps(trusted),
            ".kimi-code/config.toml": f"""\
default_model = "here"
telemetry = false
[providers.here]
type = "openai"
base_url = "{self.model.url}/v1"
api_key = "none"
[models.here]
provider = "here"
model = "a-model"
max_context_size = 128000
""",
        }

    def variables(self) -> Mapping[str, str]:
        return {}

    def begin(self, word: str) -> str:
        said = self.run("-p", f"Tell me about {word}")
        found = re.search(r"session_[0-9a-f-]{36}", said)
        assert found is not None, said
        return found[0]

    def resuming(self, session: str, prompt: str) -> Sequence[str]:
        return ("--session", session, "-p", prompt)

    def showing(self, session: str) -> Sequence[str]:
        return ("--auto", "--session", session)

    def listed(self) -> set[str]:
        return set(re.findall(r"session_[0-9a-f-]{36}", self.run("session", "list", "--json")))
