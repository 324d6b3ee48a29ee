"""The real thing beside the model: a home, a clock, an agent in a process of its own, commands.

Every command runs in a forked child, as the command does in a real life: with its own process id
and connections, and it may be killed. The driver itself never opens a store, so that no child
inherits a connection. Run it in a program that has one thread.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import pkgutil
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from holdfast.api.sessions import open_sessions
from tests.model.faults import Fault, suffering

#: 2033-05-18, later than any real file: the times of files are set by the driver.
START = 2_000_000_000.0


@dataclass(frozen=True, slots=True)
class Said:
    """What a command said. `code` is negative when a signal ended it."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)


@dataclass(slots=True)
class Agent:
    """A process that has the sessions of the home open, and answers one call at a time."""

    pid: int
    ask: Any
    answer: Any


@dataclass(slots=True)
class World:
    root: Path
    config: str
    now: float = START
    agent: Agent | None = None
    #: Whether commands that change something are started anew, rather than forked.
    real: bool = False
    name: str = "home"

    @property
    def home(self) -> Path:
        return self.root / self.name

    @property
    def files(self) -> Path:
        return self.home / "sessions"

    def project(self, name: str) -> Path:
        return self.root / name

    def holdfast(self, *args: str, fault: Fault | None = None, json_out: bool = True) -> Said:
        """Run a command on the home, at the time that the world has."""
        flags = ["--home", str(self.home), *(["--json"] if json_out else []), *args]
        said = (
            _started(flags, self.now)
            if self.real and fault is None
            else Said(*_in_child(lambda: command(flags, self.now), fault))
        )
        assert "Traceback" not in said.err + said.out, (args, said.err)
        assert "Internal error" not in said.err + said.out, (args, said.err)
        return said

    def read(self, *commands: Sequence[str]) -> list[str]:
        """What commands that only read say, all in one child. Each of them must succeed."""
        where = ["--home", str(self.home)]
        code, out, err = _in_child(lambda: _all([[*where, *c] for c in commands], self.now), None)
        assert code == 0, f"looking at the home ended with {code}: {err}"
        told: list[str] = json.loads(out)
        return told

    def call(self, name: str, /, *args: Any, fault: Fault | None = None, **kwargs: Any) -> Any:
        """Have the agent call a method of its `Sessions`. Its answer, an `AgentError` when it
        raised, or None when it died of it."""
        if self.agent is None:
            self.agent = _start_agent(self.home)
        request = {"name": name, "args": args, "kwargs": kwargs, "now": self.now}
        request["fault"] = None if fault is None else [fault.kind, fault.at]
        try:
            self.agent.ask.write(json.dumps(request) + "\n")
            self.agent.ask.flush()
            answer = self.agent.answer.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            self._reap()
            return None
        reply = json.loads(answer)
        return AgentError(reply["error"]) if "error" in reply else reply["value"]

    def kill_agent(self) -> None:
        if self.agent is not None:
            os.kill(self.agent.pid, signal.SIGKILL)
            self._reap()

    def close_agent(self) -> None:
        """It closes its store and ends in peace."""
        if self.agent is not None:
            self.agent.ask.close()
            self._reap()

    def _reap(self) -> None:
        assert self.agent is not None
        os.waitpid(self.agent.pid, 0)
        for pipe in (self.agent.ask, self.agent.answer):
            try:
                pipe.close()
            except BrokenPipeError:
                continue
        self.agent = None

    def copied(self) -> World:
        """The same world a second time, to try things out in it."""
        root = Path(tempfile.mkdtemp(prefix="holdfast-model-"))
        shutil.copytree(self.root, root, symlinks=True, dirs_exist_ok=True)
        return World(root, self.config, now=self.now, name=self.name)

    def remove(self) -> None:
        self.kill_agent()
        shutil.rmtree(self.root)


@dataclass(frozen=True, slots=True)
class AgentError:
    """What a call of the agent raised, in words."""

    message: str


