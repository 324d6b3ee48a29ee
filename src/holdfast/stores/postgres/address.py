"""The address of a store in PostgreSQL: without secrets, in a form that libpq understands.

`postgresql://host/database`, or `postgresql://?service=name`. Everything else comes from the usual
sources of libpq: PGPASSWORD, ~/.pgpass, PGSERVICE, PGSSLMODE, parameters in the address. A password
in the address is refused: addresses are shown in messages and stored in files.
"""

from __future__ import annotations

import re
from typing import Any

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from holdfast.config.kinds import SECRET_PARAMETERS
from holdfast.errors import ConfigError

SCHEMES = ("postgresql://", "postgres://")
#: A machine that is switched off must be noticed within a minute, and its transaction ended.
_USUAL = {
    "connect_timeout": "10",
    "keepalives_idle": "15",
    "keepalives_interval": "5",
    "keepalives_count": "4",
    "tcp_user_timeout": "30000",
    "fallback_application_name": "holdfast",
}


def parameters(url: str) -> dict[str, Any]:
    """The address as parsed by libpq. Errors never repeat the address: it may contain a
    password."""
    if not url.startswith(SCHEMES):
        raise ConfigError(
            "The address of a store must begin with postgresql://.",
            hint="For example: postgresql://db.example.org/holdfast",
        )
    try:
        found = conninfo_to_dict(url)
    except ProgrammingError:
        raise ConfigError(
            "The address of the store cannot be read by libpq.",
            hint="For example: postgresql://db.example.org/holdfast",
        ) from None
    if not re.fullmatch(r"[\d,]*", str(found.get("port") or "")):
        raise ConfigError(
            "The port in the address of the store is not a number.",
            hint="For example: postgresql://db.example.org:5432/holdfast",
        )
    if any(found.get(each) for each in SECRET_PARAMETERS):
        raise ConfigError(
            "The address of the store has a password in it.",
            hint="Take it out, and put it into ~/.pgpass or PGPASSWORD.",
        )
    return found


def conninfo(url: str) -> str:
    """The connection string; what the address leaves open is set by us or by libpq."""
    found = parameters(url)
    return make_conninfo(**{**_USUAL, **found})


def shown(url: str) -> str:
    """The address for messages: host, port and database, nothing else."""
    found = parameters(url)
    if found.get("service") and not found.get("host"):
        return f"PostgreSQL (service {found['service']})"
    host = found.get("host") or found.get("hostaddr") or "this machine"
    port = f":{found['port']}" if found.get("port") else ""
    where = "this machine" if str(host).startswith("/") else f"{host}{port}"
    name = found.get("dbname")
    return f"PostgreSQL database {name} on {where}" if name else f"PostgreSQL on {where}"
