"""The screens of the page, one module each. A new one is a line here."""

from __future__ import annotations

from holdfast.web.screens import overview, sessions

SCREENS = tuple(module.SCREEN for module in (overview, sessions))
