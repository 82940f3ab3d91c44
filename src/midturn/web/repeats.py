"""An answer that is sent again, since its sender did not hear what became of it, is recorded once."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, TypeAlias

from starlette.responses import Response

from midturn.values.json_value import Json, canonical
from midturn.web.body import problem

Name: TypeAlias = tuple[str, str, str]
"""Whose answer it is, to which question, and the key."""
_KEPT: Final = 1_000
_DONE: Final = 200


class Repeats:
    """Remembers what became of the last answers that came with a key of their sender: who sends one again hears the same."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Name, tuple[bytes, asyncio.Task[Response]]] = OrderedDict()

    async def once(
        self, name: tuple[str, str, str], body: Mapping[str, Json], work: Callable[[], Coroutine[Any, Any, Response]]
    ) -> Response:
        """Do work once under a name, however often it is asked for; another body under the same name is refused."""
        written = canonical(body)
        kept, task = self._kept.get(name, (b"", None))
        if task is not None and kept != written:
            return problem(422, "key_reused", "This Idempotency-Key was sent with another answer. Nothing was recorded.", problems=[])
        if task is None:
            task = asyncio.create_task(work())
            self._kept[name] = written, task
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        response = await asyncio.shield(task)
        if response.status_code != _DONE:  # it may be sent again, and fit then
            self._kept.pop(name, None)
        return Response(response.body, response.status_code, media_type=response.media_type)
