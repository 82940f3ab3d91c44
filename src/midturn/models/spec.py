"""Which model, where, and with which key: everything that a connection needs to know."""

from __future__ import annotations

from msgspec import Struct

from midturn.core.json_value import JsonObject
from midturn.core.secret import SecretValue
from midturn.models.profiles import Family


class ModelSpec(Struct, frozen=True, kw_only=True):
    """One model of one provider.

    `id` is what the user writes (`<provider>/<model>`), `family` the wire that is spoken. Without `base_url` it is the provider's usual
    address; without `key` none is sent. `key_origin` says where the key comes from, `overrides` are the configured `profile`.
    """

    id: str
    provider: str
    model: str
    family: Family
    base_url: str | None = None
    key: SecretValue | None = None
    key_origin: str = ""
    overrides: JsonObject = {}
