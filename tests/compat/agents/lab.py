"""The four agents as they really are: how each is set up, spoken to, resumed and asked to list.

Each runs in a home of its own and speaks to `model_server` alone.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar
from uuid import uuid4

from tests.compat.agents.installed import program
from tests.compat.agents.model_server import LINE, ModelServer
from tests.compat.agents.terminal import Terminal


class Lab(ABC):
    """One agent with a home, a project and a model. `said` has the sessions that were begun, each
    with a word that stands in its first prompt and in no other."""

    name: str
    package: str
    version: str
    command: str
    #: The home of the agent, below the home of its user.
    folder: str
    #: What lets the model start a subagent; empty where that needs more than a model.
    delegating: str = ""
    #: Tests that this agent does not let us decide, by name, and why.
    undecided: ClassVar[Mapping[str, str]] = MappingProxyType({})
    #: How long one run may take, in seconds.
    patience: float = 120
    #: What of an answer a terminal shows in one piece.
    drawn: str = "Noted."
    #: What a terminal shows that has a session open; empty where that is what was said in it.
    shown: str = ""
    #: Whether it goes on with a session in another folder than the one it began in.
    anywhere: bool = False

    def __init__(self, place: Path, model: ModelServer) -> None:
        self.program = self.installed()
        self.place = place
        self.user = place / "user"
        self.project = place / "project"
        self.working_in = self.project
        self.model = model
        self.said: dict[str, str] = {}

    @classmethod
    def installed(cls) -> Path:
        """From npm; raises `NotInstallableError` where it is not to be had."""
        return program(cls.package, cls.version, cls.command)

    @property
    def home(self) -> Path:
        return self.user / self.folder

    def set_up(self) -> None:
        self.project.mkdir(parents=True)
        (self.project / "README.md").write_text("# A project\n")
        who = ("-c", "user.name=me", "-c", "user.email=me@example.org")
        for words in (("init", "-q"), ("add", "."), (*who, "commit", "-qm", "Begin")):
            subprocess.run(["git", "-C", str(self.project), *words], check=True)
        self.configure()

    def configure(self) -> None:
        """The address of the model is another one in each run."""
        for name, text in self.settings().items():
            path = self.user / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    @property
    def environment(self) -> Mapping[str, str]:
        """A proxy that nobody answers at, so that nothing leaves this machine."""
        return {
            "HOME": str(self.user),
            "PATH": f"{self.program.parent}:{os.environ['PATH']}",
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
            "DO_NOT_TRACK": "1",
            "HTTPS_PROXY": "http://127.0.0.1:9",
            "NO_PROXY": "127.0.0.1,localhost",
            **self.variables(),
        }

    def run(self, *words: str) -> str:
        self.before_start()
        done = subprocess.run(
            [str(self.program), *words],
            cwd=self.project,
            env=dict(self.environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=self.patience,
            check=False,
        )
        assert done.returncode == 0, f"{words} failed:\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    def terminal(self, *words: str) -> Terminal:
        self.before_start()
        return Terminal([str(self.program), *words], cwd=self.project, env=self.environment)

    def start(self, session: str, prompt: str) -> subprocess.Popen[bytes]:
        """Resume a session, and do not wait for the answer."""
        self.before_start()
        return subprocess.Popen(
            [str(self.program), *self.resuming(session, prompt)],
            cwd=self.working_in,
            env=dict(self.environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def resume(self, session: str) -> None:
        """Raises unless the agent knows the session and goes on with it."""
        self.resume_with(session, "Go on")

    def resume_with(self, session: str, prompt: str) -> None:
        """The word again: a list may show the last prompt instead of the first."""
        prompt = f"{prompt}, about {self.said.get(session)}"
        said = self.run(*self.resuming(session, prompt))
        assert LINE in said, said

    @abstractmethod
    def settings(self) -> Mapping[str, str]: ...

    @abstractmethod
    def variables(self) -> Mapping[str, str]: ...

    @abstractmethod
    def begin(self, word: str) -> str:
        """A new session about a word; its id."""

    @abstractmethod
    def resuming(self, session: str, prompt: str) -> Sequence[str]: ...

    @abstractmethod
    def showing(self, session: str) -> Sequence[str]:
        """How a terminal is opened in which a person goes on with a session."""

    @abstractmethod
    def listed(self) -> set[str]:
        """The sessions that the agent itself lists."""

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """End the agent that `start` gave, as a crash would."""
        end(process)

    def close(self) -> None:  # noqa: B027 - most agents leave nothing
        """End what the agent left running."""

    def before_start(self) -> None:  # noqa: B027 - most agents need nothing
        """What is done before each start of the agent."""

    def naming(self, session: str) -> set[str]:
        """What stands for a session in the files and rows of the agent."""
        return {session}

    def say(self, word: str) -> str:
        session = self.begin(word)
        self.said[session] = word
        return session

    def listed_words(self, text: str) -> set[str]:
        return {session for session, word in self.said.items() if word in text}


class Claude(Lab):
    name = "claude-code"
    package = "@anthropic-ai/claude-code"
    version = "2.1.325"
    command = "claude"
    folder = ".claude"
    delegating = (
        'CALL Agent {"description": "look", "prompt": "Say hi", "subagent_type": "general-purpose"}'
    )

    def settings(self) -> Mapping[str, str]:
        trusted = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
        state = {
            "hasCompletedOnboarding": True,
            "theme": "dark",
            "customApiKeyResponses": {"approved": ["sk-none"], "rejected": []},
            "projects": {str(self.project): trusted},
        }
        settings = {"skipDangerousModePermissionPrompt": True}
        there = (self.user / ".claude.json").exists()
        return {
            **({} if there else {".claude.json": json.dumps(state)}),
            ".claude/settings.json": json.dumps(settings),
        }

    def variables(self) -> Mapping[str, str]:
        return {
            "ANTHROPIC_BASE_URL": self.model.url,
            "ANTHROPIC_API_KEY": "sk-none",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "IS_SANDBOX": "1",
        }

    def begin(self, word: str) -> str:
        """In a terminal: what `-p` began, its list leaves out."""
        session = str(uuid4())
        prompt = f"Tell me about {word}"
        opened = self.terminal("--dangerously-skip-permissions", "--session-id", session, prompt)
        try:
            opened.wait(lambda drawn: "Noted." in drawn)
            opened.settled()
            opened.type("/exit")
            opened.process.wait(timeout=20)
        finally:
            opened.close()
        return session

    def resuming(self, session: str, prompt: str) -> Sequence[str]:
        return ("-p", "--dangerously-skip-permissions", "--resume", session, prompt)

    def showing(self, session: str) -> Sequence[str]:
        return ("--dangerously-skip-permissions", "--resume", session)

    def listed(self) -> set[str]:
        opened = self.terminal("--resume")
        try:
            opened.wait(lambda drawn: "Type to search" in drawn)
            return self.listed_words(opened.settled())
        finally:
            opened.close()


class Codex(Lab):
    name = "codex"
    package = "@openai/codex"
    version = "0.166.0"
    command = "codex"
    folder = ".codex"
    delegating = 'CALL spawn_agent {"message": "Say hi"}'

    def settings(self) -> Mapping[str, str]:
        return {
            ".codex/config.toml": f"""\