def _in_child(action: Callable[[], int], fault: Fault | None) -> tuple[int, str, str]:
    """Its exit code, and what it wrote: to pipes, which no limit on the size of files stops."""
    out, err = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            sys.stdin = open(os.devnull)  # noqa: PTH123, SIM115 - for the rest of this process
            sys.stdout, sys.stderr = _on(out[1], 1), _on(err[1], 2)
            with suffering(fault):
                code = action()
            sys.stderr.flush()
        except BaseException as error:  # noqa: BLE001 - told to the driver
            os.write(2, f"Traceback, as it were: {error!r}\n".encode())
        os._exit(code)
    os.close(out[1])
    os.close(err[1])
    with os.fdopen(out[0]) as said, os.fdopen(err[0]) as complained:
        texts = said.read(), complained.read()
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status), *texts


def _on(pipe: int, number: int) -> TextIO:
    """A standard stream anew: the one that was inherited remembers what it was."""
    os.dup2(pipe, number)
    return os.fdopen(number, "w", closefd=False)


def _started(args: Sequence[str], now: float) -> Said:
    """A command as a shell starts it; only its clock is ours."""
    told = (
        f"import sys; from tests.model import world; sys.exit(world.command({list(args)}, {now}))"
    )
    done = subprocess.run([sys.executable, "-c", told], check=False, capture_output=True, text=True)
    return Said(done.returncode, done.stdout, done.stderr)


def command(args: list[str], now: float) -> int:
    import holdfast.cli.invocation
    from holdfast.cli import main

    class Still:
        """The time of the world, where the command asks for the time."""

        @staticmethod
        def time() -> float:
            return now

    vars(holdfast.cli.invocation)["time"] = Still
    return main.run(args)


def _all(commands: Sequence[list[str]], now: float) -> int:
    told, out = [], sys.stdout
    for args in commands:
        sys.stdout = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True)
        code = command(args, now)
        if code != 0:
            return code
        told.append(sys.stdout.buffer.getvalue().decode())
    out.write(json.dumps(told))
    out.flush()
    return 0


def preload() -> None:
    """Import what commands import late: a forked child then has it already."""
    import holdfast

    for module in pkgutil.walk_packages(holdfast.__path__, "holdfast."):
        with contextlib.suppress(ImportError):  # what is for another system, or optional
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)


def _start_agent(home: Path) -> Agent:
    ask_out, ask_in = os.pipe()
    answer_out, answer_in = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(ask_in)
        os.close(answer_out)
        try:
            _serve(home, ask_out, answer_in)
        finally:
            os._exit(0)
    os.close(ask_out)
    os.close(answer_in)
    return Agent(pid, os.fdopen(ask_in, "w"), os.fdopen(answer_out))


def _serve(home: Path, requests: int, answers: int) -> None:
    import holdfast

    now = START
    sessions = open_sessions(home, clock=lambda: now)
    with os.fdopen(requests) as asked, os.fdopen(answers, "w") as told:
        for line in asked:
            request = json.loads(line)
            now = request["now"]
            fault = None if request["fault"] is None else Fault(*request["fault"])
            try:
                with suffering(fault):
                    value = _carry_out(sessions, request)
                reply = {"value": value}
            except holdfast.HoldfastError as error:
                reply = {"error": f"{type(error).__name__}: {error.message}"}
            told.write(json.dumps(reply) + "\n")
            told.flush()
    sessions.close()


def _carry_out(sessions: Any, request: dict[str, Any]) -> Any:
    import holdfast

    args, kwargs = request["args"], request["kwargs"]
    if request["name"] == "append":
        said = [holdfast.Message(**each) for each in args[1]]
        return [str(number) for number in sessions.append(args[0], *said).numbers]
    answer = getattr(sessions, request["name"])(*args, **kwargs)
    if isinstance(answer, holdfast.Session):
        return answer.id
    if isinstance(answer, list | tuple):
        return [each.id for each in answer]
    return None if answer is None else str(answer)
