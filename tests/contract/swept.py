"""An agent that deletes sessions by itself, and a vault that is on: for tests of the vault."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from holdfast import Home
from holdfast.homes.vault.vault import Vault
from holdfast.model.report import Result
from holdfast.model.session import Session
from tests.contract.factory import Sample


def turn_on(sample: Sample, root: Path, more: str = "") -> None:
    state = root / sample.state
    state.mkdir(exist_ok=True)
    (state / "config.toml").write_text(f"[vault]\nenabled = true\n{more}")


@contextmanager
def as_the_agent() -> Iterator[None]:
    """What is removed inside is removed as an agent would: the vault is told nothing of it."""
    told = Vault.drop
    Vault.drop = lambda *_: None  # type: ignore[method-assign]
    try:
        yield
    finally:
        Vault.drop = told  # type: ignore[method-assign]


def sweep(home: Home, ids: Sequence[str]) -> None:
    """Delete sessions for good, as their agent does."""
    with as_the_agent():
        report = home.delete(ids, use_trash=False)
    gone = {each.result for each in report.outcomes if each.kind == "session"}
    assert gone == {Result.REMOVED}, report.outcomes


def idle(sample: Sample, home: Home) -> list[str]:
    """Sessions that nobody uses."""
    return [each.id for each in sample.plan(home).removals if each.kind == sample.kind]


def vaulted(home: Home) -> list[Session]:
    """Sessions that only the vault has, without those that lie in their files."""
    vault = home._place.home.vault
    held = set() if vault is None else {each.session for each in vault.items()}
    found = home.sessions.find(vaulted=True)
    assert held <= {each.id for each in found}
    return [each for each in found if each.id in held]
