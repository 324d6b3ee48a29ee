"""Metrics over HTTP, for a Prometheus that scrapes."""

from __future__ import annotations

import ipaddress
import itertools
import logging
from collections.abc import Callable
from typing import Protocol

from prometheus_client import start_http_server

from holdfast.api.metrics import MetricsSource
from holdfast.errors import HoldfastError, UsageError
from holdfast.metrics.exposition import registry_of
from holdfast.value import dataclass

#: Seconds between two reads of what changed, and the number of reads between two searches for new
#: homes. A scrape does neither.
_READ_EVERY = 5.0
_FIND_AFTER = 12
_HIGHEST_PORT = 65_535
_LOOPBACK = "127.0.0.1"
_log = logging.getLogger("holdfast")


class Stop(Protocol):
    def stop_requested(self) -> bool: ...

    def sleep(self, seconds: float) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        try:
            return self.host == "localhost" or ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}/metrics"


def address(text: str) -> Address:
    """Parse `127.0.0.1:9468`, `[::1]:9468`, or a port alone, which means the loopback interface."""
    host, _, port = text.rpartition(":")
    inner = host.removeprefix("[").removesuffix("]")
    if (
        not port.isascii()
        or not port.isdecimal()
        or int(port) > _HIGHEST_PORT
        or (":" in inner and not host.startswith("["))
    ):
        raise UsageError(
            f"{text!r} is not an address to listen on.",
            hint="Write an address and a port: 127.0.0.1:9468, or [::1]:9468.",
        )
    return Address(host=inner or _LOOPBACK, port=int(port))


def serve(
    source: MetricsSource, where: Address, stop: Stop, *, on_start: Callable[[Address], None]
) -> None:
    """Answer scrapes until `stop` is requested. Raises `UsageError` if the address cannot be
    bound."""
    source.refresh()
    try:
        server, thread = start_http_server(
            where.port, addr=where.host, registry=registry_of(source.latest)
        )
    except OSError as error:
        raise UsageError(
            f"Cannot listen on {where.host} port {where.port}: {error.strerror or error}",
            hint="Another program may have the port: choose another one, or 0 for any.",
        ) from error
    try:
        on_start(Address(host=where.host, port=server.server_port))
        for number in itertools.count(1):
            stop.sleep(_READ_EVERY)
            if stop.stop_requested():
                break
            _look(source, for_homes=number % _FIND_AFTER == 0)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _look(source: MetricsSource, *, for_homes: bool) -> None:
    """Refresh the figures. If they cannot be read now, the old ones are served until they can; a
    metric shows their age."""
    try:
        if for_homes:
            source.find_homes()
        source.refresh()
    except (HoldfastError, OSError) as error:
        _log.warning("the figures cannot be read: %s", error)
