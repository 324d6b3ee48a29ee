"""Those who take part in the benchmark of checkpoints: the libraries in processes of their own that
live as long as an agent does, and the programs as their users start them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from baselines import hermes_python

_WORKERS = Path(__file__).parent / "workers"


class Worker:
    """A library that is asked over a pipe. It times itself, so that its start does not count."""

    def __init__(self, python: Path, script: str, log: Path, **environment: object) -> None:
        self._script = script
        self._log = log
        with log.open("w") as complaints:
            self._process = subprocess.Popen(
                [str(python), str(_WORKERS / script)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=complaints,
                text=True,
                env=os.environ | {name: str(value) for name, value in environment.items()},
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.communicate()

    def ask(self, *request: object) -> dict[str, Any]:
        """Have some work done; a failure ends the benchmark."""
        writing, reading = self._process.stdin, self._process.stdout
        if writing is None or reading is None:
            raise AssertionError("it was started with pipes")
        try:
            writing.write(json.dumps(request, default=str) + "\n")
            writing.flush()
        except BrokenPipeError:
            pass  # what it said last is below
        answer = reading.readline()
        if not answer:
            raise SystemExit(f"{self._script} failed:\n{self._log.read_text()}")
        result: dict[str, Any] = json.loads(answer)
        return result


class Holdfast(Worker):
    """Holdfast, for any number of homes."""

    def __init__(self, scratch: Path) -> None:
        super().__init__(Path(sys.executable), "checkpoint_holdfast.py", scratch / "holdfast.log")

    def take(
        self, home: Path, tree: Path, paths: Sequence[str] | None = None, *, changed: bool = True
    ) -> float:
        """The seconds of a checkpoint; one that is not as expected ends the benchmark."""
        answer = self.ask("take", home, tree, paths)
        if answer["taken"] is not changed:
            raise SystemExit(f"Holdfast, {tree}: {answer}, but changed: {changed}")
        return float(answer["seconds"])


class Hermes(Worker):
    """Hermes with a home of its own. Once it refused a directory it is not asked again."""

    def __init__(self, home: Path) -> None:
        home.mkdir()
        log = home.with_name(f"{home.name}.log")
        super().__init__(hermes_python(), "checkpoint_hermes.py", log, HERMES_HOME=home)
        self.refused = False

    def take(self, tree: Path, *, changed: bool = True) -> float | None:
        """The seconds of a checkpoint; None when it took none although something changed."""
        answer = self.ask("take", tree)
        if changed and not answer["taken"]:
            self.refused = True
            return None
        return float(answer["seconds"])


class BareGit:
    """A bare repository with a private index for a tree, as plain as git has them."""

    def __init__(self, store: Path, tree: Path, index: str = "index") -> None:
        self._tree = tree
        self.index = store / index
        self._environment = clean(
            GIT_DIR=store,
            GIT_WORK_TREE=tree,
            GIT_INDEX_FILE=self.index,
            GIT_CONFIG_GLOBAL=os.devnull,
            GIT_CONFIG_NOSYSTEM=1,
            **{f"GIT_{who}_{what}": "bench" for who in ("AUTHOR", "COMMITTER") for what in _WHO},
        )
        if not store.exists():
            command = ["git", "init", "--quiet", "--bare", "--template=", str(store)]
            subprocess.run(command, check=True, env=clean(GIT_CONFIG_GLOBAL=os.devnull))

    def add(self) -> float:
        return self.timed("add", "-A")

    def timed(self, *words: str) -> float:
        began = time.perf_counter()
        self.said(*words)
        return time.perf_counter() - began

    def said(self, *words: str) -> str:
        done = subprocess.run(
            ["git", *words],
            check=True,
            capture_output=True,
            text=True,
            cwd=self._tree,
            env=self._environment,
        )
        return done.stdout.strip()

    def commit(self, branch: str) -> None:
        """Add everything and put it at the end of a branch."""
        self.add()
        ref = f"refs/heads/{branch}"
        before = self.said("for-each-ref", "--format=%(objectname)", ref)
        parent = ["-p", before] if before else []
        made = self.said("commit-tree", self.said("write-tree"), *parent, "-m", "bench")
        self.said("update-ref", ref, made)

    def pack(self) -> None:
        """Everything in one pack, found anew."""
        self.said("repack", "-a", "-d", "-f", "-q")
        self.said("pack-refs", "--all")
        self.said("prune", "--expire=now")


_WHO = ("NAME", "EMAIL")


def clean(**settings: object) -> Mapping[str, str]:
    """The environment without anything of the user's git, and with these."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return kept | {name: str(value) for name, value in settings.items()}


#: How the others make a new repository, and the n-th backup of the folder they are in.
_PROGRAMS = {
    "restic": (("restic", "init", "--quiet"), ("restic", "backup", "--quiet", ".")),
    "borg": (("borg", "init", "--encryption=none"), ("borg", "create", "::{number}", ".")),
}


def is_installed(program: str) -> bool:
    return shutil.which(program) is not None


class Backup:
    """A backup program with a new repository, as its users start it."""

    def __init__(self, program: str, folder: Path, tree: Path) -> None:
        begin, self._backup = _PROGRAMS[program]
        self._tree = tree
        self._number = 0
        folder.mkdir()
        self._environment = clean(
            RESTIC_REPOSITORY=folder / "repository",
            RESTIC_PASSWORD="bench",  # noqa: S106 - of a repository that lives a minute
            RESTIC_CACHE_DIR=folder / "cache",
            BORG_REPO=folder / "repository",
            BORG_BASE_DIR=folder / "borg",
        )
        self._run(begin)

    def take(self) -> float:
        """The seconds of a whole process that takes a backup."""
        self._number += 1
        began = time.perf_counter()
        self._run([word.format(number=self._number) for word in self._backup])
        return time.perf_counter() - began

    def _run(self, command: Sequence[str]) -> None:
        subprocess.run(
            command, check=True, capture_output=True, cwd=self._tree, env=self._environment
        )
