"""What was decided about running a call, delivering a result, or sending a form."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from midturn.core.events.base import Event
from midturn.core.events.inquiry import AnsweredBy
from midturn.core.json_value import Json


class Approval(Event, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="approval"):
    """`kind` is `run`, `deliver` or `review`; `state` is `waiting`, `approved`, `skipped` or `edited`.

    `arguments_sha256` binds an approved run to its exact bytes; `edited` carries the new `arguments` or `content`; a waiting delivery
    carries the `content` and `is_error` that it is about.
    """

    id: str
    call: str
    kind: str
    state: str
    reason: str | None = None
    remembered: bool = False
    answered_by: AnsweredBy | None = None
    arguments_sha256: str | None = None
    arguments: Json | UnsetType = UNSET
    content: str | None = None
    is_error: bool | None = None
