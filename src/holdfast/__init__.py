"""Holdfast: sessions, checkpoints and guards for AI agents, bounded and never lost silently.

Start with `holdfast.open`. The names that a program needs in its first hour are here; the stub
`__init__.pyi` lists them for type checkers, and for us: a name is imported when it is first used,
so importing the package costs next to nothing. Everything else is in the submodule that holds it:
`holdfast.api`, `holdfast.model`, `holdfast.policy`, `holdfast.errors`.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as in `typing`, which is slow to import
if TYPE_CHECKING:
    from typing import Any

__version__ = "0.1.0"


def _table() -> dict[str, tuple[str, str]]:
    """The public names, each with its module and its name there."""
    import ast
    from pathlib import Path

    stub = ast.parse(Path(f"{__file__}i").read_text(encoding="utf-8"))
    return {
        each.asname or each.name: (str(line.module), each.name)
        for line in stub.body
        if isinstance(line, ast.ImportFrom)
        for each in line.names
    }


def __getattr__(name: str) -> Any:
    if name == "__all__":
        public = [name for name, (module, _) in _table().items() if module != __name__]
        return [*sorted(public), "__version__"]
    found = None if name.startswith("_") else _table().get(name)
    if found is None:
        raise _no_such(name)
    from importlib import import_module

    module, its_name = found
    if module == __name__:  # a submodule, which the import itself makes an attribute
        return import_module(f"{__name__}.{its_name}")
    value = globals()[name] = getattr(import_module(module), its_name)
    return value


def _no_such(name: str) -> AttributeError:
    """In an `except` clause this error replaces the one that is handled, so it says where the
    exception is that the caller meant."""
    from importlib import import_module

    where = ""
    if name.endswith("Error") and hasattr(import_module(f"{__name__}.errors"), name):
        where = f"; it is in {__name__}.errors"
    said = f"module {__name__!r} has no attribute {name!r}{where}"
    return AttributeError(said, name=name, obj=import_module(__name__))


def __dir__() -> list[str]:
    return sorted([*_table(), "__version__"])
