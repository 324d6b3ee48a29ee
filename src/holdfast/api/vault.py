"""The vault of a home: second names of sessions, so that what their agent deletes is not lost."""

from __future__ import annotations

from holdfast.api.configure import SettingChange, plan_set
from holdfast.api.session_view import SessionView
from holdfast.errors import UsageError
from holdfast.homes.options import HomeOptions
from holdfast.model.argument_checks import checked
from holdfast.model.vault import Sweep, VaultFigures, VaultRefresh, VaultStatus
from holdfast.ports.runs import Progress
from holdfast.services.maintenance_steps import has_vault, refresh_vault
from holdfast.value import replace


@checked
class SessionVault(SessionView):
    """The vault of a home: its contents, and turning it on or off."""

    @property
    def vault(self) -> VaultFigures | None:
        """What the vault holds; None for a home whose sessions only Holdfast deletes."""
        vault = self._place.home.vault
        return None if vault is None else vault.figures()

    @property
    def sweep(self) -> Sweep | None:
        """What the agent of this home deletes by itself, according to its own settings; None if it
        deletes no sessions."""
        vault = self._place.home.vault
        return None if vault is None else vault.sweep()

    @property
    def vault_status(self) -> VaultStatus | None:
        """`vault` and `sweep` together; None for a home that cannot have a vault."""
        figures = self.vault
        return None if figures is None else VaultStatus(figures=figures, sweep=self.sweep)

    def refresh_vault(self, *, progress: Progress | None = None) -> VaultRefresh:
        """Take new and changed sessions into the vault, and notice those that their agent deleted.

        Nothing happens unless [vault] is on, or the vault still holds sessions. Maintenance does
        this by itself. No session is removed. Raises `BusyError` while another process changes the
        home.
        """
        home = self._place.home
        if not has_vault(home, self._place.settings):
            return VaultRefresh()
        command = self._place.command("refresh_vault")
        return refresh_vault(home, command=command, clock=self._place.clock, progress=progress)

    def plan_vault(self, on: bool) -> SettingChange:
        """What turning the vault on or off would change in config.toml."""
        if self._place.home.vault is None:
            raise UsageError(
                f"{self._place.root} has no vault: only you and Holdfast delete sessions there.",
                hint="`holdfast vault status` lists the homes that can have one.",
            )
        return plan_set(self._place, "vault.enabled", ["true" if on else "false"])

    def turn_vault(self, on: bool, *, progress: Progress | None = None) -> VaultRefresh:
        """Turn the vault on or off, and refresh it at once. When it is turned off, it releases the
        sessions that their agent still has, and keeps those that only the vault has."""
        self.plan_vault(on).change.apply()

        def turned(usual: HomeOptions) -> HomeOptions:
            return replace(usual, vault=replace(usual.vault, enabled=on))

        home = self._place.another(turned)
        command = self._place.command("turn_vault")
        return refresh_vault(home, command=command, clock=self._place.clock, progress=progress)
