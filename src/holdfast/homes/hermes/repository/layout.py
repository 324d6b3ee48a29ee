"""Where Hermes keeps checkpoints, and where our own notes about them are.

checkpoints/store/                     a bare git repository that Hermes made
checkpoints/store/refs/hermes/<hash>   the newest checkpoint of a project, after its older ones
checkpoints/store/indexes/<hash>       the project's index, which Hermes fills anew each time
checkpoints/store/projects/<hash>.json its directory, and when it was first and last used
checkpoints/store/shallow              where a chain ends though its last commit has a parent
checkpoints/legacy-<time>/<hash>/      an older layout: a repository for each directory

Nothing of ours is written there but references under `refs/holdfast-trash/` and the file `shallow`,
which git and so Hermes understand.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from holdfast.stores.shadowgit.git import Git
from holdfast.stores.shadowgit.objects import Objects
from holdfast.stores.shadowgit.repository import Layout

FOLDER = "checkpoints"
REFS = "refs/hermes/"
#: What tells the projects of Hermes from those that Holdfast takes checkpoints of by itself.
PROJECT_PREFIX = "hermes-"


@dataclass(frozen=True, slots=True, kw_only=True)
class HermesLayout:
    """`folder` is the checkpoint folder of Hermes, `notes` a folder of ours."""

    folder: Path
    notes: Path

    @property
    def store(self) -> Path:
        return self.folder / "store"

    @property
    def records(self) -> Path:
        return self.store / "projects"

    @property
    def indexes(self) -> Path:
        return self.store / "indexes"

    @property
    def shape(self) -> Layout:
        """The same folder as one of ours: objects and references are where git has them."""
        return Layout(folder=self.folder)

    def git(self) -> Git:
        return Git(store=self.store, private=False)

    def exists(self) -> bool:
        return (self.store / "HEAD").is_file() and (self.store / "objects").is_dir()


def opened(layout: HermesLayout) -> Objects:
    """The repository's objects, in process."""
    return Objects(layout.store / "objects")
