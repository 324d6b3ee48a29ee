"""Typed settings, from config.toml and the environment, checked as a whole before anything runs."""

from __future__ import annotations

from holdfast.config.environment import warnings
from holdfast.config.loading import load
from holdfast.config.settings import SessionSettings, Settings, SourceSettings
from holdfast.config.template import template

__all__ = ["SessionSettings", "Settings", "SourceSettings", "load", "template", "warnings"]
