"""What is released, and where it is checked."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

import holdfast
from tools import release_check

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))


def _targets() -> set[str]:
    makefile = (ROOT / "Makefile").read_text()
    return set(re.findall(r"^([a-z-]+):.*## ", makefile, re.MULTILINE))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_every_step_of_a_workflow_is_a_target(path: Path) -> None:
    jobs = yaml.safe_load(path.read_text())["jobs"]
    typed = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    assert typed
    assert {command.removeprefix("make ") for command in typed} <= _targets()


def test_every_python_is_tested() -> None:
    """The workflow, the Makefile and the metadata name the same versions."""
    jobs = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())["jobs"]
    tested = jobs["test"]["strategy"]["matrix"]["python"]
    found = re.search(r"^PYTHONS \?= (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert found is not None
    assert found[1].split() == tested
    prefix = "Programming Language :: Python :: 3."
    said = [each for each in PROJECT["classifiers"] if each.startswith(prefix)]
    assert [each.rpartition(" ")[2] for each in said] == tested


METADATA = f"""\
Metadata-Version: 2.4
Name: holdfast
Version: {holdfast.__version__}
Summary: Keeps what AI agents made.
License-Expression: Apache-2.0
Description-Content-Type: text/markdown

# Holdfast
"""


def test_metadata_that_would_be_refused_is_noticed() -> None:
    release_check.check_metadata(METADATA.encode())
    for old, new in (("Version: 0", "Version: 9"), ("# Holdfast", ""), ("Apache-2.0", "Apache")):
        assert old in METADATA
        with pytest.raises((release_check.ReleaseError, ExceptionGroup)):
            release_check.check_metadata(METADATA.replace(old, new).encode())


def test_a_file_too_few_or_too_many_is_noticed() -> None:
    release_check.check_names("x.whl", {"a", "b"}, {"a", "b"})
    with pytest.raises(release_check.ReleaseError, match="lacks: b"):
        release_check.check_names("x.whl", {"a"}, {"a", "b"})
    with pytest.raises(release_check.ReleaseError, match="should not have: c"):
        release_check.check_names("x.whl", {"a", "b", "c"}, {"a", "b"})
