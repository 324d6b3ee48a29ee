"""Kilo as it really is: OpenCode under another name."""

from __future__ import annotations

from collections.abc import Mapping

from tests.compat.agents.lab import OpenCode


class Kilo(OpenCode):
    name = "kilo"
    package = "@kilocode/cli"
    version = "7.7.7"
    command = "kilo"
    folder = ".local/share/kilo"
    patience = 400  # it starts slowly without a network

    def settings(self) -> Mapping[str, str]:
        [text] = super().settings().values()
        return {".config/kilo/kilo.json": text}

    def variables(self) -> Mapping[str, str]:
        own = {"KILO_DISABLE_AUTOUPDATE": "1", "KILO_DISABLE_MODELS_FETCH": "1"}
        return {**super().variables(), **own, "KILO_TELEMETRY_LEVEL": "off"}
