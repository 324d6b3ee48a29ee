"""What mkdocs needs to know of this repository: the order of the pages is that of docs/index.md,
and pages may link to files outside of docs/, which then become part of the site."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
_LINK = re.compile(r"(?<=\]\()(?!https?://|#)([^)\s#]+)(#[^)\s]*)?(?=\))")
_SECTION = re.compile(r"^## (.*)$", re.MULTILINE)


def on_config(config: MkDocsConfig) -> None:
    config.nav = _navigation()


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for path in sorted(_outside()):
        name = path.relative_to(ROOT).as_posix()
        files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    real = Path(page.file.abs_src_path or "")
    here = _in_site(real).parent

    def moved(found: re.Match[str]) -> str:
        target = _in_site((real.parent / found[1]).resolve())
        return os.path.relpath(target, here) + (found[2] or "")

    return _LINK.sub(moved, markdown)


def _in_site(path: Path) -> Path:
    """Where a file of the repository is in the site: docs/ is its root, and so is ours."""
    inside = path.is_relative_to(DOCS)
    return Path("/") / path.relative_to(DOCS if inside else ROOT)


def _outside() -> set[Path]:
    """The files outside of docs/ that a page links to, or that such a page links to."""
    found, ahead = set[Path](), sorted(DOCS.rglob("*.md"))
    while ahead:
        page = ahead.pop()
        for target in _linked(page):
            if not target.is_relative_to(DOCS) and target.is_file() and target not in found:
                found.add(target)
                ahead += [target] if target.suffix == ".md" else []
    return found


def _linked(page: Path) -> Iterator[Path]:
    for found in _LINK.finditer(page.read_text(encoding="utf-8")):
        yield (page.parent / found[1]).resolve()


def _navigation() -> list[Any]:
    """The pages by the sections of the index, each once."""
    index = DOCS / "index.md"
    text = index.read_text(encoding="utf-8")
    parts = _SECTION.split(text)
    seen = {index}
    navigation: list[Any] = ["index.md"]
    for title, part in zip(parts[1::2], parts[2::2], strict=True):
        pages: list[Any] = []
        for found in _LINK.finditer(part):
            page = (DOCS / found[1]).resolve()
            if page.suffix == ".md" and page not in seen:
                seen.add(page)
                pages.append(_entry(page, seen))
        navigation.append({title: pages})
    return navigation


def _entry(page: Path, seen: set[Path]) -> Any:
    """A page; with a folder of its own when it is the list of one."""
    name = _in_site(page).relative_to("/").as_posix()
    if page.name != "README.md":
        return name
    listed = [each for each in _linked(page) if each.parent == page.parent and each not in seen]
    seen.update(listed)
    return {page.parent.name.title(): [name, *(_in_site(each).as_posix()[1:] for each in listed)]}
