"""The default excludes, and which paths all ignore rules together exclude.

git itself answers that question. A project's own rules can include a name again (`!name`). Names
that the configuration includes again take precedence even over those: see `Requests`.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from holdfast.stores.digest import blake2b
from holdfast.stores.files import read_file
from holdfast.stores.git.program import EXCLUDES, Git, Said

TYPE_CHECKING = False  # as in `typing`, which is slow to load
if TYPE_CHECKING:
    import subprocess
    from typing import Self

    from holdfast.stores.checkpoints.ignore_patterns import Requests

#: The prefix of a restore's temporary files. Never captured, regardless of a project's rules.
TEMPORARY = b".holdfast-restore-"
#: Rules after this line come from the configuration. Rules of earlier versions do not have it, so
#: the rules of checkpoints taken under them keep their old meaning.
CONFIGURED = "# exclude in the configuration: what has a ! outranks a project's .gitignore too"

_FOLDERS = {
    "version control": ".hg .svn .bzr CVS .jj .sl .pijul _darcs",
    "other worktrees": ".worktrees",
    "dependencies": "node_modules bower_components jspm_packages .pnpm-store .yarn/cache"
    " .yarn/unplugged Pods Carthage/Build .bundle/vendor elm-stuff",
    "virtual environments": ".venv venv virtualenv .virtualenv .conda .direnv __pypackages__",
    "build output": "build dist target .next .nuxt .output .svelte-kit .angular .vercel"
    " .netlify .serverless .terraform .gradle cmake-build-* DerivedData .build .dart_tool"
    " *.egg-info .eggs _build .stack-work dist-newstyle zig-cache .zig-cache zig-out bin/Debug"
    " bin/Release obj/Debug obj/Release",
    "agents at work": ".aider.tags.cache.v* .aider.holdfast",
    "caches": "__pycache__ .pytest_cache .mypy_cache .ruff_cache .hypothesis .tox .nox"
    " .ipynb_checkpoints .cache .parcel-cache .turbo .nyc_output htmlcov .sass-cache"
    " .eslintcache .import_linter_cache .pytype .pyre",
}
_ENDINGS = {
    "compiled": "pyc pyo pyd o obj a lib so dylib dll exe class jar war ear ko elc beam hi wasm"
    " pdb ilk gch pch node",
    "media": "tif tiff heic heif psd raw cr2 nef mp3 wav flac ogg"
    " opus m4a aac wma mp4 m4v mov avi mkv webm wmv flv mpg mpeg",
    "archives and images": "zip tar tgz tbz2 txz tzst gz bz2 xz zst 7z rar lz4 lzma cab deb rpm"
    " dmg iso img vmdk qcow2 vdi apk ipa whl",
    "secrets": "pem key p12 pfx jks keystore kdbx ppk",
    "logs": "log",
}
_NAMES = {
    "secrets": ".env .env.* id_rsa id_dsa id_ecdsa id_ed25519 .netrc .pgpass .npmrc .pypirc"
    " .htpasswd credentials.json service-account*.json",
    "compiled": "*.so.[0-9]*",
    "logs": "*.log.* npm-debug.log* yarn-error.log* core.[0-9]*",
    # The project is the home of aider, so only these are left out.
    "written by aider while it works": ".aider.chat.history.md .aider.input.history"
    " .aider.llm.history",
    "left by desktops and editors": ".DS_Store Thumbs.db desktop.ini *.swp *.swo *~ .#* .coverage",
}
#: The first default excludes also excluded pictures, but a web page needs its pictures.
_PICTURES = "png jpg jpeg gif bmp webp ico"
#: Samples without secrets, which users want back.
_KEPT = "!.env.example !.env.sample !.env.template !.env.dist"

# A batch of paths must fit into the pipe: we write all of it before we read, and git stops reading
# until we take its answer.
_QUESTION_BYTES = 8_192
_FIELDS = 4
_CHUNK = 65_536
_DIGEST_BYTES = 8


def earlier_text(now: str) -> str:
    """Return the rules for a checkpoint that does not name its rules; `now` are the present rules.
    One rule too many keeps a file; a missing rule might delete one."""
    return "\n".join([now, *_endings(_PICTURES), ""])


@functools.cache
def excludes_text(more: tuple[str, ...] = ()) -> str:
    """Return the default rules for git, followed by `more` rules, which take precedence."""
    lines = [
        "# What checkpoints leave out. Written by Holdfast; a project's .gitignore outranks it."
    ]
    for title, names in _FOLDERS.items():
        lines += ["", f"# {title}", *(_folder(name) for name in names.split())]
    for title, names in _ENDINGS.items():
        lines += ["", f"# {title}", *_endings(names)]
    for title, names in _NAMES.items():
        lines += ["", f"# {title}", *names.split()]
    ours = f"{TEMPORARY.decode()}*"
    configured = ["", CONFIGURED, *more] if more else []
    return "\n".join([*lines, *_KEPT.split(), *configured, "", "# ours", ours, ""])


def secrets() -> list[str]:
    """Return the default rules that exclude keys and passwords."""
    return [*_endings(_ENDINGS["secrets"]), *_NAMES["secrets"].split(), *_KEPT.split()]


def _endings(names: str) -> list[str]:
    return [f"*.{each}" for name in names.split() for each in (name, name.upper())]


def _folder(name: str) -> str:
    # A slash inside a rule anchors it at the top, but these folders may be anywhere.
    return f"**/{name}/" if "/" in name.rstrip("/") else f"{name.rstrip('/')}/"


class Ignoring:
    """One `git check-ignore` process for many queries. The first query starts it."""

    def __init__(self, git: Git, excludes: Path | None = None) -> None:
        """`excludes` is the file with the rules that apply everywhere; by default the store's."""
        self._git = git
        self._excludes = git.store / EXCLUDES if excludes is None else excludes
        #: Paths seen so far that `excludes` leaves out, each with its rule.
        self.standing: dict[bytes, str] = {}
        self._process: subprocess.Popen[bytes] | None = None
        #: git's answers for folders that contain a requested path.
        self._folders: dict[bytes, bool] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.communicate()

    def ask(self, paths: Sequence[bytes]) -> set[bytes]:
        """Return which of the paths are ignored."""
        ignored: set[bytes] = set()
        for question in _questions(paths):
            ignored |= self._answer(question)
        if ignored and self._requests is not None:
            ignored -= self._asked_for(ignored, self._requests)
        return ignored

    @functools.cached_property
    def _requests(self) -> Requests | None:
        """The paths that the configuration wants captured although a project ignores them."""
        try:
            text = read_file(self._excludes)
        except FileNotFoundError:
            return None
        if CONFIGURED.encode() not in text:
            return None
        from holdfast.stores.checkpoints.ignore_patterns import Requests  # noqa: PLC0415 - few have any requests

        return Requests.read(text, CONFIGURED, secrets())

    def _asked_for(self, ignored: set[bytes], requests: Requests) -> set[bytes]:
        """Return which ignored paths the configuration asks for. git does not look into a folder
        that it ignores, so each folder above a path is checked separately."""
        above = {each for path in ignored for each in _above(path)} - self._folders.keys()
        for question in _questions(sorted(above)):
            found = self._answer(question)
            self._folders |= {path: path in found for path in question}
        kept = set()
        for path in ignored:
            folders = [each for each in _above(path) if self._folders[each]]
            rule = requests.left_out(path, folders, is_folder=self._is_folder(path))
            if rule is None:
                kept.add(path)
                self.standing.pop(path, None)
            elif rule:
                self.standing[path] = rule
        return kept

    def _is_folder(self, path: bytes) -> bool:
        if path.endswith(b"/"):
            return True
        place = os.path.join(os.fsencode(self._git.work_tree or ""), path)  # noqa: PTH118 - bytes
        return os.path.isdir(place) and not os.path.islink(place)  # noqa: PTH112, PTH114

    def _answer(self, paths: list[bytes]) -> set[bytes]:
        process = self._started()
        if process.stdin is None or process.stdout is None:
            raise AssertionError("git was started without pipes")
        try:
            # This command has no literal mode, but after `./` a colon is not special.
            process.stdin.write(b"".join(b"./%b\0" % path for path in paths))
            process.stdin.flush()
        except BrokenPipeError:
            raise self._died(process) from None
        answer = b""
        while answer.count(b"\0") < _FIELDS * len(paths):
            more = process.stdout.read1(_CHUNK)  # type: ignore[attr-defined]
            if not more:
                raise self._died(process)
            answer += more
        fields = answer.split(b"\0")
        patterns = fields[2::_FIELDS]
        self._note_standing(paths, fields[::_FIELDS], patterns)
        return {
            path
            for path, pattern in zip(paths, patterns, strict=True)
            if (pattern and not pattern.startswith(b"!")) or _is_ours(path)
        } | self._secret(paths, fields[::_FIELDS], patterns)

    def _secret(
        self, paths: Sequence[bytes], sources: Sequence[bytes], patterns: Sequence[bytes]
    ) -> set[bytes]:
        """Return keys and passwords that `!*` in the configuration would capture: these have to be
        requested by name."""
        if self._requests is None:
            return set()
        ours, found = os.fsencode(self._excludes), set()
        for path, source, pattern in zip(paths, sources, patterns, strict=False):
            if source == ours and pattern.startswith(b"!"):
                rule = self._requests.secret(path, pattern)
                if rule:
                    found.add(path)
                    self.standing[path] = rule
        return found

    def _note_standing(
        self, paths: Sequence[bytes], sources: Sequence[bytes], patterns: Sequence[bytes]
    ) -> None:
        ours = os.fsencode(self._excludes)
        for path, source, pattern in zip(paths, sources, patterns, strict=False):
            if source == ours and not pattern.startswith(b"!") and not _is_ours(path):
                self.standing[path] = pattern.decode("utf-8", "surrogateescape")

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            self._process = self._git.start(
                *("check-ignore", "--no-index", "--stdin", "-z", "--verbose", "--non-matching"),
                config={"core.excludesFile": str(self._excludes)},
                literal=False,
            )
        return self._process

    def _died(self, process: subprocess.Popen[bytes]) -> Exception:
        output, errors = process.communicate()
        self._process = None
        said = Said(status=process.returncode, output=output, errors=errors)
        return self._git.failed("check-ignore", said)


def _above(path: bytes) -> list[bytes]:
    """Return the folders above a path, the outermost first."""
    names = path.rstrip(b"/").split(b"/")
    return [b"/".join(names[:number]) for number in range(1, len(names))]


def _is_ours(path: bytes) -> bool:
    """True for files of a killed restore. A project's rules may include everything again (`!*`)."""
    return path.rpartition(b"/")[2].startswith(TEMPORARY)


def _questions(paths: Sequence[bytes]) -> Iterator[list[bytes]]:
    question: list[bytes] = []
    size = 0
    for path in paths:
        if question and size + len(path) > _QUESTION_BYTES:
            yield question
            question, size = [], 0
        question.append(path)
        size += len(path) + 1
    if question:
        yield question


def digest_of(data: bytes) -> str:
    return blake2b(data, digest_size=_DIGEST_BYTES).hexdigest()
