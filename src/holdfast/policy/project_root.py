"""The project directory that a file belongs to, decided from names alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

#: Files and folders that mark the root of a project: a repository, or a package.
VERSION_CONTROL = (
    ".git",
    ".hg",
    ".svn",
    ".jj",
    ".sl",
    ".bzr",
    "_darcs",
    ".pijul",
    ".fslckout",
)
SIGNS = (
    *VERSION_CONTROL,
    "pyproject.toml",
    "setup.py",
    "package.json",
    "deno.json",
    "Cargo.toml",
    "go.mod",
    "pom.xml",
    "build.gradle",
    "build.gradle.kts",
    "CMakeLists.txt",
    "meson.build",
    "Gemfile",
    "composer.json",
    "mix.exs",
    "Package.swift",
    "pubspec.yaml",
    "dune-project",
    "stack.yaml",
    "flake.nix",
)


def project_root(
    directory: Path,
    *,
    exists: Callable[[Path], bool],
    known: Iterable[Path] = (),
) -> Path:
    """The innermost `known` directory that contains this one; otherwise the nearest one with a
    project marker in it; otherwise the directory itself. `exists` checks the file system."""
    around = (directory, *directory.parents)
    named = set(known)
    for place in around:
        if place in named:
            return place
    for place in around:
        if any(exists(place / sign) for sign in SIGNS):
            return place
    return directory