model = "a-model"
model_provider = "here"
check_for_update_on_startup = false
[model_providers.here]
name = "here"
base_url = "{self.model.url}/v1"
wire_api = "responses"
env_key = "HERE_KEY"
[analytics]
enabled = false
[projects."{self.project}"]
trust_level = "trusted"
"""
        }

    def variables(self) -> Mapping[str, str]:
        return {"HERE_KEY": "none"}

    def begin(self, word: str) -> str:
        said = self.run("exec", "--dangerously-bypass-approvals-and-sandbox", f"About {word}")
        found = re.search(r"session id: (\S+)", said)
        assert found is not None, said
        return found[1]

    def resuming(self, session: str, prompt: str) -> Sequence[str]:
        return ("exec", "--dangerously-bypass-approvals-and-sandbox", "resume", session, prompt)

    def showing(self, session: str) -> Sequence[str]:
        return ("resume", session)

    def close(self) -> None:
        """Its terminals are clients of a daemon, which stays with another process beside it."""
        for name in ("daemon-updater.pid", "daemon.pid"):
            with suppress(OSError, ValueError):
                said = json.loads((self.home / "app-server-daemon" / name).read_text())
                os.kill(said["pid"], signal.SIGKILL)

    def listed(self, *, archived: bool = False) -> set[str]:
        """From its server, which is what its pickers ask."""
        server = subprocess.Popen(
            [str(self.program), "app-server"],
            cwd=self.project,
            env=dict(self.environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert server.stdin is not None
        assert server.stdout is not None
        who = {"clientInfo": {"name": "test", "version": "1"}}
        wanted = {"archived": archived, "sourceKinds": ["exec", "cli"], "limit": 100}
        for said in (
            {"id": 1, "method": "initialize", "params": who},
            {"method": "initialized"},
            {"id": 2, "method": "thread/list", "params": wanted},
        ):
            server.stdin.write(json.dumps(said) + "\n")
        server.stdin.flush()
        found: set[str] | None = None
        for line in server.stdout:
            answer = json.loads(line)
            if answer.get("id") == 2:
                found = {each["id"] for each in answer["result"]["data"]}
                break
        server.stdin.close()
        server.stdout.close()
        server.wait(timeout=20)
        assert found is not None
        return found


class Gemini(Lab):
    name = "gemini"
    package = "@google/gemini-cli"
    version = "0.61.0"
    command = "gemini"
    folder = ".gemini"
    delegating = 'CALL invoke_agent {"agent_name": "generalist", "prompt": "Say hi"}'

    def settings(self) -> Mapping[str, str]:
        key = {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}}
        settings = {
            "security": key,
            "general": {"checkpointing": {"enabled": True}, "enableAutoUpdate": False},
            "privacy": {"usageStatisticsEnabled": False},
            "telemetry": {"enabled": False},
        }
        return {".gemini/settings.json": json.dumps(settings)}

    def variables(self) -> Mapping[str, str]:
        return {"GEMINI_API_KEY": "none", "GOOGLE_GEMINI_BASE_URL": self.model.url}

    def begin(self, word: str) -> str:
        session = str(uuid4())
        self.run("--yolo", "--session-id", session, "-p", f"Tell me about {word}")
        return session

    def resuming(self, session: str, prompt: str) -> Sequence[str]:
        return ("--yolo", "--resume", session, "-p", prompt)

    def showing(self, session: str) -> Sequence[str]:
        return ("--yolo", "--resume", session)

    def before_start(self) -> None:
        """Gemini CLI 0.61.0 loses sessions by itself. One that `-p` resumes in another minute than
        that in which it began gets a second file, in which nothing is said; the next start deletes
        that file as empty, and with it every file of the same session. We take it away before."""
        for path in self.home.glob("tmp/*/chats/session-*.jsonl"):
            short = path.stem.rpartition("-")[2]
            begun = min(path.parent.glob(f"session-*-{short}.jsonl"))
            if path != begun and LINE not in path.read_text():
                path.unlink()

    def listed(self) -> set[str]:
        return set(re.findall(r"\[([0-9a-f-]{36})\]", self.run("--list-sessions")))


class OpenCode(Lab):
    name = "opencode"
    package = "opencode-ai"
    version = "1.18.33"
    command = "opencode"
    folder = ".local/share/opencode"
    delegating = 'CALL task {"description": "look", "prompt": "Say hi", "subagent_type": "general"}'

    def settings(self) -> Mapping[str, str]:
        limits = {"context": 128_000, "output": 8_000}
        here = {
            "npm": "@ai-sdk/openai-compatible",
            "name": "here",
            "options": {"baseURL": f"{self.model.url}/v1", "apiKey": "none"},
            "models": {"a-model": {"name": "a-model", "limit": limits}},
        }
        settings = {
            "model": "here/a-model",
            "small_model": "here/a-model",
            "autoupdate": False,
            "share": "disabled",
            "snapshot": True,
            "permission": {"edit": "allow", "bash": "allow"},
            "provider": {"here": here},
        }
        return {".config/opencode/opencode.json": json.dumps(settings)}

    def variables(self) -> Mapping[str, str]:
        names = ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD")
        return {f"OPENCODE_DISABLE_{name}": "1" for name in names}

    def begin(self, word: str) -> str:
        before = self.listed()
        self.run("run", f"Tell me about {word}")
        [session] = self.listed() - before
        return session

    def resuming(self, session: str, prompt: str) -> Sequence[str]:
        return ("run", "--session", session, prompt)

    def showing(self, session: str) -> Sequence[str]:
        return ("--session", session)

    def listed(self) -> set[str]:
        said = self.run("session", "list", "--format", "json").strip()
        return {each["id"] for each in json.loads(said)} if said else set()


FOUR: Sequence[type[Lab]] = (Claude, Codex, Gemini, OpenCode)


def end(process: subprocess.Popen[bytes]) -> None:
    """End an agent that does not end by itself, and what it started."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(timeout=20)
    if process.stdout is not None:
        process.stdout.close()


def answers_in(transcript: Path, having: str) -> int:
    """How often the model's line stands in the lines of a transcript that have this text. Some
    agents print no answer when they go on with a session after a crash."""
    lines = transcript.read_text().splitlines()
    return sum(having in line and LINE in line for line in lines)


def copied(source: Path, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target, symlinks=True)
