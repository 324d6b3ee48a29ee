"""Every chain of the store as it is at one moment, with what our trash holds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from holdfast.homes.hermes.repository.commits import Link, walk
from holdfast.homes.hermes.repository.cuts import read_cuts
from holdfast.homes.hermes.repository.layout import HermesLayout, opened
from holdfast.homes.hermes.repository.references import tips_of
from holdfast.stores.shadowgit.dropping import Ref, all_refs
from holdfast.stores.shadowgit.loose_object import LooseObjects
from holdfast.stores.shadowgit.trees import Trees

_TIME_DIGITS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Chains:
    """`tips` are the newest checkpoints by project; `trash` are references of ours."""

    layout: HermesLayout
    trees: Trees
    cuts: frozenset[str]
    tips: Mapping[str, str]
    trash: tuple[Ref, ...]
    _walked: dict[str, tuple[Link, ...]] = field(default_factory=dict)

    @classmethod
    def look(cls, layout: HermesLayout) -> Chains:
        # The references first: what is cut after that only makes a chain shorter.
        tips = dict(tips_of(layout))
        return cls(
            layout=layout,
            trees=Trees(opened(layout), LooseObjects(layout.store / "objects")),
            cuts=read_cuts(layout.store),
            tips=tips,
            trash=tuple(ref for ref in all_refs(layout.shape) if ref.operation),
        )

    def of(self, project: str) -> tuple[Link, ...]:
        """The checkpoints of a project, the newest first."""
        if project not in self._walked:
            self._walked[project] = walk(self.trees, self.tips.get(project, ""), self.cuts)
        return self._walked[project]

    def all(self) -> Iterator[tuple[str, Link]]:
        for project in self.tips:
            for link in self.of(project):
                yield project, link

    def refs(self) -> Iterator[Ref]:
        """Every checkpoint, shown or in the trash, as a reference; most have none of their own."""
        for project, link in self.all():
            yield ref_of(project, link)
        yield from self.trash


def ref_of(project: str, link: Link) -> Ref:
    return Ref(checkpoint=link.id, project=project, name=f"{int(link.time):0{_TIME_DIGITS}d}")


def placed(
    chain: Iterable[Link], returning: Iterable[Link], followed: Mapping[str, str]
) -> list[Link]:
    """A chain, the oldest first, with checkpoints put back where they were.

    Next to the one that came after it, or before it; where neither is there, by its time.
    """
    order = list(chain)
    waiting = list(returning)
    while waiting:
        link = next((each for each in waiting if _place(order, each, followed) is not None), None)
        if link is None:
            link = min(waiting, key=lambda each: each.time)
            place = sum(each.time <= link.time for each in order)
        else:
            found = _place(order, link, followed)
            place = len(order) if found is None else found
        waiting.remove(link)
        order.insert(place, link)
    return order


def _place(order: list[Link], link: Link, followed: Mapping[str, str]) -> int | None:
    for number, each in enumerate(order):
        if link.id in (each.parent, followed.get(each.id)):
            return number
        if link.parent and each.id == link.parent:
            return number + 1
    return None
