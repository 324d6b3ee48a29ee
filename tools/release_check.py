"""Build what would be released, and see that it is whole: metadata, contents, an install into a
clean environment of every Python here, and the demo run from it.

    python -m tools.release_check PYTHON…       interpreters to install into

`make release-check` finds them. What was built stays in dist/.
"""

from __future__ import annotations

import email.parser
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from packaging.metadata import Metadata

from holdfast import __version__

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
MAN_PAGE = "share/man/man1/holdfast.1"
#: What a source release has besides the package.
_SOURCES = (
    "CHANGELOG.md",
    "LICENSE",
    "PKG-INFO",
    "README.md",
    "SECURITY.md",
    "man/holdfast.1",
    "pyproject.toml",
)


class ReleaseError(Exception):
    """What would be released is not what it should be."""


def main() -> int:
    try:
        source, wheel = _build()
        _check_source(source)
        _check_wheel(wheel)
        _check_same(source, wheel)
        for python in sys.argv[1:]:
            _check_install(Path(python), wheel)
    except ReleaseError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        print(f"error: {error}\n{error.stdout or ''}{error.stderr or ''}", file=sys.stderr)
        return 1
    print(f"Ready for release: {source.name}, {wheel.name}")
    return 0


def _build() -> tuple[Path, Path]:
    shutil.rmtree(DIST, ignore_errors=True)
    _run([sys.executable, "-m", "hatchling", "build", "--directory", str(DIST)], cwd=ROOT)
    [source], [wheel] = DIST.glob("*.tar.gz"), DIST.glob("*.whl")
    for path in (source, wheel):
        print(f"Built {path.relative_to(ROOT)}, {path.stat().st_size:,} bytes")
    return source, wheel


# --- What is in them ------------------------------------------------------------------------------


def _package() -> set[str]:
    """The files of the package, as they are in the repository."""
    listed = _run(["git", "ls-files", "-z", "src/holdfast"], cwd=ROOT).stdout
    return {name.removeprefix("src/") for name in listed.split("\0") if name}


def _check_source(source: Path) -> None:
    with tarfile.open(source) as tar:
        members = tar.getmembers()
        top = f"holdfast-{__version__}/"
        names = {member.name.removeprefix(top) for member in members if member.isfile()}
        metadata = tar.extractfile(f"{top}PKG-INFO")
        check_metadata(metadata.read() if metadata is not None else b"")
    wanted = {*_SOURCES, *(f"src/{name}" for name in _package())}
    check_names(source.name, names - {".gitignore"}, wanted)


def _check_wheel(wheel: Path) -> None:
    info, data = f"holdfast-{__version__}.dist-info", f"holdfast-{__version__}.data"
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        if (broken := archive.testzip()) is not None:
            raise ReleaseError(f"{wheel.name}: {broken} is damaged.")
        check_metadata(archive.read(f"{info}/METADATA"))
        entry_points = archive.read(f"{info}/entry_points.txt").decode()
    wanted = {*_package(), f"{data}/data/{MAN_PAGE}"}
    wanted |= {
        f"{info}/{name}"
        for name in ("METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE")
    }
    check_names(wheel.name, names, wanted)
    if "holdfast = holdfast.cli.main:main" not in entry_points:
        raise ReleaseError(f"{wheel.name} installs no command: {entry_points}")


def check_names(archive: str, found: set[str], wanted: Iterable[str]) -> None:
    wanted = set(wanted)
    for problem, names in (("lacks", wanted - found), ("should not have", found - wanted)):
        if names:
            raise ReleaseError(f"{archive} {problem}: {', '.join(sorted(names))}")


def check_metadata(text: bytes) -> None:
    """Every field is valid, and the README is the description."""
    metadata = Metadata.from_email(text, validate=True)
    if str(metadata.version) != __version__:
        raise ReleaseError(f"the version is {metadata.version}, and not {__version__}")
    if metadata.license_expression != "Apache-2.0" or not metadata.summary:
        raise ReleaseError("the licence or the summary is missing")
    body = email.parser.BytesParser().parsebytes(text).get_payload()
    if metadata.description_content_type != "text/markdown" or "# Holdfast" not in str(body):
        raise ReleaseError("the README is not the description")


def _check_same(source: Path, wheel: Path) -> None:
    """A wheel that is built from the source release is the same."""
    with tempfile.TemporaryDirectory() as folder, tarfile.open(source) as tar:
        tar.extractall(folder, filter="data")
        unpacked = Path(folder, source.name.removesuffix(".tar.gz"))
        build = ["-m", "hatchling", "build", "--target", "wheel", "--directory", folder]
        _run([sys.executable, *build], cwd=unpacked)
        [again] = Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as one, zipfile.ZipFile(again) as other:
            differ = [
                name
                for name in sorted({*one.namelist(), *other.namelist()})
                if name not in one.namelist()
                or name not in other.namelist()
                or one.read(name) != other.read(name)
            ]
    if differ:
        raise ReleaseError(f"the source release builds another wheel: {', '.join(differ)}")


# --- Whether they work ----------------------------------------------------------------------------


def _check_install(python: Path, wheel: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="holdfast-release-") as folder:
        place = Path(folder)
        _run([str(python), "-m", "venv", str(place / "venv")])
        pip = [str(place / "venv/bin/python"), "-m", "pip", "--disable-pip-version-check", "-q"]
        locked = str(ROOT / "requirements/run.txt")
        _run([*pip, "install", "--require-hashes", "-r", locked])
        _run([*pip, "install", "--no-deps", "--no-index", str(wheel)])
        _run([*pip, "check"])
        if not (place / "venv" / MAN_PAGE).is_file():
            raise ReleaseError("the man page is not installed")
        user, temporary = place / "user", place / "tmp"
        user.mkdir()
        temporary.mkdir()
        environment = {
            "HOME": str(user),
            "PATH": f"{place / 'venv/bin'}:{os.defpath}",
            "TMPDIR": str(temporary),
            "LANG": "C.UTF-8",
        }
        said = _run(["holdfast", "--version"], env=environment, cwd=user).stdout
        if said != f"holdfast {__version__}\n":
            raise ReleaseError(f"the installed command says {said!r}")
        demo = _run(["holdfast", "demo"], env=environment, cwd=user).stdout
        if "That was all." not in demo or list(user.iterdir()):
            raise ReleaseError(f"the demo went wrong:\n{demo}")
        version = _run([str(python), "-V"]).stdout.strip()
        print(f"Installed and ran the demo on {version}")


def _run(
    words: Sequence[str], *, cwd: Path | None = None, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    path = env["PATH"] if env is not None else None
    program = shutil.which(words[0], path=path) or words[0]
    return subprocess.run(
        [program, *words[1:]], check=True, capture_output=True, text=True, cwd=cwd, env=env
    )


if __name__ == "__main__":
    sys.exit(main())
