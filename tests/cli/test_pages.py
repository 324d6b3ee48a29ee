"""README, quickstart and how-tos say what really happens: every command in their console blocks
runs here, on the sample of its page, and prints what the page shows. `make docs` writes what they
print now into the pages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli import console_blocks, scenes
from tests.cli.page_shell import ROOT

_ON_THE_SAMPLE = (scenes.sample, scenes.sample_and_agents)


@pytest.fixture(scope="module", autouse=True)
def _samples() -> Iterator[None]:
    yield
    scenes.close()


#: The pages that a newcomer reads first; the others take as long as everything else together.
_FIRST = ("README.md", "docs/configuration.md", "docs/quickstart.md")


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=() if page in _FIRST or number % 3 == 0 else pytest.mark.deep)
        for number, page in enumerate(scenes.SCENES)
    ],
)
def test_every_command_prints_what_the_page_shows(page: str) -> None:
    found = scenes.differences(ROOT / page)
    assert not found, scenes.told(found)


@pytest.mark.parametrize(
    "page",
    [page for page, scene in scenes.SCENES.items() if scene.make in _ON_THE_SAMPLE],
)
def test_a_page_on_the_sample_begins_with_a_fresh_one(page: str) -> None:
    """Another page, read before, may have changed the sample."""
    text = (ROOT / page).read_text(encoding="utf-8")
    fresh = "```sh\nrm -rf ~/sample\nholdfast demo ~/sample\n```\n"
    assert fresh in text[: text.index("$ export HOLDFAST_HOME=~/sample")]


def test_no_page_with_console_blocks_is_left_out() -> None:
    pages = [ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("docs/how-to/*.md")]
    typed = {
        page.relative_to(ROOT).as_posix()
        for page in pages
        if list(console_blocks.steps(page.read_text(encoding="utf-8")))
    }
    assert typed == {*scenes.SCENES, *scenes.AGENT_PAGES}


PAGE = """\
# A page

```console
$ holdfast take
Took 9014d36c38f7, 12.5 kB  ██▎
$ holdfast list
9014d36c38f7
…
the end
```

<!-- exit 5 -->
```console
$ holdfast restore 9014 <<'END'
y
END
Sure? [y/N]: y
```
"""


def test_a_page_is_read_as_it_is_typed() -> None:
    take, listed, restore = console_blocks.steps(PAGE)
    assert (take.command, take.shown, take.code) == (
        "holdfast take",
        ("Took 9014d36c38f7, 12.5 kB  ██▎",),
        0,
    )
    assert restore.command == "holdfast restore 9014 <<'END'\ny\nEND"
    assert (restore.answers, restore.code) == (["y"], 5)
    known: dict[str, str] = {}
    assert console_blocks.matches(take, "Took aaaaaaaaaaaa, 1.0 MB █\n", known)
    assert known == {"9014d36c38f7": "aaaaaaaaaaaa"}
    assert console_blocks.translated("restore 9014", known) == "restore aaaa"
    assert console_blocks.matches(listed, "aaaaaaaaaaaa\nmore\nmore\nthe end\n", known)
    assert not console_blocks.matches(listed, "bbbbbbbbbbbb\nthe end\n", known)
    assert not console_blocks.matches(listed, "aaaaaaaaaaaa\nnot the end\n", known)


def test_a_page_is_written_as_it_is_cut(tmp_path: Path) -> None:
    take, listed, _ = console_blocks.steps(PAGE)
    known: dict[str, str] = {}
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    better = {
        take: console_blocks.rewritten(take, "Made aaaaaaaaaaaa\n", known),
        listed: console_blocks.rewritten(listed, "aaaaaaaaaaaa\n1\n2\nthe very end\n", known),
    }
    console_blocks.replaced(page, {step: lines or () for step, lines in better.items()})
    assert page.read_text().startswith(
        "# A page\n\n```console\n$ holdfast take\nMade 9014d36c38f7\n"
        "$ holdfast list\n9014d36c38f7\n…\nthe very end\n```\n"
    )
