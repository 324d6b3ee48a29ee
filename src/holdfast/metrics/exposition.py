"""Metrics in the Prometheus format. Labels are names of agents and kinds, never ids or paths."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from holdfast import __version__
from holdfast.api.metrics import AgentMetrics, MachineMetrics
from holdfast.model.figures import HomeFigures, Tally

_DAY = 86_400.0
_KINDS = {
    "sessions": "session_bytes",
    "checkpoints": "checkpoint_bytes",
    "trash": "trash_bytes",
    "vault": "vault_bytes",
    "archive": "archive_bytes",
    "leftovers": "leftover_bytes",
    "other": "other_bytes",
}
_COUNTED = {
    Tally.REFUSALS: ("holdfast_guard_refusals", "Tool and model calls that a guard refused."),
    Tally.HOOK_FAILURES: ("holdfast_hook_failures", "Hook calls that failed."),
    Tally.ALARMS: ("holdfast_growth_alarms", "Alarms about files and folders that grew too fast."),
}


class _Collector(Collector):
    """Called at each scrape."""

    def __init__(self, known: Callable[[], MachineMetrics]) -> None:
        self._known = known

    def collect(self) -> Iterator[Metric]:
        yield from families(self._known())


def registry_of(known: Callable[[], MachineMetrics]) -> CollectorRegistry:
    """A separate registry: the default one has metrics of this process, which say nothing about the
    machine."""
    registry = CollectorRegistry()
    registry.register(_Collector(known))
    return registry


def exposed(known: MachineMetrics) -> bytes:
    """All metrics as text."""
    return generate_latest(registry_of(lambda: known))


def families(known: MachineMetrics) -> Iterator[Metric]:
    yield InfoMetricFamily("holdfast", "The version of Holdfast.", {"version": __version__})
    yield _by_agent(
        "holdfast_homes",
        "Homes of an agent.",
        ((each.agent, each.homes) for each in known.agents),
    )
    yield _by_agent(
        "holdfast_homes_looked_at",
        "Homes of an agent with figures, which maintenance and the watcher record.",
        ((each.agent, each.looked_at) for each in known.agents),
    )
    yield _alone("holdfast_homes_unreadable", "Homes that cannot be read.", known.unreadable)
    seen = [(each, each.growth.latest) for each in known.agents if each.growth.latest is not None]
    yield _bytes_by_kind(seen)
    yield from _of_the_last_look(seen, known.at)
    yield _by_agent(
        "holdfast_growth_bytes_per_day",
        "How fast the homes of an agent grow, measured over up to 28 days.",
        (
            (each.agent, each.growth.bytes_per_day)
            for each in known.agents
            if each.growth.bytes_per_day is not None
        ),
    )
    yield _by_agent(
        "holdfast_growth_alarms_active",
        "Files and folders of an agent that are growing too fast right now.",
        ((each.agent, each.alarms) for each in known.agents),
    )
    yield from _of_the_disk(known)
    for what, (name, text) in _COUNTED.items():
        # For Prometheus, a counter that first appears with 1 has not increased: all start at 0.
        counts = {each.agent: 0 for each in known.agents}
        counts |= {each.agent: each.count for each in known.counts if each.what is what}
        yield _by_agent(name, text, counts.items(), CounterMetricFamily)


def _bytes_by_kind(seen: Iterable[tuple[AgentMetrics, HomeFigures]]) -> Metric:
    family = GaugeMetricFamily(
        "holdfast_home_bytes",
        "Disk space that the homes of an agent use, by kind.",
        labels=("agent", "kind"),
    )
    for each, figures in seen:
        for kind, field in _KINDS.items():
            family.add_metric((each.agent, kind), getattr(figures, field))
    return family


def _of_the_last_look(
    found: Sequence[tuple[AgentMetrics, HomeFigures]], now: float
) -> Iterator[Metric]:
    yield _by_agent(
        "holdfast_sessions",
        "Sessions in the homes of an agent.",
        ((each.agent, figures.sessions) for each, figures in found),
    )
    yield _by_agent(
        "holdfast_reclaimable_bytes",
        "Disk space that the policy would free now.",
        ((each.agent, figures.reclaimable_bytes) for each, figures in found),
    )

    yield _by_agent(
        "holdfast_figures_timestamp_seconds",
        "When the figures were recorded; with several homes, the oldest.",
        ((each.agent, figures.at) for each, figures in found),
    )
    yield _by_agent(
        "holdfast_figures_age_seconds",
        "How old the figures are; with several homes, the oldest.",
        ((each.agent, max(0.0, now - figures.at)) for each, figures in found),
    )
    done = [(each.agent, f.maintained_at) for each, f in found if f.maintained_at is not None]
    yield _by_agent(
        "holdfast_maintenance_timestamp_seconds",
        "When maintenance last finished; with several homes, the oldest.",
        done,
    )
    yield _by_agent(
        "holdfast_maintenance_age_seconds",
        "How long ago maintenance last finished; with several homes, the oldest.",
        ((agent, max(0.0, now - at)) for agent, at in done),
    )
    yield _by_agent(
        "holdfast_maintenance_success",
        "1 if the last maintenance of every home of an agent succeeded, else 0.",
        (
            (each.agent, int(figures.maintenance_ok))
            for each, figures in found
            if figures.maintenance_ok is not None
        ),
    )


def _of_the_disk(known: MachineMetrics) -> Iterator[Metric]:
    """Metrics of the disk that will be full first."""
    free, full = known.together.disk_free, known.together.full_in_days
    if free is not None:
        yield _alone(
            "holdfast_disk_free_bytes",
            "Free space on the disk of the homes; with several, on the one that fills up first.",
            free,
        )
    if full is not None:
        yield _alone(
            "holdfast_disk_full_seconds",
            "Time until that disk is full, if the homes keep growing at this rate.",
            full * _DAY,
        )


def _alone(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)


def _by_agent(
    name: str,
    text: str,
    values: Iterable[tuple[str, float]],
    kind: type[GaugeMetricFamily | CounterMetricFamily] = GaugeMetricFamily,
) -> Metric:
    family = kind(name, text, labels=("agent",))
    for agent, value in values:
        family.add_metric((agent,), value)
    return family
