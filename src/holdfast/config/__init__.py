"""Typed settings, from config.toml and the environment, checked as a whole before anything runs."""

from __future__ import annotations

from holdfast.config.reader import load, warnings
from holdfast.config.settings import Settings, checked
from holdfast.config.template import template

__all__ = ["Settings", "checked", "load", "template", "warnings"]
