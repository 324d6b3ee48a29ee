"""Run the git program, always without the user's configuration, attributes, hooks and filters."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from holdfast.errors import GitFailedError, StorageError
from holdfast.stores import lock
from holdfast.stores.files import PRIVATE_FILE, check_regular
from holdfast.stores.git.quick_process import QuickProcess
from holdfast.value import dataclass

TYPE_CHECKING = False  # as in `typing`, which is slow to load
if TYPE_CHECKING:  # most takes start no process, so `subprocess` is imported where one starts
    import subprocess

#: The first version with `GIT_CONFIG_GLOBAL`; an older git would read the user's configuration.
OLDEST = (2, 32)

EXCLUDES = "excludes"
#: The file that records which git passed the version check.
_GOOD = "git"

#: git 2.41 and later reads attributes from this tree, not from a `.gitattributes` that may be a
#: pipe. In an older git, the store's attributes still take precedence over the project's.
_EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
#: With this umask, git creates files and folders that only their owner can read.
_PRIVATE = 0o077

_CONFIG = {
    "core.bare": "false",
    "core.autocrlf": "false",
    "core.hooksPath": os.devnull,
    "core.attributesFile": os.devnull,
    "core.fsmonitor": "false",
    "core.protectNTFS": "false",
    "core.protectHFS": "false",
    "core.ignoreCase": "false",
    "core.fileMode": "true",
    "core.symlinks": "true",
    "core.fsync": "all",
    "core.logAllRefUpdates": "false",
    "gc.auto": "0",
    "gc.writeCommitGraph": "false",
    "maintenance.auto": "false",
    "pack.compression": "1",
    "diff.external": "",
    "diff.renames": "false",
}
#: For commands that pack: compress well, and skip what only a server needs.
PACKING_CONFIG = {"repack.writeBitmaps": "false", "pack.compression": "-1"}
# A complete environment: no other variables, from GIT_DIR to GIT_TRACE, can leak in.
_ENVIRONMENT = {
    "LC_ALL": "C",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
}

#: Files that git reads before it does anything else. On a named pipe it would block forever.
_READ_FIRST = ("HEAD", "config", "packed-refs", "info/attributes", "info/exclude", "shallow")
_READ_FIRST_OF_ITS_OWN = ("HEAD", "commondir", "gitdir", "index")


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """The result of a git process."""

    status: int
    output: bytes
    errors: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Git:
    """git on one repository. With `work_tree` it has a private index for that tree, in `folder`."""

    store: Path
    folder: Path | None = None
    work_tree: Path | None = None
    #: New files are readable only by their owner. In another agent's store the umask decides.
    private: bool = True
    #: Use the .gitattributes of the work tree. git reads them as soon as it reads a file.
    attributes: bool = False

    def run(
        self,
        *arguments: str,
        stdin: bytes = b"",
        ok: Sequence[int] = (0,),
        config: Mapping[str, str] | None = None,
    ) -> Said:
        """Run to the end; raises `GitFailedError` unless the exit status is one of `ok`."""
        with self.start(*arguments, config=config) as process:
            output, errors = process.communicate(stdin)
        said = Said(status=process.returncode, output=output, errors=errors)
        if said.status not in ok:
            raise self.failed(arguments[0], said)
        return said

    def start(
        self, *arguments: str, config: Mapping[str, str] | None = None, literal: bool = True
    ) -> subprocess.Popen[bytes]:
        """Start git with pipes to and from it. With `literal`, paths are not patterns."""
        import subprocess  # noqa: PLC0415 - see above

        program, environment = self._ready(config, literal=literal)
        try:
            return subprocess.Popen(
                [program, *arguments],
                cwd=self.work_tree or self.store,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                # If this process is killed, git runs on for a while and must keep our locks.
                pass_fds=lock.held(),
                umask=_PRIVATE if self.private else -1,
            )
        except OSError as error:
            raise StorageError(f"Cannot run git on {self.store}: {error.strerror}") from error

    def reading(self, *arguments: str) -> QuickProcess:
        """Start a git that gets no input and changes nothing."""
        program, environment = self._ready(None, literal=True)
        words = [program, "-C", str(self.work_tree or self.store), *arguments]
        try:
            return QuickProcess(words, environment, lock.held())
        except OSError as error:
            raise StorageError(f"Cannot run git on {self.store}: {error.strerror}") from error

    def comparing(self) -> QuickProcess:
        """Start a git that lists the files whose stat data differs from the index."""
        return self.reading("diff-files", "--name-only", "-z")

    def _ready(
        self, config: Mapping[str, str] | None, *, literal: bool
    ) -> tuple[str, dict[str, str]]:
        """Return the program and its environment."""
        program = find_git(self.folder if self.private else None)
        self._check_first()
        # PATH is only git's own folder: git finds its other programs by itself.
        environment = {"PATH": str(Path(program).parent), **_ENVIRONMENT, **self._place()}
        if not self.attributes:
            environment["GIT_ATTR_SOURCE"] = _EMPTY_TREE
        if literal:
            environment["GIT_LITERAL_PATHSPECS"] = "1"
        return program, environment | _as_environment(self._config() | dict(config or {}))

    def _check_first(self) -> None:
        places = [self.store / name for name in (*_READ_FIRST, EXCLUDES)]
        if self.folder is not None:
            places += [self.folder / name for name in _READ_FIRST_OF_ITS_OWN]
        for place in places:
            check_regular(place)

    def failed(self, verb: str, said: Said) -> GitFailedError:
        """Return the error to raise for a failed process."""
        text = said.errors.decode("utf-8", "replace").strip()
        told = text.splitlines()[-1] if text else f"it exited with code {said.status}"
        return GitFailedError(f"git {verb} failed on {self.store}: {told}", said=text)

    def _place(self) -> dict[str, str]:
        if self.folder is None or self.work_tree is None:
            return {"GIT_DIR": str(self.store)}
        return {
            "GIT_DIR": str(self.folder),
            "GIT_COMMON_DIR": str(self.store),
            "GIT_WORK_TREE": str(self.work_tree),
        }

    def _config(self) -> dict[str, str]:
        bare = "true" if self.work_tree is None else "false"
        return _CONFIG | {"core.bare": bare, "core.excludesFile": str(self.store / EXCLUDES)}


def find_git(noted: Path | None = None) -> str:
    """Return the git on PATH; raises `StorageError` if it is missing or too old. The result of the
    version check is stored in the folder `noted`: every hook is a new process."""
    places = (f"{folder}/git" for folder in os.get_exec_path())
    program = next((place for place in places if _is_program(place)), None)
    if program is None:
        raise StorageError(
            "Checkpoints need git, and there is no git on PATH.",
            hint=f"Install git {OLDEST[0]}.{OLDEST[1]} or later.",
        )
    _check_version(program, noted)
    return program


def _is_program(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)  # noqa: PTH113 - every folder in PATH


@functools.cache
def _check_version(program: str, noted: Path | None) -> None:
    if noted is not None and _is_noted(noted / _GOOD, program):
        return
    import subprocess  # noqa: PLC0415 - see above

    said = subprocess.run(
        [program, "version"], check=False, capture_output=True, text=True, env=_ENVIRONMENT
    ).stdout
    found = re.search(r"(\d+)\.(\d+)", said)
    if found is None or (int(found[1]), int(found[2])) < OLDEST:
        raise StorageError(
            f"Checkpoints need git {OLDEST[0]}.{OLDEST[1]} or later; {program} says"
            f" {said.strip() or 'nothing'!r}.",
            hint="Install a later git, or put it first on PATH.",
        )
    if noted is not None:
        how = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK
        with (
            suppress(OSError),  # the next process checks again
            os.fdopen(os.open(noted / _GOOD, how, PRIVATE_FILE), "wb") as note,
        ):
            note.write(_stamp(program))


def _is_noted(note: Path, program: str) -> bool:
    try:
        check_regular(note)
        return note.read_bytes() == _stamp(program)
    except (OSError, StorageError):
        return False


def _stamp(program: str) -> bytes:
    """Identify the program; an update changes the result."""
    status = Path(program).stat()
    numbers = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return os.fsencode(f"{program} {numbers}\n")


def _as_environment(config: Mapping[str, str]) -> dict[str, str]:
    named = {"GIT_CONFIG_COUNT": str(len(config))}
    for number, (key, value) in enumerate(config.items()):
        named[f"GIT_CONFIG_KEY_{number}"] = key
        named[f"GIT_CONFIG_VALUE_{number}"] = value
    return named
