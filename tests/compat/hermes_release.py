"""The releases of Hermes that homes are made with and checked by."""

from __future__ import annotations

from bench.baselines import HERMES as NEWEST
from bench.baselines import NotInstallableError, hermes_python

OLDEST = "0.13.0"

__all__ = ["NEWEST", "OLDEST", "NotInstallableError", "hermes_python"]
