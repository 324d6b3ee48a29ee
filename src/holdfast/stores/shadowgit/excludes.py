"""What no checkpoint captures unless the project's own rules ask for it (`!name`)."""

from __future__ import annotations

import functools

#: How the names begin of what a restore writes until it is whole: they say whose it is, should one
#: ever be found. No checkpoint has such a file, whatever a project's rules ask for.
TEMPORARY = b".holdfast-restore-"

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
    "left by desktops and editors": ".DS_Store Thumbs.db desktop.ini *.swp *.swo *~ .#* .coverage",
}
#: Earlier versions left these out, too. A page or a program is not whole without its pictures.
_PICTURES = "png jpg jpeg gif bmp webp ico"
#: Samples without secrets in them, which people do want back.
_KEPT = "!.env.example !.env.sample !.env.template !.env.dist"


def earlier_text(now: str) -> str:
    """What the rules were before checkpoints said under which they were taken; `now` are those of
    today. A rule too many spares a file; one that is missing might cost it."""
    return "\n".join([now, *_endings(_PICTURES), ""])


@functools.cache
def excludes_text(more: tuple[str, ...] = ()) -> str:
    """The rules as a file that git reads, and `more` of them after ours, so that they outrank them.

    Endings are there in lower and in upper case.
    """
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
    return "\n".join([*lines, *_KEPT.split(), *more, "", "# ours", ours, ""])


def _endings(names: str) -> list[str]:
    return [f"*.{each}" for name in names.split() for each in (name, name.upper())]


def _folder(name: str) -> str:
    # A slash inside binds a rule to the top; these folders may be anywhere.
    return f"**/{name}/" if "/" in name.rstrip("/") else f"{name.rstrip('/')}/"
