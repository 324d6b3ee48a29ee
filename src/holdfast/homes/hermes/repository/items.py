"""Hermes's checkpoints as items that a policy can judge."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from holdfast.homes.hermes.repository.chains import Chains
from holdfast.homes.hermes.repository.commits import Link
from holdfast.homes.hermes.repository.layout import PROJECT_PREFIX, HermesLayout
from holdfast.homes.hermes.repository.notes import Mark, read_notes
from holdfast.homes.hermes.repository.records import read_record
from holdfast.model.checkpoint_inventory import root_of
from holdfast.model.item import CHECKPOINT, Item
from holdfast.model.weights import Weights

#: Hermes tells times by the second; the order of a chain is finer.
_TICK = 0.001


def marks(layout: HermesLayout, chains: Chains) -> Mapping[str, Mark]:
    """Pins and names, by the ids that checkpoints have now."""
    found: dict[str, Mark] = {}
    for project in chains.tips:
        found |= read_notes(layout, project).marks_of(chains.of(project))
    return found


def items(layout: HermesLayout, chains: Chains, weights: Weights) -> Iterator[Item]:
    """Every checkpoint. Inside a project, none is as old as another: the chain has an order."""
    what_if = weights.what_if()
    marked = marks(layout, chains)
    for project in chains.tips:
        chain = chains.of(project)
        last = float("-inf")
        for link in reversed(chain):
            last = max(link.time, last + _TICK)
            mark = marked.get(link.id)
            yield Item(
                kind=CHECKPOINT,
                id=link.id,
                source=f"{PROJECT_PREFIX}{project}",
                bytes=what_if.alone(root_of(link.id)),
                last_active_at=last,
                version=version_of(layout, project, link, mark, is_tip=link is chain[0]),
                pinned=mark is not None and mark.pinned,
            )


def version_of(
    layout: HermesLayout, project: str, link: Link, mark: Mark | None, *, is_tip: bool
) -> str:
    """Its id, whether somebody keeps it; of the newest also when the project was last used: it goes
    only with its whole project, and only while that is as it was judged."""
    kept = "+kept" if mark is not None and (mark.pinned or mark.name) else ""
    if not is_tip:
        return f"{link.id}{kept}"
    record = read_record(layout, project)
    touched = "" if record is None else f"{record.last_touch:.3f}"
    return f"{link.id}@{touched}{kept}"
