"""OpenHands, its command line, from PyPI. It needs Python 3.12."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.compat.agents.installed import python_program
from tests.compat.agents.lab import Lab

_HOW = ("--override-with-envs", "--exit-without-confirmation")


class OpenHands(Lab):
    name = "openhands"
    package = "openhands"
    version = "1.16.0"
    command = "openhands"
    folder = ".openhands"
    anywhere = True
    shown = "Type your message"
    delegating = (
        'CALL task {"description": "look", "prompt": "Say hi", "subagent_type": "default",'
        ' "security_risk": "LOW"}'
    )

    @classmethod
    def installed(cls) -> Path:
        return python_program(cls.package, cls.version, cls.command, "3.12")

    def settings(self) -> Mapping[str, str]:
        return {}

    def variables(self) -> Mapping[str, str]:
        return {
            "PATH": f"{self.program.parent}:{os.environ['PATH']}",
            "LLM_API_KEY": "none",
            "LLM_BASE_URL": f"{self.model.url}/v1",
            "LLM_MODEL": "openai/a-model",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "OPENHANDS_SUPPRESS_BANNER": "1",
            "TMUX_TMPDIR": str(self._shells),
        }

    def begin(self, word: str) -> str:
        said = self.run(*_HOW, "--headless", "-t", f"Tell me about {word}")
        found = re.search(r"Conversation ID: ([0-9a-f]{32})", said)
        assert found is not None, said
        return found[1]

    def resuming(self, session: str, prompt: str) -> Sequence[str]:
        return (*_HOW, "--headless", "--resume", session, "-t", prompt)

    def showing(self, session: str) -> Sequence[str]:
        return (*_HOW, "--always-approve", "--resume", session)

    def before_start(self) -> None:
        self._shells.mkdir(exist_ok=True)

    def close(self) -> None:
        """Its shells live in a server of their own, which stays."""
        tmux = shutil.which("tmux")
        if tmux is not None:
            subprocess.run(
                [tmux, "-L", "openhands", "kill-server"],
                env=dict(self.environment),
                capture_output=True,
                check=False,
            )

    def listed(self) -> set[str]:
        """Without an id it only shows its list."""
        return set(re.findall(r"\b[0-9a-f]{32}\b", self.run("--resume")))

    @property
    def _shells(self) -> Path:
        """Where that server listens: not below what is copied, for nobody can copy a socket."""
        return self.place.with_name("shells")
