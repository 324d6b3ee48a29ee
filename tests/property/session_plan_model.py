"""What a plan does with stored sessions, said a second time and as plainly as possible.

Every item has a fate: it stays, it goes to the trash, or it is gone. Nothing is kept up to date:
whatever is asked is counted anew from the fates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

from holdfast.model.item import SESSION, Inventory, Item
from holdfast.model.plan import Action
from holdfast.policy.rules import Caps, Files, GcRules, Policy
from tests.property.keep_model import kept_by_each_rule

Key = tuple[str, str]
WORTH_IT = 1_048_576


class Fate(Enum):
    STAYS = auto()
    TRASHED = auto()
    GONE = auto()


@dataclass
class Model:
    """One inventory under one policy. Fates are of sessions, of orphans and of the trash."""

    policy: Policy
    inventory: Inventory
    now: float
    files: Files = Files.WITH
    archiving: bool = False
    trivial_max: int | None = None
    keep_titled: bool = False
    fates: dict[Key, Fate] = field(default_factory=dict)
    #: Caps that cannot be met: limit and what remains, by name.
    short: dict[str, tuple[int, int]] = field(default_factory=dict)

    # --- Who is who -------------------------------------------------------------------------------

    @property
    def sessions(self) -> list[Item]:
        return [item for item in self.inventory.items if item.kind == SESSION]

    @property
    def orphans(self) -> list[Item]:
        return [i for i in self.inventory.items if i.kind != SESSION and not i.owned]

    def files_of(self, session: Item) -> list[Item]:
        return [i for i in self.inventory.items if i.owned and i.session == session.id]

    def in_use(self, item: Item) -> bool:
        mine = self.files_of(item) if item.kind == SESSION else []
        return any(each.alive is not None for each in (item, *mine))

    def held(self, item: Item) -> bool:
        may_not = item.kind != SESSION and (self.files is Files.NONE or self.archiving)
        return may_not or self.in_use(item) or self.policy.pins_item(item)

    def goes_along(self, item: Item) -> bool:
        most = self.policy.trivial_max if self.trivial_max is None else self.trivial_max
        small = item.messages is not None and item.messages <= most
        kept = item.titled and self.keep_titled
        return item.delegate and small and not kept and not self.held(item)

    # --- Fates ------------------------------------------------------------------------------------

    @property
    def removed(self) -> Fate:
        return Fate.TRASHED if self.policy.use_trash else Fate.GONE

    def stays(self, item: Item) -> bool:
        return self.fates[key(item)] is Fate.STAYS

    def send(self, item: Item, fate: Fate) -> None:
        self.fates[key(item)] = fate
        if item.kind == SESSION:
            for child in self.sessions:
                if child.parent == item.id and self.stays(child) and self.goes_along(child):
                    self.send(child, fate)

    def send_all(self, goes: Callable[[Item], bool]) -> None:
        going = [item for item in (*self.sessions, *self.orphans) if goes(item)]
        for item in self.inventory.everything:
            self.fates[key(item)] = self.removed if item in going else Fate.STAYS
        for item in going:
            self.send(item, self.removed)

    # --- What stays on the disk -------------------------------------------------------------------

    def parts(self, item: Item) -> list[Item]:
        """What goes when this goes."""
        if item.kind != SESSION:
            return [item]
        row = [] if self.files is Files.ONLY else [item]
        mine = [] if self.files is Files.NONE else self.files_of(item)
        return row + [each for each in mine if not self.policy.pins_item(each)]

    def counted(self, source: str | None) -> list[Item]:
        """What a cap on the number counts: sessions of which something could go, and orphans."""
        return [
            item
            for item in (*self.sessions, *self.orphans)
            if source in (None, item.source)
            and self.stays(item)
            and (self.files is not Files.ONLY or self.parts(item))
        ]

    def bytes_on_disk(self, source: str | None) -> int:
        total = 0
        for item in (*self.sessions, *self.orphans, *self.inventory.trash):
            if source not in (None, item.source):
                continue
            whole = [item, *(self.files_of(item) if item.kind == SESSION else [])]
            gone = self.parts(item) if self.fates[key(item)] is Fate.GONE else []
            total += sum(each.bytes for each in whole if each not in gone)
        return total


def key(item: Item) -> Key:
    return item.kind, item.id


def prune(
    policy: Policy,
    inventory: Inventory,
    now: float,
    *,
    files: Files = Files.WITH,
    archiving: bool = False,
) -> Model:
    model = Model(policy, inventory, now, files=files, archiving=archiving)
    stays = _kept_by_rules(model)
    model.send_all(lambda item: not model.held(item) and key(item) not in stays)
    for item in inventory.trash:
        old = policy.trash_age is not None and now - item.last_active_at > policy.trash_age
        if old and not policy.pins_item(item):
            model.fates[key(item)] = Fate.GONE
    if not archiving:
        for source, limits in sorted(policy.by_source.items()):
            _cap(model, limits.caps, source)
        _cap(model, policy.everywhere.caps, None)
    return model


def gc(rules: GcRules, policy: Policy, inventory: Inventory, now: float) -> Model:
    model = Model(
        policy,
        inventory,
        now,
        trivial_max=rules.trivial_max,
        keep_titled=rules.keep_titled,
    )

    def goes(item: Item) -> bool:
        if item.kind != SESSION or model.held(item) or item.messages is None:
            return False
        if item.titled and rules.keep_titled:
            return False
        idle = now - item.last_active_at
        empty = item.messages == 0 and rules.empty_after > 0 and idle > rules.empty_after
        few = 0 < item.messages <= rules.trivial_max
        return empty or (few and rules.trivial_after > 0 and idle > rules.trivial_after)

    model.send_all(goes)
    return model


def _kept_by_rules(model: Model) -> set[Key]:
    judged = [*model.sessions, *model.orphans]
    stays: set[Key] = set()
    for group in {item.group for item in judged}:
        members = [item for item in judged if item.group == group]
        rules = model.policy.rules_for(group[1])
        if rules.empty:
            stays |= set(map(key, members))
        for kept in kept_by_each_rule(rules, members, model.now).values():
            stays |= set(map(key, kept))
        if rules.max_age is not None:
            young = [i for i in members if model.now - i.last_active_at <= rules.max_age]
            stays |= set(map(key, young))
    return stays


def _cap(model: Model, caps: Caps, source: str | None) -> None:
    """Take one after the other, and look at everything again after each."""
    label = "" if source is None else f" of {source}"
    if caps.max_count is not None:
        while len(model.counted(source)) > caps.max_count:
            going = _oldest(each for each in model.counted(source) if _may_be_taken(model, each))
            if going is None:
                left = len(model.counted(source))
                model.short[f"max_count{label}"] = (caps.max_count, left)
                break
            model.send(going, model.removed)
    if caps.max_bytes is not None:
        while model.bytes_on_disk(source) > caps.max_bytes:
            going = _next_by_bytes(model, source)
            if going is None:
                left = model.bytes_on_disk(source)
                model.short[f"max_total_size{label}"] = (caps.max_bytes, left)
                break
            model.send(going, Fate.GONE)


def _next_by_bytes(model: Model, source: str | None) -> Item | None:
    def of(items: Iterable[Item], fate: Fate) -> Iterator[Item]:
        for item in items:
            worth = sum(part.bytes for part in model.parts(item)) > 0
            if source in (None, item.source) and model.fates[key(item)] is fate and worth:
                yield item

    items = [*model.sessions, *model.orphans]
    unpinned = [item for item in model.inventory.trash if not model.policy.pins_item(item)]
    return (
        _oldest(of(unpinned, Fate.STAYS))
        or _oldest(of(items, Fate.TRASHED))
        or _oldest(each for each in of(items, Fate.STAYS) if _may_be_taken(model, each))
    )


def _may_be_taken(model: Model, item: Item) -> bool:
    group = [each for each in (*model.sessions, *model.orphans) if each.group == item.group]
    newest = min(group, key=lambda each: (-each.last_active_at, each.id))
    return item is not newest and not model.held(item)


def _oldest(items: Iterable[Item]) -> Item | None:
    return min(items, key=lambda each: (each.last_active_at, each.id, each.kind), default=None)


# --- The plan that follows from the fates ---------------------------------------------------------


def decisions(model: Model) -> Mapping[Key, tuple[Action, bool, str]]:
    """For everything in the plan: its action, whether it can be undone, what it goes with."""
    made: dict[Key, tuple[Action, bool, str]] = {}
    for session in model.sessions:
        made[key(session)] = _of_session(model, session)
        for each in model.files_of(session):
            made[key(each)] = _of_file(model, session, each)
    for item in (*model.orphans, *model.inventory.trash):
        made[key(item)] = _of_other(model.fates[key(item)])
    free = model.inventory.space
    gone = {Action.REMOVE, Action.ARCHIVE} & {made[key(each)][0] for each in model.sessions}
    if gone or sum(item.bytes for item in free) >= WORTH_IT:
        made |= {key(item): (Action.RECLAIM, False, "") for item in free}
    return made


def _of_session(model: Model, session: Item) -> tuple[Action, bool, str]:
    if not model.stays(session) and model.files is not Files.ONLY:
        if model.archiving:
            return Action.ARCHIVE, True, ""
        return _of_other(model.fates[key(session)])
    return Action.KEEP, False, ""


def _of_file(model: Model, session: Item, item: Item) -> tuple[Action, bool, str]:
    if model.stays(session) or item not in model.parts(session):
        return Action.KEEP, False, ""
    undoable = model.fates[key(session)] is Fate.TRASHED and not model.archiving
    return Action.REMOVE, undoable, "" if model.files is Files.ONLY else session.id


def _of_other(fate: Fate) -> tuple[Action, bool, str]:
    return (Action.KEEP if fate is Fate.STAYS else Action.REMOVE), fate is Fate.TRASHED, ""
