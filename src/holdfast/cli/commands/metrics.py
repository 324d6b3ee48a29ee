"""`holdfast metrics`: figures of the machine, for Prometheus."""

from __future__ import annotations

import json
import os
from importlib import resources
from typing import TYPE_CHECKING

import click

from holdfast.api.machine import Machine
from holdfast.api.metrics import FoundHomes, MetricsSource, home_at, homes_of, write_textfile
from holdfast.cli.frame import command
from holdfast.cli.invocation import Invocation
from holdfast.cli.output import note, print_json
from holdfast.cli.progress import until_signal
from holdfast.cli.streams import write
from holdfast.errors import UsageError, to_install_extra

if TYPE_CHECKING:
    from holdfast.api.metrics import MachineMetrics, MetricsSource
    from holdfast.metrics.server import Address

_RULES = "alerts.yml"
_DASHBOARD = "dashboard.json"


@command(
    example="holdfast metrics\n"
    "holdfast metrics --listen 127.0.0.1:9468\n"
    "holdfast metrics --textfile /var/lib/node_exporter/holdfast.prom\n"
    "holdfast metrics --rules > holdfast-alerts.yml"
)
@click.option(
    "--listen",
    metavar="ADDRESS",
    help="Serve them until Ctrl-C, at an address of this machine: 127.0.0.1:9468, or a port.",
)
@click.option(
    "--open-to-network", is_flag=True, help="With --listen, let other machines reach them."
)
@click.option(
    "--textfile",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Write them to a file, as a whole, for the textfile collector of node_exporter.",
)
@click.option("--rules", is_flag=True, help="Print alert rules for Prometheus.")
@click.option("--dashboard", is_flag=True, help="Print a dashboard for Grafana.")
def metrics(
    invocation: Invocation,
    /,
    *,
    listen: str | None,
    open_to_network: bool,
    textfile: str | None,
    rules: bool,
    dashboard: bool,
) -> int:
    """Print what the agents of this machine keep, as metrics for Prometheus.

    The figures are those of the last maintenance, or of the last look of `maintain --watch`:
    reading metrics scans nothing. They contain names of agents, but no ids, paths or titles.
    """
    if sum(map(bool, (listen, textfile, rules, dashboard))) > 1:
        raise UsageError(
            "--listen, --textfile, --rules and --dashboard cannot be combined.",
            hint="See `holdfast metrics --help`.",
        )
    if open_to_network and listen is None:
        raise UsageError(
            "--open-to-network works only with --listen.", hint="See `holdfast metrics --help`."
        )
    if rules or dashboard:
        return _print_file(invocation, _RULES if rules else _DASHBOARD)
    source = _source(invocation)
    if listen is not None:
        return _serve(invocation, source, listen, open_to_network=open_to_network)
    if invocation.json and textfile is None:
        print_json(source.read().to_json())
        return 0
    _check_installed()
    from holdfast.metrics.exposition import exposed

    known = source.read()
    text = exposed(known)
    if textfile is None:
        write(text.decode())
        _say_what_is_missing(known)
        return 0
    write_textfile(textfile, text)
    if invocation.json:
        print_json({"file": textfile, "bytes": len(text)})
    _say_what_is_missing(known)
    return 0


def _source(invocation: Invocation) -> MetricsSource:
    if invocation.chosen_home is not None:
        place = invocation.open_place(invocation.chosen_home)
        return MetricsSource(lambda: home_at(place), clock=invocation.clock)

    def find() -> FoundHomes:  # each time: a server runs for long, and new homes appear
        agents = None if invocation.agent is None else (invocation.agent,)
        with Machine(invocation.user_home, environ=os.environ, agents=agents) as machine:
            return homes_of(machine)

    return MetricsSource(find, clock=invocation.clock)


def _serve(
    invocation: Invocation, source: MetricsSource, listen: str, *, open_to_network: bool
) -> int:
    _check_installed()
    from holdfast.metrics.server import address, serve

    where = address(listen)
    if not where.is_loopback and not open_to_network:
        raise UsageError(
            f"Other machines could reach {where.host}, and anybody there could read how much your "
            "agents keep.",
            hint="Listen on 127.0.0.1, or add --open-to-network if that is what you want.",
        )
    started: list[Address] = []

    def tell(at: Address) -> None:
        started.append(at)
        note(f"Serving metrics at {at.url}. Ctrl-C ends it.")

    with until_signal() as stop:
        serve(source, where, stop, on_start=tell)
    if invocation.json:
        print_json({"url": started[0].url})
    return 0


def _print_file(invocation: Invocation, name: str) -> int:
    text = resources.files("holdfast.metrics").joinpath(name).read_text(encoding="utf-8")
    if invocation.json:
        shown = json.loads(text) if name == _DASHBOARD else text
        print_json({"file": name, "content": shown})
    else:
        write(text)
    return 0


def _say_what_is_missing(known: MachineMetrics) -> None:
    """Tell the user why figures are missing."""
    missing = sum(each.homes - each.looked_at for each in known.agents)
    if missing:
        homes = "1 home" if missing == 1 else f"{missing:,} homes"
        several = sum(each.homes for each in known.agents) > 1
        command = f"holdfast maintain{' --all-homes' if several else ''}"
        note(f"There are no figures for {homes} yet; maintenance records them: {command}")


def _check_installed() -> None:
    try:
        import prometheus_client  # noqa: F401 - an extra
    except ImportError as error:
        raise UsageError(
            f"`holdfast metrics` needs the package {error.name}, which isn't installed.",
            hint=to_install_extra("metrics"),
        ) from error
