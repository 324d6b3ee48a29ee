"""What a restore must not delete: what the target lacks only because it did not see it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from holdfast.model.checkpoint import Captured, Checkpoint, Entry
from holdfast.stores.files import PRIVATE_DIR, storage_errors
from holdfast.stores.shadowgit.beside import path_bytes, path_text
from holdfast.stores.shadowgit.excludes import TEMPORARY
from holdfast.stores.shadowgit.git import Git
from holdfast.stores.shadowgit.ignoring import Ignoring
from holdfast.stores.shadowgit.restore_plan import Spared, above

_RULES = ".gitignore"
_NOT_THEN = "the checkpoint did not capture it: {}"
_IGNORED = _NOT_THEN.format("it was ignored")


@dataclass(frozen=True, slots=True)
class Sparing:
    """Asks on behalf of one project; `folder` is that of its private index."""

    store: Path
    folder: Path
    blob: Callable[[str], bytes]

    def not_captured(self, target: Checkpoint) -> Spared:
        """What the target itself says that it left out, and everything below that."""
        why = {each.path: each.reason for each in target.not_captured}

        def spared(path: str) -> str | None:
            for place in (path, *above(path)) if why else ():
                if place in why:
                    return _NOT_THEN.format(why[place])
            return None

        return spared

    def ignored(
        self,
        files: Sequence[str],
        directories: Sequence[str],
        tree: Captured,
        excludes: bytes,
    ) -> Mapping[str, str]:
        """Of these paths, those that the rules in a tree leave out, or the default excludes that
        it was taken under.

        They may have been there at its time: that it lacks them says nothing.
        """
        with tempfile.TemporaryDirectory(prefix="holdfast-") as made:
            place = Path(made).resolve()
            with storage_errors(f"write ignore rules to {place}"):
                for path, entry in rules(tree).items():
                    file = place / path
                    file.parent.mkdir(mode=PRIVATE_DIR, parents=True, exist_ok=True)
                    file.write_bytes(self.blob(entry.oid))
                for path in directories:  # some rules are about directories alone
                    (place / path).mkdir(mode=PRIVATE_DIR, parents=True, exist_ok=True)
            git = Git(store=self.store, folder=self.folder, work_tree=place)
            standing = place / f"{TEMPORARY.decode()}excludes"
            standing.write_bytes(excludes)
            with Ignoring(git, standing) as ignoring:
                left = ignoring.ask(sorted(map(path_bytes, (*files, *directories))))
        return {path_text(path): _IGNORED for path in left}


def rules(captured: Captured) -> Mapping[str, Entry]:
    return {
        path: entry
        for path, entry in captured.files.items()
        if path.endswith(_RULES) and path.rpartition("/")[2] == _RULES and not entry.is_link
    }
