"""Cline as it really is."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from tests.compat.agents.installed import node
from tests.compat.agents.lab import Lab

_SAYING = '"$@" > "$0" 2>&1; code=$?; cat "$0"; exit $code'


class Cline(Lab):
    """Each command leaves a daemon behind that has all sessions; it is ended after each, as its
    user would. A session is resumed in a terminal only."""

    name = "cline"
    package = "cline"
    version = "3.0.65"
    command = "cline"
    folder = ".cline/data"
    provider = "openai-compatible"
    model_name = "a-model"
    delegating = 'CALL spawn_agent {"systemPrompt": "You look", "task": "Say hi"}'

    def settings(self) -> Mapping[str, str]:
        settings = {
            "provider": self.provider,
            "apiKey": "none",
            "model": self.model_name,
            "baseUrl": f"{self.model.url}/v1",
        }
        made = {"settings": settings, "updatedAt": "2026-01-01T00:00:00Z", "tokenSource": "manual"}
        said = {
            "version": 1,
            "lastUsedProvider": self.provider,
            "modes": {},
            "providers": {self.provider: made},
        }
        return {".cline/data/settings/providers.json": json.dumps(said)}

    def variables(self) -> Mapping[str, str]:
        return {
            "PATH": f"{node()}:{self.program.parent}:/usr/local/bin:/usr/bin:/bin",
            "CLINE_TELEMETRY_DISABLED": "1",
            "CLINE_NO_AUTO_UPDATE": "1",
        }

    def begin(self, word: str) -> str:
        before = self._folders()
        self.run(f"Tell me about {word}")
        [session] = self._folders() - before
        return session

    def _folders(self) -> set[str]:
        return {path.name for path in (self.home / "sessions").glob("*")}

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
        """Its daemon keeps what it writes to open: a pipe would never end."""
        said = self.place / "said"
        with said.open("w") as file:
            done = subprocess.run(
                [str(self.program), *words],
                cwd=self.project,
                env=dict(self.environment),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                timeout=120,
                check=False,
            )
        text = said.read_text()
        assert done.returncode == 0, f"{words} failed:\n{text}"
        self.close()
        return text

    def start(self, session: str, prompt: str) -> subprocess.Popen[bytes]:
        said = str(self.place / "said")
        return subprocess.Popen(
            ["sh", "-c", _SAYING, said, str(self.program), *self.resuming(session, prompt)],
            cwd=self.project,
            env=dict(self.environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def listed(self) -> set[str]:
        """A subagent that Cline once took for dead is listed like a session. It counts only if it
        was left behind."""
        said = self.run("history", "--json")
        listed = json.loads(said[said.index("[") :]) if "[" in said else []
        names = {each["sessionId"] for each in listed if not each.get("isSubagent")}
        return {each for each in names if "__" not in each or each.split("__")[0] not in names}

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """The daemon is the agent and the process its window, but a run that begins before the
        daemon is up does its work itself."""
        super().kill(process)
        for daemon in self._daemons():
            os.kill(daemon, signal.SIGKILL)

    def _daemons(self) -> Iterator[int]:
        of_here = f"HOME={self.user}".encode()
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                words, around = (entry / "cmdline").read_bytes(), (entry / "environ").read_bytes()
                if b"--cline-hub-daemon" in words and of_here in around.split(b"\0"):
                    yield int(entry.name)

    def close(self) -> None:
        subprocess.run(
            [str(self.program), "hub", "stop"],
            cwd=self.project,
            env=dict(self.environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=60,
            check=False,
        )
