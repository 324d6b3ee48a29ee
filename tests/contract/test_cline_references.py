"""Cline keeps checkpoints as references in the user's repository: they go and return with their
session, and what else the repository has stays as it is."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import holdfast
from holdfast.model.report import Result
from tests.contract.agent_homes import NOW
from tests.contract.agents import cline

_ONE, _OTHER = "1794804550205_3pu65", "1794804580828_abhkb"
_PREFIX = "refs/cline/checkpoints"


def git(project: Path, *words: str) -> str:
    who = ("-c", "user.name=me", "-c", "user.email=me@example.org")
    said = subprocess.run(
        ["git", "-C", str(project), *who, *words], check=True, capture_output=True, text=True
    )
    return said.stdout


def references(project: Path) -> dict[str, str]:
    lines = git(project, "for-each-ref", "--format=%(refname) %(objectname)").splitlines()
    return dict(line.split(" ") for line in lines)


@pytest.fixture
def project(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A repository with checkpoints of two sessions; the working directory lies deep in it, or is a
    worktree of it."""
    place = tmp_path / "project"
    place.mkdir()
    git(place, "init", "-q")
    git(place, "commit", "-q", "--allow-empty", "-m", "Begin")
    for number, session in ((1, _ONE), (2, _ONE), (1, _OTHER)):
        made = git(place, "commit-tree", "HEAD^{tree}", "-m", f"{session} {number}").strip()
        git(place, "update-ref", f"{_PREFIX}/{session}/{number}", made)
    if getattr(request, "param", "folder") == "folder":
        (place / "src" / "deep").mkdir(parents=True)
        return place / "src" / "deep"
    git(place, "worktree", "add", "-q", "--detach", str(tmp_path / "tree"))
    return tmp_path / "tree"


@pytest.fixture
def root(project: Path, tmp_path: Path) -> Path:
    cline.make(tmp_path / "home", str(project))
    return tmp_path / "home"


def opened(root: Path) -> holdfast.Home:
    return holdfast.open(root, clock=lambda: NOW)


def shown(project: Path) -> dict[str, str]:
    return {name: at for name, at in references(project).items() if name.startswith(_PREFIX)}


@pytest.mark.parametrize("project", ["folder", "worktree"], indirect=True)
def test_references_go_and_return_with_their_session(root: Path, project: Path) -> None:
    before = references(project)
    with opened(root) as home:
        assert home.delete([_ONE]).removed == 1
    assert {name.split("/")[3] for name in shown(project)} == {_OTHER}
    git(project, "gc", "-q", "--prune=now")
    with opened(root) as home:
        home.undo_latest()
    assert references(project) == before
    git(project, "fsck")


def test_the_last_session_of_a_project_returns_too(root: Path, project: Path) -> None:
    """Then no row of the home names the project any more."""
    before = references(project)
    with opened(root) as home:
        home.plan_prune(older_than="90d").apply()
        assert not home.sessions.find()
    assert not shown(project)
    with opened(root) as home:
        home.undo_latest()
    assert references(project) == before


def test_archived_references_return(root: Path, project: Path) -> None:
    before = references(project)
    with opened(root) as home:
        home.archive_sessions([_ONE])
    assert {name.split("/")[3] for name in shown(project)} == {_OTHER}
    with opened(root) as home:
        home.restore_sessions([_ONE])
    assert references(project) == before


def test_a_checkpoint_since_the_plan_keeps_the_session(root: Path, project: Path) -> None:
    with opened(root) as home:
        plan = home.plan_delete([_ONE])
        git(project, "update-ref", f"{_PREFIX}/{_ONE}/3", "HEAD")
        report = plan.apply()
        assert [each.result for each in report.outcomes] == [Result.SKIPPED]
        assert len(shown(project)) == 4
    with opened(root) as home:  # a look from before the change does not count
        assert home.delete([_ONE]).removed == 1


def test_emptying_the_trash_lets_the_references_go(root: Path, project: Path) -> None:
    with opened(root) as home:
        home.delete([_ONE])
        home.trash.plan_empty().apply()
    left = references(project)
    assert {name.split("/")[3] for name in left if name.startswith(_PREFIX)} == {_OTHER}
    assert not [name for name in left if name.startswith("refs/holdfast")]


def test_a_project_that_is_gone_keeps_nobody(root: Path, project: Path) -> None:
    project.rename(project.with_name("moved"))
    with opened(root) as home:
        assert home.delete([_ONE]).removed == 1
        home.undo_latest()
        assert _ONE in {each.id for each in home.sessions.find()}
