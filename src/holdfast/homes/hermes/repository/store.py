"""The checkpoints of a Hermes home: Hermes's own, and those that Holdfast takes.

Hermes's own are read in place. To compare one with the working tree or to restore it, it is copied
to Holdfast's store in the same home, which records more: full permissions, empty directories, files
of nested repositories. The safety checkpoint of a restore is there as well, so the restore can be
undone exactly. Hermes's chain, which Hermes itself moves, is left alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from holdfast.errors import DamageError, UnknownCheckpointError, UsageError
from holdfast.homes.hermes.repository import adoption, listing, notes
from holdfast.homes.hermes.repository.chains import Chains
from holdfast.homes.hermes.repository.layout import PROJECT_PREFIX, HermesLayout
from holdfast.homes.hermes.repository.listing import meant
from holdfast.model.arguments import StrPath, real
from holdfast.model.checkpoint import (
    Captured,
    Checkpoint,
    NotCaptured,
    Project,
)
from holdfast.stores.checkpoints.finder import check_prefix
from holdfast.stores.checkpoints.older_layout import OLDER, opened_at, repositories
from holdfast.stores.checkpoints.repository import project_of
from holdfast.stores.checkpoints.store import ShadowGitStore
from holdfast.stores.checkpoints.stored_modes import ModeRecord
from holdfast.stores.git.object import Kind
from holdfast.stores.git.trees import FILE, LINK, PROGRAM, Trees, path_text
from holdfast.value import replace

_OLDER_PREFIX = "older-"
_KNOWN = (FILE, PROGRAM, LINK)


class HermesCheckpointStore(ShadowGitStore):
    """The store of Holdfast in a Hermes home, which also shows Hermes's own checkpoints.

    `hermes` is their layout, `own` the store without them, and `here` the user's directory.
    """

    def __init__(
        self, hermes: HermesLayout, own: ShadowGitStore, *, here: Path | None = None
    ) -> None:
        super().__init__(own.layout.folder, own.how, bounding=own.bounding)
        self._hermes = hermes
        self._here = here

    # --- Reading ----------------------------------------------------------------------------------

    def list(self, workdir: StrPath | None = None) -> Sequence[Checkpoint]:
        project = None if workdir is None else project_of(real(workdir))
        found = [
            *self._in_hermes(project),
            *self._older(workdir),
            *(each for each in super().list(workdir) if not adoption.is_copy(each)),
        ]
        return sorted(found, key=lambda each: -each.time)

    def get(self, prefix: str) -> Checkpoint:
        check_prefix(prefix)
        own = [each for each in super().list() if each.id.startswith(prefix)]
        found = [
            *self._beginning(prefix),
            *(each for each in self._older(None) if each.id.startswith(prefix)),
            *(each for each in own if not adoption.is_copy(each)),
        ]
        # Copies of Hermes's checkpoints come last: users rarely see their ids.
        chosen = meant(prefix, found or own[:1], self._here)
        nested = () if adoption.is_copy(chosen) else self._nested_in(chosen)
        return replace(chosen, not_captured=(*chosen.not_captured, *nested))

    def ready(self, checkpoint: Checkpoint) -> Checkpoint:
        repository = self._repository(checkpoint)
        if repository is None:
            return checkpoint
        workdir = Path(checkpoint.workdir)
        if not workdir.is_absolute():
            raise UsageError(
                f"Checkpoint {checkpoint.id} does not record its directory.",
                hint=f"git can read it: `git --git-dir {repository} show {checkpoint.id}`.",
            )
        limit = adoption.size_limit(self._hermes.folder.parent)
        reason = checkpoint.reason.removesuffix(OLDER)
        plain = replace(
            checkpoint,
            reason=reason,
            not_captured=(),
            files_changed=0,  # changes if the previous checkpoint is removed; the id must not
            insertions=None,
            deletions=None,
        )
        self.prepare()
        with self.reading():  # nothing else protects the objects that a look stores
            present = self.look(workdir) if workdir.is_dir() else None
            return adoption.bring_in(self.layout, repository, plain, present, limit=limit)

    def captured(self, tree: str) -> Captured:
        """A checkpoint of Hermes has only git's modes, no empty directories and no nested
        repositories."""
        trees = self._holding(tree)
        if trees is None:
            return super().captured(tree)
        record = ModeRecord()
        return Captured(
            files={
                path_text(path): record.entry(path, node)
                for path, node in trees.files(bytes.fromhex(tree))
                if node[0] in _KNOWN
            },
            directories={},
        )

    def blob(self, oid: str) -> bytes:
        trees = self._holding(oid)
        if trees is None:
            return super().blob(oid)
        return trees.raw(bytes.fromhex(oid), Kind.BLOB)

    def projects(self) -> Sequence[Project]:
        chains = self._chains()
        found = [*super().projects()]
        if chains is not None:
            found += listing.projects(self._hermes, chains)
        return sorted(found, key=lambda each: (-each.last_touch, each.workdir))

    # --- Pins and names ---------------------------------------------------------------------------

    def pin(self, checkpoint: Checkpoint, pinned: bool) -> Checkpoint:
        if checkpoint.project.startswith(PROJECT_PREFIX):
            return notes.pin(self._hermes, checkpoint, pinned)
        self._refuse_older(checkpoint)
        return super().pin(checkpoint, pinned)

    def rename(self, checkpoint: Checkpoint, name: str | None) -> Checkpoint:
        if checkpoint.project.startswith(PROJECT_PREFIX):
            return notes.rename(self._hermes, checkpoint, name)
        self._refuse_older(checkpoint)
        return super().rename(checkpoint, name)

    # --- Places -----------------------------------------------------------------------------------

    def _chains(self) -> Chains | None:
        return Chains.look(self._hermes) if self._hermes.exists() else None

    def _in_hermes(self, project: str | None) -> Sequence[Checkpoint]:
        chains = self._chains()
        if chains is None or (project is not None and project not in chains.tips):
            return ()
        return listing.checkpoints(self._hermes, chains, None if project is None else [project])

    def _beginning(self, prefix: str) -> Sequence[Checkpoint]:
        """Hermes's checkpoints whose id begins with `prefix`, once for each project that has it."""
        chains = self._chains()
        if chains is None:
            return ()
        of = {project for project, link in chains.all() if link.id.startswith(prefix)}
        listed = listing.checkpoints(self._hermes, chains, sorted(of))
        return [each for each in listed if each.id.startswith(prefix)]

    def _nested_in(self, checkpoint: Checkpoint) -> Sequence[NotCaptured]:
        """Nested repositories, of which Hermes records only that they exist."""
        repository = self._repository(checkpoint)
        if repository is None:
            return ()
        try:
            return adoption.nested(Trees(opened_at(repository)), checkpoint.tree)
        except DamageError:
            return ()  # `verify` reports it

    def _older(self, workdir: StrPath | None) -> Sequence[Checkpoint]:
        wanted = None if workdir is None else str(real(workdir))
        some = [each for each in repositories(self._hermes) if wanted in (None, each.workdir)]
        return [
            replace(each, project=f"{_OLDER_PREFIX}{each.project}", reason=f"{each.reason}{OLDER}")
            for each in listing.older(some)
        ]

    def _repository(self, checkpoint: Checkpoint) -> Path | None:
        """The repository of Hermes with a checkpoint; None for a checkpoint of Holdfast."""
        if checkpoint.project.startswith(PROJECT_PREFIX):
            return self._hermes.store
        if not checkpoint.project.startswith(_OLDER_PREFIX):
            return None
        for each in repositories(self._hermes):
            is_its = each.workdir == checkpoint.workdir
            if is_its and bytes.fromhex(checkpoint.id) in opened_at(each.path):
                return each.path
        raise UnknownCheckpointError(f"Checkpoint {checkpoint.id} no longer exists.")

    def _refuse_older(self, checkpoint: Checkpoint) -> None:
        if checkpoint.project.startswith(_OLDER_PREFIX):
            raise UsageError(
                f"Checkpoint {checkpoint.id} has an older layout, which has no pins or names.",
                hint="`holdfast checkpoints import` copies it into a store that has them.",
            )

    def _holding(self, oid: str) -> Trees | None:
        """The repository of Hermes with an object; None if the object is in our store."""
        places = [self._hermes.store] if self._hermes.exists() else []
        places += [each.path for each in repositories(self._hermes)]
        for path in places:
            trees = Trees(opened_at(path))
            if bytes.fromhex(oid) in trees.objects:
                return trees
        return None
