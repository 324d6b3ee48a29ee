"""Holdfast inside an agent: the sessions of a home, put together and ready to use."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable

from holdfast import config
from holdfast.homes.agent_sessions import AgentSessions, Guarding
from holdfast.homes.holdfast import HoldfastHome
from holdfast.homes.maintenance import alerting
from holdfast.homes.options import HomeOptions
from holdfast.homes.registry import create_home
from holdfast.homes.session_files import HomeSessionFiles
from holdfast.model.alert import Alert
from holdfast.model.places import StrPath, named_place
from holdfast.policy.budgets import GuardOptions
from holdfast.policy.lifecycle import SessionOptions
from holdfast.policy.prices import Prices
from holdfast.ports import Clock
from holdfast.stores import processes
from holdfast.stores.sqlite.guard_book import SqliteGuardBook


def open_sessions(
    home: StrPath,
    *,
    options: SessionOptions | None = None,
    on_alert: Callable[[Alert], None] | None = None,
    clock: Clock = time.time,  # noqa: TID251 - a host that has no clock of its own wants this one
    guards: GuardOptions | None = None,
    prices: Prices | None = None,
) -> AgentSessions:
    """The sessions of a home, which is made when there is none.

    Without `options`, `guards` and `prices`, what the home's config.toml says holds. The
    environment is not looked at: a host that wants it to count passes options. `on_alert` hears of
    sessions near their limits and budgets.
    """
    root = named_place(home)
    create_home(root)
    root = root.resolve()
    settings = config.load(root / "config.toml", {})
    options = options or settings.session_options()
    opened = HoldfastHome(root, clock=clock, options=HomeOptions.of(settings).living_by(options))
    store = opened.create_session_store()
    return AgentSessions(
        store,
        HomeSessionFiles(opened, clock),
        processes,
        options=options,
        clock=clock,
        random_hex=lambda: secrets.token_hex(3),
        on_alert=alerting(root, settings, clock, on_alert),
        guarding=Guarding(
            book=SqliteGuardBook(store),
            options=guards or settings.guard_options(),
            prices=prices or settings.prices(),
        ),
    )
