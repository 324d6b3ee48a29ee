"""`holdfast sessions stats`: totals of the sessions of a home, and what they cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING

import click

from holdfast.api.values import HomeStats
from holdfast.cli.commands.status import show_files, show_shares
from holdfast.cli.frame import command
from holdfast.cli.homes import failed_json, tell_unread
from holdfast.cli.invocation import Invocation, quoted
from holdfast.cli.output import (
    joined,
    name,
    print_json,
    say,
    show_no_sessions,
    suggest,
    table,
)
from holdfast.cli.progress import progress
from holdfast.model.plan_words import kind_name
from holdfast.model.session import Session, Tokens
from holdfast.model.text import cost_digits, format_bytes, format_cost, format_count
from holdfast.model.usage import Cost, CostShare, CostTotals, Share, StoreStats

if TYPE_CHECKING:
    from holdfast.api.agent_home import AgentHome
    from holdfast.api.machine import Machine

_DAYS = 14
_FEW_DAYS = 7
_MOST_NAMES = 8
_MOST_UNKNOWN = 3
_NO_TIP = "No session is old or small enough to be removed."
_NUMBERS = ("tokens in", "out", "cached", "cost")
_NO_MODEL = "none named"


@command(example="holdfast sessions stats --json\nholdfast sessions stats --cost")
@click.option("--cost", is_flag=True, help="Only tokens and cost, by day, source and model.")
def stats(invocation: Invocation, cost: bool) -> int:
    """Count sessions by source, age and size; show what the database and the files take.

    Usage by day, source and model includes sessions that were removed, in homes of Holdfast and of
    Hermes; in other homes it covers the sessions that still exist. Where an agent recorded no
    cost, it is computed from [prices] in the configuration, or unknown.

    Without --home this covers all homes of the machine, one line each.
    """
    if (machine := invocation.several()) is not None:
        return _show_all_costs(invocation, machine) if cost else _show_all(invocation, machine)
    if cost:
        return _show_cost(invocation)
    home = invocation.open_home()
    with progress("counting") as shown:
        seen = home.stats(progress=shown)
    if invocation.json:
        print_json(seen.to_json())
    else:
        show_stats(seen, invocation.home_flag, home.openings(seen.largest))
    return 0


def _show_all(invocation: Invocation, machine: Machine) -> int:
    """One line for each home, and their sum."""
    with progress("counting") as shown:
        looked = machine.stats(progress=shown)
    if invocation.json:
        homes = [{"agent": home.agent, **seen.to_json()} for home, seen in looked.seen]
        print_json({"homes": homes, "failed": failed_json(looked.unread)})
        return tell_unread(looked.unread)
    numbers = ("sessions", "open", "messages", "tokens", "cost")
    rows = table("agent", *numbers, right=numbers, whole=("agent",), drops=("messages", "open"))
    sums = [0, 0, 0, 0]
    costs = [seen.costs.ever for _, seen in looked.seen]
    together = reduce(Cost.plus, costs, Cost())
    digits = digits_of([together])  # as for one home: a small share does not make the sum longer
    for home, seen in looked.seen:
        store = seen.store
        counts = (
            [store.sessions, store.open_sessions, store.messages, store.tokens]
            if store
            else [0, 0, 0, 0]
        )
        sums = [before + more for before, more in zip(sums, counts, strict=True)]
        rows.add_row(
            name(home.label), *(f"{n:,}" for n in counts), seen.costs.ever.in_words(digits)
        )
    if costs:
        rows.add_row("total", *(f"{n:,}" for n in sums), together.in_words(digits))
    say(rows)
    _suggest_one(looked.seen, "sessions stats")
    return tell_unread(looked.unread)


def _show_all_costs(invocation: Invocation, machine: Machine) -> int:
    with progress("counting"):
        looked = machine.costs()
    if invocation.json:
        homes = [
            {"agent": home.agent, "home": str(home.path), "kind": home.agent} | seen.to_json()
            for home, seen in looked.seen
        ]
        print_json({"homes": homes, "failed": failed_json(looked.unread)})
        return tell_unread(looked.unread)
    shares = [CostShare(name=home.label, cost=seen.ever) for home, seen in looked.seen]
    if shares:
        together = reduce(Cost.plus, (share.cost for share in shares))
        _show("agent", [*shares, CostShare(name="total", cost=together)], "", after=False)
    _suggest_one(looked.seen, "sessions stats --cost")
    return tell_unread(looked.unread)


def _suggest_one(seen: Sequence[tuple[AgentHome, object]], command: str) -> None:
    if seen:
        say()
        one = f"holdfast --home {quoted(seen[0][0].name)} {command}"
        suggest("", "To see one of them in full:", one)


def _show_cost(invocation: Invocation) -> int:
    home = invocation.open_home()
    with progress("counting"):
        totals = home.costs()
    if invocation.json:
        print_json({"home": str(home.path), "kind": home.kind} | totals.to_json())
        return 0
    if totals.by_source:
        show_usage(totals, invocation.home_flag, days=_DAYS)
    else:
        say("No usage yet: no message reported tokens or a cost.")
    return 0


def show_stats(seen: HomeStats, home_flag: str, openings: Mapping[str, str]) -> None:
    inventory = seen.inventory
    sessions = 0 if seen.store is None else seen.store.sessions
    if not (sessions or inventory.items or inventory.trash or inventory.archived):
        _show_empty(seen, home_flag)
        return
    if seen.store is None:
        say("There is no session store in this home.")
    else:
        _show_store(seen.store)
    show_shares("on the disk", list(_on_the_disk(seen)), "number")
    if seen.largest:
        _show_largest(seen.largest, openings)
    show_files("largest files", seen.largest_files)
    show_usage(seen.costs, home_flag)
    _show_tip(seen, home_flag)


def _show_empty(seen: HomeStats, home_flag: str) -> None:
    """No tables of zeros; the usage of removed sessions is still shown."""
    show_usage(seen.costs, home_flag)
    if seen.checkpoints.count:
        known = "There are no sessions here yet."
        suggest(known, "To see the checkpoints:", f"holdfast {home_flag}checkpoints")
    else:
        show_no_sessions()


def _show_store(store: StoreStats) -> None:
    sessions = f"{format_count(store.sessions, 'session')} ({store.open_sessions:,} open)"
    messages = format_count(store.messages, "message")
    used = format_count(store.tokens, "token")
    say(f"In this home now: {sessions}, {messages}, {used}", "bold")
    say()
    show_shares("source", store.by_source, "sessions")
    show_shares("last active", store.by_age, "sessions")
    show_shares("messages", store.by_size, "sessions")
    show_shares("average message", store.by_average_message, "sessions")


def _on_the_disk(seen: HomeStats) -> Iterator[Share]:
    for share in seen.by_kind:
        yield Share(name=kind_name(share.name), count=share.count, bytes=share.bytes)
    checkpoints = seen.checkpoints
    yield Share(name="checkpoints", count=checkpoints.count, bytes=checkpoints.bytes)
    store = seen.store
    if store is not None and store.database_bytes:  # some agents keep their sessions in files
        yield Share(name="database", count=1, bytes=store.database_bytes - store.free_bytes)
        yield Share(name="free pages in it", count=0, bytes=store.free_bytes)
        if store.wal_bytes:
            yield Share(name="write-ahead log", count=1, bytes=store.wal_bytes)
    elif store is not None:
        yield Share(name="sessions", count=store.sessions, bytes=store.message_bytes)
    yield Share(name="archive", count=seen.inventory.archived, bytes=seen.inventory.archive_bytes)


def _show_largest(largest: Sequence[Session], openings: Mapping[str, str]) -> None:
    rows = table(
        "largest",
        "messages",
        "size",
        "title",
        right=("messages", "size"),
        whole=("largest",),
        cut=("title",),
        drops=("messages", "title"),
    )
    for session in largest:
        rows.add_row(
            name(session.id),
            f"{session.message_count:,}",
            format_bytes(session.bytes),
            name(session.title) if session.title else name(openings.get(session.id, ""), "dim"),
        )
    say(rows)
    say()


def _show_tip(seen: HomeStats, home_flag: str) -> None:
    tip = seen.tip
    if tip is not None:
        sessions = format_count(tip.sessions, "session is", "sessions are")
        in_rows = seen.store is not None and seen.store.database_bytes
        where = " of the database, plus files" if in_rows else ""
        told = f"{sessions} {tip.why}: up to {format_bytes(tip.bytes)}{where}."
        suggest(told, "Have a look first:", f"holdfast {home_flag}{tip.command} --dry-run")
    elif seen.inventory.trash:
        suggest(_NO_TIP, "Some are still in the trash:", f"holdfast {home_flag}trash list")
    else:
        suggest(_NO_TIP, "To see the rules:", f"holdfast {home_flag}config show")


def show_usage(totals: CostTotals, home_flag: str, *, days: int = _FEW_DAYS) -> None:
    """Show the totals, the latest days, and the largest shares; nothing if nothing was used."""
    if not totals.by_source:
        return
    tokens = totals.ever.usage.tokens
    used = f"{tokens.total:,} tokens, cost {totals.ever.in_words()}"
    whose = (
        "All-time usage, including removed sessions"
        if totals.removed_too
        else "Usage of the sessions in this home"
    )
    say(f"{whose}: {used}", "bold")
    if totals.ever.priced:
        priced = format_cost(totals.ever.priced)
        say(f"{priced} of that is computed from the prices in the configuration", "dim")
    say()
    _show("day (UTC)", totals.by_day[:days], "no valid date", after=len(totals.by_day) <= days)
    if len(totals.by_day) > days:
        all_days = format_count(len(totals.by_day), "day")
        more = f" {_DAYS} of them: --cost." if days < min(_DAYS, len(totals.by_day)) else ""
        say(f"The latest {days} of {all_days} with usage.{more} All: --json.", "dim")
        say()
    _show("source", _main(totals.by_source), "")
    _show("model", _main(totals.by_model), _NO_MODEL)
    if totals.by_task:
        _show("auxiliary task", _main(totals.by_task), "")
    _show_unknown(totals.by_model, home_flag)


def digits_of(costs: Iterable[Cost]) -> int:
    """How many decimals the costs of one column have."""
    return cost_digits(each.known for each in costs)


def _show(title: str, shares: Sequence[CostShare], nameless: str, *, after: bool = True) -> None:
    rows = table(title, *_NUMBERS, right=_NUMBERS, cut=(title,), drops=("cached", "out"))
    rows.columns[0].min_width = 16
    digits = digits_of(share.cost for share in shares)
    for share in shares:
        tokens = share.cost.usage.tokens
        rows.add_row(
            name(share.name or nameless),
            f"{tokens.input:,}",
            f"{tokens.output:,}",
            f"{tokens.cached:,}",
            share.cost.in_words(digits),
        )
    say(rows)
    if after:
        say()


def _show_unknown(by_model: Sequence[CostShare], home_flag: str) -> None:
    """Show which models have no known cost, and what to do about it."""
    unknown = [share for share in by_model if share.cost.unknown != Tokens()]
    if not unknown:
        return
    unknown.sort(key=lambda share: -share.cost.unknown_tokens)
    for share in unknown[:_MOST_UNKNOWN]:
        model = joined("model ", name(share.name)) if share.name else "sessions without a model"
        tokens = format_count(share.cost.unknown_tokens, "token")
        say(joined(f"Cost unknown for {tokens} of ", model, ".", style="yellow"))
    if rest := unknown[_MOST_UNKNOWN:]:
        tokens = format_count(sum(share.cost.unknown_tokens for share in rest), "token")
        models = format_count(len(rest), "other model")
        say(f"Cost unknown for {tokens} of {models}.", "yellow")
    config = f"holdfast {home_flag}config edit"
    suggest("", "To set their prices, under [prices] in the configuration:", config)
    say()


def _main(shares: Sequence[CostShare]) -> list[CostShare]:
    shown, rest = list(shares[:_MOST_NAMES]), shares[_MOST_NAMES:]
    if rest:
        together = reduce(Cost.plus, (share.cost for share in rest))
        shown.append(CostShare(name=format_count(len(rest), "other"), cost=together))
    return shown
