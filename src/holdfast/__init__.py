"""Holdfast keeps what AI agents made and bounds what they leave behind.

The names below are the public surface. They are imported on first use, so that
`holdfast --version` does not pay for what it does not need.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from holdfast.errors import HoldfastError as HoldfastError
    from holdfast.homes.registry import open_home as open_home
    from holdfast.model.plan import Plan as Plan
    from holdfast.model.report import Report as Report
    from holdfast.policy.retention import plan as plan
    from holdfast.policy.rules import Policy as Policy
    from holdfast.services.apply import apply as apply
    from holdfast.services.undo import undo as undo

_HOMES_OF_NAMES = {
    "Caps": "holdfast.policy.rules",
    "HoldfastError": "holdfast.errors",
    "Inventory": "holdfast.model.inventory",
    "Limits": "holdfast.policy.rules",
    "Plan": "holdfast.model.plan",
    "Policy": "holdfast.policy.rules",
    "Report": "holdfast.model.report",
    "Rules": "holdfast.policy.rules",
    "apply": "holdfast.services.apply",
    "open_home": "holdfast.homes.registry",
    "plan": "holdfast.policy.retention",
    "undo": "holdfast.services.undo",
}

__all__ = [
    "Caps",
    "HoldfastError",
    "Inventory",
    "Limits",
    "Plan",
    "Policy",
    "Report",
    "Rules",
    "__version__",
    "apply",
    "open_home",
    "plan",
    "undo",
]


def __getattr__(name: str) -> Any:
    module = _HOMES_OF_NAMES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(module), name)
