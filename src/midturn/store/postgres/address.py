"""Where a store in PostgreSQL is: the address of the database, and the schema in it."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, urlencode, urlsplit

from msgspec import Struct

from midturn.errors import ConfigError

_PARAMETER = "midturn_schema"
_DIRECT = "midturn_direct"
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,39}")
"""Names of channels are made of it, and those have at most 63 characters."""


class DatabaseAddress(Struct, frozen=True):
    """`url` is what the driver takes, `direct` what leads around a pooler; `shown` is for messages: it has no password."""

    url: str
    direct: str
    shown: str
    schema: str = "midturn"


def parse_database_address(url: str) -> DatabaseAddress:
    """Read `postgresql://…?midturn_schema=NAME&midturn_direct=URL`.

    Without the first, the schema is `midturn`; without the second, nothing stands between us and the server: no pooler in transaction mode.

    Raises:
        ConfigError: It is no address, or the name of the schema is not allowed.
    """
    try:
        parts = urlsplit(url)
    except ValueError as error:  # it says what, and nothing of the address, which may hold a password
        raise ConfigError(
            f"The store's address cannot be read: {error}. It is `postgresql://[USER[:PASSWORD]@]HOST[:PORT]/DATABASE`."
        ) from None
    query = parse_qsl(parts.query, keep_blank_values=True)
    schema = dict(query).get(_PARAMETER, "midturn")
    if not _SCHEMA.fullmatch(schema):
        allowed = "1 to 40 of `a-z 0-9 _`, and not a digit first"
        raise ConfigError(f"`{_PARAMETER}={schema}` in the store's address names no schema: a name is {allowed}.")
    rest = urlencode([(key, value) for key, value in query if key not in {_PARAMETER, _DIRECT}])
    plain = url.partition("?")[0] + (f"?{rest}" if rest else "")
    host = parts.netloc.rsplit("@", 1)[-1]
    return DatabaseAddress(plain, dict(query).get(_DIRECT, plain), f"{parts.scheme}://{host}{parts.path}", schema)
