"""Helpers for every request: find its client, and hide internal errors from the client."""

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
"""Key in the call context's state. Its value is the person for whom a client answers, or None."""


@contextmanager
def reported() -> Generator[None]:
    """Pass only protocol errors on to the client. Log other errors, and send the client a message
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
    """Return the client that sent a request.

    Raises:
        InvalidParamsError: A required member of the request is missing.
    """
    validate_proto_required_fields(params)
    return Client.of(
        context.user.user_name,
        context.state.get(PERSON),
        has_extension=EXTENSION in context.requested_extensions,
    )
