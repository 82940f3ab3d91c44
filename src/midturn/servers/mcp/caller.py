"""Who calls: what a client says of itself on this request, and what is known of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from msgspec import Struct

from midturn.core.json_value import JsonObject
from midturn.core.loose_json import members
from midturn.foreign.clients import Client, call_id_of, client_of, is_alone, session_of
from midturn.servers.mcp.task import TASKS


class Caller(Struct, frozen=True, kw_only=True):
    """A client, on one request.

    Args:
        client: What is known of it.
        alone: Nobody sits at its terminal.
        session: Its own name for its session.
        call_id: Its own id for this call.
        shows_forms: It says that it can show a form.
        pushes: A form is sent to it while its call waits; otherwise the call returns the form, and comes again.
        has_tasks: It says that it can leave a call to run on.
    """

    client: Client
    alone: bool
    session: str
    call_id: str
    shows_forms: bool
    pushes: bool
    has_tasks: bool

    @property
    def keeps_dialog(self) -> bool:
        """Whether it may have a dialog open that only a person there closes: one that a call has returned, and nobody can withdraw."""
        return self.shows_forms and not self.pushes and not self.alone and bool(self.client.kinds)

    @classmethod
    def of(cls, context: ServerRequestContext[Any], environment: Mapping[str, str]) -> Caller:
        """Read who calls."""
        session = context.session
        info = session.client_params.client_info if session.client_params else None
        capabilities = session.client_capabilities
        elicitation = capabilities.elicitation if capabilities else None
        client = client_of(info.name if info else "")
        meta: JsonObject = members(context.meta)
        modern = context.protocol_version in MODERN_PROTOCOL_VERSIONS
        return cls(
            client=client,
            alone=is_alone(client, environment, meta),
            session=session_of(client, environment, meta),
            call_id=call_id_of(meta),
            shows_forms=elicitation is not None and (elicitation.form is not None or elicitation.url is None),
            pushes=not modern,
            has_tasks=modern and TASKS in (capabilities.extensions or {} if capabilities else {}),
        )
