"""Maintenance of a home, ready to use: for hosts that embed it, and for the command."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from holdfast.config import Stamp, stamp_of
from holdfast.config.reader import load
from holdfast.config.settings import Settings
from holdfast.errors import HoldfastError
from holdfast.homes.options import HomeOptions
from holdfast.homes.registry import check_folder, config_file, find_home, open_home
from holdfast.model.arguments import StrPath, checked_clock, flag
from holdfast.model.guard import Alert
from holdfast.model.maintenance import MaintenanceResult
from holdfast.model.plan import Shortfall
from holdfast.ports.home import Home
from holdfast.ports.runs import Clock, Progress
from holdfast.ports.upkeep import Notifier
from holdfast.services import maintain as service
from holdfast.services.events import session_event, tell_shortfalls
from holdfast.stores.notify import NotifyProgram

_log = logging.getLogger("holdfast")


def maintain(
    home: StrPath,
    *,
    force: bool = False,
    clock: Clock = time.time,  # noqa: TID251 - the default for a host without its own clock
    progress: Progress | None = None,
) -> MaintenanceResult:
    """Run maintenance if it is due: the one call for hosts, for example at startup.

    `home` is a path or the name of an agent, as in `holdfast.open`. However many processes call it,
    it runs at most once per `min_interval_hours`. The home's config.toml decides what it does; no
    environment variable outranks it. It never raises: any error is logged on the logger "holdfast"
    and returned in the result.
    """
    steady = checked_clock(clock)
    started_at = 0.0
    try:
        started_at = steady()
        flag(force, "`force`")
        root = check_folder(find_home(home))
        settings = load(config_file(root), {})
        opened = open_home(root, clock=steady, options=HomeOptions.of(settings))
    except Exception as error:  # noqa: BLE001 - law 7: harmless in the host
        return service.failed(str(home), started_at, steady, error)
    result = maintain_opened(opened, settings, clock=steady, force=force, progress=progress)
    close_home(opened)
    return result


class ConfigWatch:
    """Notices edits to the configuration of a home. Never raises."""

    def __init__(self, home: StrPath) -> None:
        self._home = home
        self._seen = self._look()

    def changed(self) -> bool:
        """True if the file was replaced, or its time or size changed, since the last call."""
        before, self._seen = self._seen, self._look()
        return self._seen != before

    def _look(self) -> Stamp | None:
        try:
            return stamp_of(config_file(find_home(self._home)))
        except (OSError, ValueError, TypeError, HoldfastError):
            return None


def maintain_opened(
    home: Home,
    settings: Settings,
    *,
    clock: Clock,
    force: bool = False,
    early: float = 0.0,
    progress: Progress | None = None,
) -> MaintenanceResult:
    """The same for a home that is already open."""
    return service.maintain(
        home,
        settings,
        gate=home.maintenance_gate,
        clock=clock,
        force=force,
        early=early,
        progress=progress,
        notifier=notifier(home.root, settings),
    )


def tell_unreached(
    home: Home, settings: Settings, shortfalls: Sequence[Shortfall], *, now: float
) -> None:
    """Report caps that a manual run could not reach, as maintenance would. Never raises."""
    tell_shortfalls(
        str(home.root),
        shortfalls,
        gate=home.maintenance_gate,
        notifier=notifier(home.root, settings),
        now=now,
        interval=settings.maintenance.interval,
    )


def notifier(root: Path, settings: Settings) -> Notifier | None:
    """The program that the configuration names for notifications."""
    program = settings.notify.program
    if not program:
        return None
    return NotifyProgram(program, folder=root, timeout=settings.notify.timeout_seconds)


def alerting(
    root: Path,
    settings: Settings,
    clock: Clock,
    on_alert: Callable[[Alert], None] | None,
) -> Callable[[Alert], None] | None:
    """The receivers of alerts while messages are appended: the host, and the configured program.

    The program runs in its own thread: neither an append nor a host that exits may wait for it.
    """
    listener = notifier(root, settings)
    if listener is None:
        return on_alert

    def tell(alert: Alert) -> None:
        event = session_event(str(root), clock(), alert)
        threading.Thread(
            target=listener.tell, args=(event,), name="holdfast-notify", daemon=True
        ).start()
        if on_alert is not None:
            on_alert(alert)

    return tell


def close_home(home: Home) -> None:
    """Close what a home has open. A failure here does not undo earlier work, so it is only
    logged."""
    try:
        home.close()
    except Exception as error:  # noqa: BLE001 - law 7: harmless in the host
        _log.warning("closing %s failed: %s", home.root, error)
