"""What is sent to a model and what comes back, for reading: in the log, and by `--dry-run`. No key is part of a request."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from typing import cast

import msgspec

from midturn.core.events import Event
from midturn.core.exchange import Finished, ModelEvent, ModelRequest
from midturn.core.json_value import Json
from midturn.errors import ModelError
from midturn.models.wrapper import Wrapper

LOG = logging.getLogger("midturn.models")
_OURS_ALONE = frozenset({"timestamp", "event_id", "more", "call"})


class LoggedModel(Wrapper):
    """A model whose requests and responses are written to the log."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Yield what the model yields, and note it when it is complete.

        Raises:
            ModelError: As the model does.
        """
        LOG.debug("request %s", _one_line(request_json(self.name, request)))
        async with self.asked(request) as events:
            try:
                async for event in events:
                    if isinstance(event, Finished):
                        LOG.debug("response %s", _one_line(msgspec.to_builtins(event)))
                    yield event
            except ModelError as error:
                LOG.debug("failure %s", _one_line({"status": error.status, "message": str(error)}))
                raise


def request_json(model: str | None, request: ModelRequest) -> dict[str, Json]:
    """Return a request as it is shown: `model`, `system`, `messages`, `tools`, `tool_choice`, `parameters`; `schema` where there is one."""
    shown: dict[str, Json] = {
        "model": model,
        "system": request.system,
        "messages": [message_json(event) for event in request.events],
        "tools": [cast("Json", msgspec.to_builtins(tool)) for tool in request.tools],
        "tool_choice": request.tool_choice,
        "parameters": request.parameters,
    }
    return shown if request.schema is None else {**shown, "schema": request.schema}


def message_json(event: Event) -> Json:
    """Return an event without what only the stream needs."""
    return {key: value for key, value in event.to_json().items() if key not in _OURS_ALONE}


def _one_line(value: Json) -> str:
    import json  # only a log that is this detailed needs it

    return json.dumps(value)
