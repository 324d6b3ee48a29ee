"""Real agents in fixed releases, from npm or PyPI, kept in a cache between runs.

The cache is the folder that HOLDFAST_AGENTS names, or one below the cache of the user.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

#: A release of Node that every agent accepts; the one of the system may be older.
NODE = "24.21.0"


class NotInstallableError(Exception):
    """This agent is not to be had here: there is no npm, no network or no such package."""


def program(package: str, version: str, name: str, *, path: Sequence[Path] = ()) -> Path:
    """The program of a release from npm, installed on first use. `path` has folders with programs
    that its installation needs."""
    found = _folder(package, version) / "node_modules" / ".bin" / name
    with _alone(found.parents[2]) as folder:
        if not found.exists():
            _npm(folder, f"{package}@{version}", path)
    return _checked(found)


def package(name: str, version: str) -> Path:
    """The folder into which a package from npm is installed, with everything that it needs."""
    with _alone(_folder(name, version)) as folder:
        if not folder.exists():
            _npm(folder, f"{name}@{version}", ())
    return folder


def python_program(package: str, version: str, name: str, python: str) -> Path:
    """The same from PyPI, in an environment of its own with this version of Python. Such an
    environment works at no other place than where it was made, so a mark says that it is whole."""
    found = _folder(package, version) / "bin" / name
    whole = found.parents[1] / "whole"
    with _alone(found.parents[1]) as folder:
        if not whole.exists():
            _pip(folder, f"{package}=={version}", python)
            whole.touch()
    return _checked(found)


def node() -> Path:
    """The folder of a Node that is new enough for every agent."""
    return program("node", NODE, "node").parent


def _folder(package: str, version: str) -> Path:
    return _cache() / f"{package.rpartition('/')[2]}-{version}"


@contextmanager
def _alone(folder: Path) -> Iterator[Path]:
    """Many may ask at once: one installs."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder


def _checked(found: Path) -> Path:
    if not found.exists():
        raise NotInstallableError(f"{found.name} was installed without a program of that name")
    return found


def _cache() -> Path:
    named = os.environ.get("HOLDFAST_AGENTS")
    if named:
        return Path(named)
    usual = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(usual) / "holdfast" / "agents"


def _npm(folder: Path, wanted: str, path: Sequence[Path]) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise NotInstallableError(f"{wanted} needs npm, which is not installed")
    making = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(making, ignore_errors=True)
    making.mkdir()
    how = ("--loglevel=error", "--no-fund", "--no-audit", "--prefix", str(making))
    _run([npm, "install", *how, wanted], f"npm cannot install {wanted}", path)
    making.rename(folder)


def _pip(folder: Path, wanted: str, python: str) -> None:
    found = _python(python)
    if found is None:
        raise NotInstallableError(f"{wanted} needs Python {python}, which is not installed")
    shutil.rmtree(folder, ignore_errors=True)
    _run([found, "-m", "venv", str(folder)], f"Python {python} cannot make an environment")
    pip = str(folder / "bin" / "pip")
    _run([pip, "install", "--quiet", wanted], f"pip cannot install {wanted}")


def _python(version: str) -> str | None:
    """On the path, or among those of pyenv. A name on the path may be a stand-in that has no such
    release behind it."""
    many = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    named = [shutil.which(f"python{version}"), *map(str, many.glob(f"{version}.*/bin/python"))]
    for path in filter(None, named):
        said = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
        if said.stdout.startswith(f"Python {version}."):
            return path
    return None


def _run(words: Sequence[str], what: str, path: Sequence[Path] = ()) -> None:
    sys.stderr.write(f"{' '.join(words[-2:])} …\n")
    env = {**os.environ, "PATH": os.pathsep.join([*map(str, path), os.environ["PATH"]])}
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=env)
    if done.returncode:
        raise NotInstallableError(f"{what}: {(done.stderr or done.stdout).strip()[-300:]}")
