"""Parts of every request: its client, and the errors that a client may see."""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from a2a.server.context import ServerCallContext
from a2a.utils.errors import A2AError, InternalError
from a2a.utils.proto_utils import validate_proto_required_fields
from google.protobuf.message import Message as ProtobufMessage

from midturn.integrations.a2a.questions import EXTENSION, Client

_LOG = logging.getLogger(__name__)
_FAILED: Final = "The server cannot process this request. The error was logged."
PERSON: Final = "midturn_person"
"""Key of the call context's state with the person for whom a client answers."""


@contextmanager
def reported() -> Generator[None]:
    """Let only errors of the protocol pass. Other errors are logged, and the client gets a text
    without details.
    """
    try:
        yield
    except A2AError:
        raise
    except Exception as error:  # noqa: BLE001  the program's own code may raise anything
        _LOG.exception("a request failed: %r", error)
        raise InternalError(_FAILED) from None


def client_of(params: ProtobufMessage, context: ServerCallContext) -> Client:
    """Return the client of a request.

    Raises:
        InvalidParamsError: A required member of the request is missing.
    """
    validate_proto_required_fields(params)
    return Client.of(
        context.user.user_name,
        context.state.get(PERSON),
        has_extension=EXTENSION in context.requested_extensions,
    )
