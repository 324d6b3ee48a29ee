"""Copilot CLI as it really is."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any
from uuid import uuid4

from tests.compat.agents.installed import node
from tests.compat.agents.lab import Lab, answers_in


class Copilot(Lab):
    name = "copilot"
    package = "@github/copilot"
    version = "1.0.102"
    command = "copilot"
    folder = ".copilot"
    drawn = "there is to say"

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
        events = self.home / "session-state" / session / "events.jsonl"
        before = answers_in(events, '"assistant.message"')
        self.run(*self.resuming(session, f"{prompt}, about {self.said.get(session)}"))
        assert answers_in(events, '"assistant.message"') > before

    def listed(self) -> set[str]:
        """From its server, which is what editors ask: its terminal redraws only what changed of a
        line, so that a look at its own picker may miss a word."""
        asked = {"jsonrpc": "2.0", "id": 1, "method": "session.list", "params": {}}
        with subprocess.Popen(
            [str(self.program), "--headless", "--stdio"],
            cwd=self.project,
            env=dict(self.environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as server:
            assert server.stdin is not None
            assert server.stdout is not None
            said = json.dumps(asked).encode()
            server.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(said), said))
            server.stdin.flush()
            try:
                answer = next(each for each in _messages(server.stdout) if each.get("id") == 1)
            finally:
                server.terminate()
        return {each["sessionId"] for each in answer["result"]["sessions"]}


def _messages(stream: IO[bytes]) -> Iterator[dict[str, Any]]:
    """Each has a length before it, as language servers speak."""
    while head := stream.readline():
        name, _, value = head.partition(b":")
        if name.lower() == b"content-length":
            while stream.readline().strip():
                pass
            yield json.loads(stream.read(int(value)))
