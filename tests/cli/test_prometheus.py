"""A real Prometheus scrapes a real `holdfast metrics --listen`, and its rules see the metrics."""

from __future__ import annotations

import json
import re
import shutil
import signal
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast.model.figures import HomeFigures
from holdfast.policy.rules import DAY
from holdfast.stores.figures_file import FiguresFile
from tests.cli.machine import Machine
from tests.cli.runner import COMMAND, PATIENCE

pytestmark = [
    pytest.mark.deep,
    pytest.mark.skipif(
        shutil.which("prometheus") is None,
        reason="prometheus is not installed (Debian: prometheus)",
    ),
]
GB = 10**9


def eventually(what: Callable[[], Any], why: str) -> Any:
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        if found := what():
            return found
        time.sleep(0.2)
    raise AssertionError(why)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextmanager
def running(words: list[str], log: Path, **how: Any) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as out, subprocess.Popen(words, stdout=out, stderr=out, **how) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE) == 0, log.read_text()


def test_prometheus_scrapes_and_its_rules_fire(machine: Machine, tmp_path: Path) -> None:
    machine.ok("config", "init")
    kept = FiguresFile(machine.home)
    now = time.time()
    for day in range(5, 0, -1):
        kept.add(
            HomeFigures(
                at=now - day * DAY,
                bytes=(10 - day) * GB,
                session_bytes=(10 - day) * GB,
                disk_free=3 * GB,
                disk_size=100 * GB,
                maintained_at=now - 5 * DAY,
                maintenance_ok=False,
            )
        )
    (tmp_path / "alerts.yml").write_text(
        # Nobody waits an hour in a test.
        re.sub(r"for: \w+", "for: 0s", machine.ok("metrics", "--rules").out)
    )
    command = [*COMMAND, "metrics", "--listen", "127.0.0.1:0"]
    log = tmp_path / "metrics.log"
    with running(command, log, env=machine.env()):
        served = eventually(
            lambda: re.search(r"http://127\.0\.0\.1:(\d+)/metrics", log.read_text()), "no server"
        )
        (tmp_path / "prometheus.yml").write_text(
            "global: {scrape_interval: 1s, evaluation_interval: 1s}\n"
            "rule_files: [alerts.yml]\n"
            "scrape_configs:\n"
            "  - job_name: holdfast\n"
            f"    static_configs: [{{targets: ['127.0.0.1:{served[1]}']}}]\n"
        )
        port = free_port()
        prometheus = [
            "prometheus",
            f"--config.file={tmp_path / 'prometheus.yml'}",
            f"--storage.tsdb.path={tmp_path / 'tsdb'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ]
        with running(prometheus, tmp_path / "prometheus.log"):
            api = f"http://127.0.0.1:{port}/api/v1"

            def asked(path: str) -> Any:
                try:
                    with urllib.request.urlopen(f"{api}/{path}", timeout=10) as answer:  # noqa: S310 - loopback
                        return json.load(answer)["data"]
                except OSError:
                    return None

            def value(expression: str) -> float | None:
                said = asked(f"query?query={urllib.parse.quote(expression)}")
                return float(said["result"][0]["value"][1]) if said and said["result"] else None

            assert eventually(lambda: value("up"), "never scraped") == 1
            query = 'holdfast_home_bytes{agent="holdfast",kind="sessions"}'
            assert eventually(lambda: value(query), "no bytes") == 9 * GB
            assert value("holdfast_growth_bytes_per_day") == pytest.approx(GB, rel=0.01)
            assert value("holdfast_disk_full_seconds") == pytest.approx(3 * DAY, rel=0.01)
            wanted = {
                "HoldfastDiskFullSoon",
                "HoldfastMaintenanceFailed",
                "HoldfastMaintenanceOverdue",
            }

            def firing() -> set[str]:
                said = asked("alerts") or {"alerts": []}
                return {
                    each["labels"]["alertname"]
                    for each in said["alerts"]
                    if each["state"] == "firing"
                }

            eventually(lambda: firing() >= wanted, f"only {firing()}")
            # A dashboard asks such questions: each of them is one that Prometheus can answer.
            board = json.loads(machine.ok("metrics", "--dashboard").out)
            for panel in board["panels"]:
                for target in panel["targets"]:
                    expression = target["expr"].replace("$agent", ".*")
                    assert asked(f"query?query={urllib.parse.quote(expression)}"), expression
            assert not firing() & {"HoldfastGone", "HoldfastHookFailures"}
