"""The movers: how each kind of part leaves a home and comes back."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.model.part import FilePart, FolderPart, LinePart, RefPart, RowsPart
from holdfast.parts.lines import LineMover
from holdfast.parts.refs import RefMover
from holdfast.parts.rows import RowsMover
from holdfast.parts.trees import TreeMover
from holdfast.ports.formats import PartMover


def movers() -> Mapping[type, PartMover]:
    """Return the movers, by the kind of part that is stored in files."""
    trees = TreeMover()
    return {
        FilePart: trees,
        FolderPart: trees,
        RowsPart: RowsMover(),
        LinePart: LineMover(),
        RefPart: RefMover(),
    }
