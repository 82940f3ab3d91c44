"""Bridge to an opencode server. The server's open requests are also shown in midturn's inbox, and
the first answer wins.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable, Mapping
from http.client import HTTPException
from typing import Any, Protocol
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

from midturn.errors import MidturnError
from midturn.integrations.hooks import model_messages
from midturn.integrations.hooks.claude import questions_of
from midturn.integrations.hooks.external_call import ExternalCall, QuotaExceeded
from midturn.integrations.hooks.external_calls import ExternalCallService
from midturn.integrations.hooks.hook_agent import PutForm, Unaskable
from midturn.integrations.hooks.model_messages import (
    Approved,
    Decided,
    DecidedElsewhere,
    FormCompleted,
    RepliedTo,
)
from midturn.ports import Clock
from midturn.question.json_value import Json, JsonObject, items, members, objects, text
from midturn.routing.messages import user_added

NAME = "opencode"
_PORT = 4096
_POLL_INTERVAL = 0.3  # seconds between polls of the server
_QUOTA_RETRY_DELAY = 2.0  # seconds until a request that exceeded the quota is tried again
_TIMEOUT = 20.0
_NOT_FOUND = 404


class OpencodeRefused(MidturnError):  # noqa: N818  named for the event
    """The server refuses requests or is not opencode. The message tells the user what to do."""


class OpencodeUnavailable(OpencodeRefused):
    """The server cannot be reached. It may be started later."""


class Opencode(Protocol):
    """An opencode server."""

    async def get(self, path: str) -> Json:
        """Return the JSON value at a path."""
        ...

    async def post(self, path: str, body: JsonObject) -> bool:
        """Send an answer. Return False if the request is no longer open."""
        ...


class OpencodeServer:
    """The opencode server at an address. `password` is the value of `OPENCODE_SERVER_PASSWORD` on
    the server, or empty.
    """

    def __init__(self, url: str, password: str = "") -> None:
        self._url = url.rstrip("/")
        login = base64.b64encode(f"opencode:{password}".encode()).decode()
        self._headers = {
            "content-type": "application/json",
            **({"authorization": f"Basic {login}"} if password else {}),
        }
        self._opener = build_opener(ProxyHandler({}), _NoRedirects())

    async def get(self, path: str) -> Json:
        """Return the JSON value at a path.

        Raises:
            OpencodeUnavailable: The server cannot be reached.
            OpencodeRefused: The server refuses the request, or the response is not JSON.
        """
        return await asyncio.to_thread(self._forward_questions, path, None)

    async def post(self, path: str, body: JsonObject) -> bool:
        """Send an answer. Return False if the request is no longer open.

        Raises:
            OpencodeUnavailable: The server cannot be reached.
            OpencodeRefused: The server refuses the request.
        """
        try:
            await asyncio.to_thread(self._forward_questions, path, body)
        except _NotFound:
            return False
        return True

    def _forward_questions(self, path: str, body: JsonObject | None) -> Json:
        data = None if body is None else json.dumps(body).encode()
        request = Request(f"{self._url}{path}", data=data, headers=self._headers)  # noqa: S310  the address is the user's own
        try:
            with self._opener.open(request, timeout=_TIMEOUT) as answered:
                return json.loads(answered.read() or b"null")
        except HTTPError as error:
            if error.code == _NOT_FOUND:
                raise _NotFound from error
            hint = " Set OPENCODE_SERVER_PASSWORD to its password." if error.code == 401 else ""  # noqa: PLR2004
            raise OpencodeRefused(
                f"The opencode server at {self._url} refused a request: {error}.{hint}"
            ) from error
        except (OSError, HTTPException) as error:
            raise OpencodeUnavailable(
                f"No opencode server answers at {self._url} ({_reason(error)}). {self._advice()}"
            ) from error
        except ValueError as error:
            raise OpencodeRefused(
                f"The server at {self._url} is not an opencode server. {self._advice()}"
            ) from error

    def _advice(self) -> str:
        port = urlsplit(self._url).port or _PORT
        return (
            f"Start it with `opencode --port {port}` (or `opencode serve --port {port}`). Set"
            " `--url` for another address."
        )


def _reason(error: Exception) -> str:
    reason = error.reason if isinstance(error, URLError) else error
    return (
        (reason.strerror if isinstance(reason, OSError) else None)
        or str(reason)
        or type(reason).__name__
    )


class _NotFound(Exception):  # noqa: N818  named for the event
    """The path does not exist."""


class _NoRedirects(HTTPRedirectHandler):
    """Does not follow redirects, because the requests contain the server's password."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Return None, so that no redirect is followed."""


class Bridge:
    """Forwards the requests of an opencode server to the inbox.

    Args:
        server: The server.
        calls: Returns the service for a session of the server.
        clock: Clock for the poll interval.
        tell: Shows a message to the user who started the bridge.
    """

    def __init__(
        self,
        server: Opencode,
        calls: Callable[[str], ExternalCallService],
        clock: Clock,
        tell: Callable[[str], None],
    ) -> None:
        self._tell = tell
        self._server = server
        self._calls_of = calls
        self._clock = clock
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._delivering: set[asyncio.Task[None] | None] = set()
        self._is_unavailable = False

    async def run(self) -> None:
        """Forward requests until this task is cancelled. If the server cannot be reached, wait
        until it is available.

        Raises:
            OpencodeRefused: The server refuses requests or is not opencode. The questions stay
                open.
        """
        try:
            while True:
                await self._poll_safely()
                await self._clock.sleep(_POLL_INTERVAL)
        finally:
            await self._stop_waiting()

    async def _poll_safely(self) -> None:
        """Poll once. If the server cannot be reached, stop waiting for answers to its requests,
        because their ids are invalid after a restart.
        """
        try:
            await self._poll()
        except OpencodeUnavailable as error:
            if not self._is_unavailable:
                self._tell(
                    f"{error} Waiting for the"
                    f" server{'; its questions stay open' if self._tasks else ''}."
                )
            self._is_unavailable = True
            await self._stop_waiting()
            return
        if self._is_unavailable:
            self._tell("The opencode server is available again.")
        self._is_unavailable = False

    async def _stop_waiting(self) -> None:
        """Stop waiting for answers, but finish deliveries in progress."""
        tasks = list(self._tasks.values())
        for task in tasks:
            if task not in self._delivering:
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._tasks.clear()

    async def _poll(self) -> None:
        """Forward new requests, and stop waiting for requests that were decided in opencode."""
        waiting: dict[str, tuple[str, JsonObject]] = {}
        for kind in ("permission", "question"):
            waiting |= {
                text(each.get("id")): (kind, each)
                for each in objects(await self._server.get(f"/{kind}"))
            }
        for id, task in list(self._tasks.items()):  # noqa: A001  the wire's word
            if task.done():
                task.result()
            if id not in waiting and task not in self._delivering:
                del self._tasks[id]
                task.cancel()
        for id, (kind, request) in waiting.items():  # noqa: A001
            if id and id not in self._tasks:
                self._tasks[id] = asyncio.create_task(self._forward(kind, id, request))

    async def _forward(self, kind: str, id: str, asked: JsonObject) -> None:
        """Forward one request. If it exceeds the quota, retry until the quota allows it. Until
        then, only opencode's own prompt shows the request.
        """
        is_reported = False
        while True:
            try:
                return await (
                    self._forward_permission(id, asked)
                    if kind == "permission"
                    else self._forward_questions(id, asked)
                )
            except QuotaExceeded as full:
                if not is_reported:
                    self._tell(f"{full} You can answer it at opencode's own prompt.")
                is_reported = True
                await self._clock.sleep(_QUOTA_RETRY_DELAY)

    async def _forward_permission(self, id: str, asked: JsonObject) -> None:
        calls = self._calls_of(text(asked.get("sessionID")))
        patterns: Json = [text(pattern) for pattern in items(asked.get("patterns"))]
        arguments: JsonObject = {"patterns": patterns, **members(asked.get("metadata"))}
        kept = [text(pattern) for pattern in items(asked.get("always"))]
        always = [f"run {', '.join(kept)} without asking, until opencode ends"] if kept else []
        tool = text(asked.get("permission")) or "tool"
        external_call = await calls.permission(id, tool, arguments, always, calls.backlog.take_up)
        outcome = await self._wait(calls, external_call)
        if isinstance(outcome, DecidedElsewhere):
            return
        why = model_messages.denial(outcome)
        allowed = isinstance(outcome, Approved) and not why
        how = "always" if isinstance(outcome, Approved) and outcome.always else "once"
        reply: JsonObject = {"reply": how} if allowed else {"reply": "reject", "message": why}
        await self._deliver(calls, external_call, f"/permission/{quote(id)}/reply", reply, outcome)

    async def _forward_questions(self, id: str, asked: JsonObject) -> None:
        calls = self._calls_of(text(asked.get("sessionID")))
        questions: list[Json] = [
            {**each, "multiSelect": each.get("multiple") is True}
            for each in objects(asked.get("questions"))
        ]
        occasion = questions_of({"questions": questions}, gates=False)
        if not isinstance(occasion, PutForm):
            why = occasion.why if isinstance(occasion, Unaskable) else "it contains no question"
            self._tell(
                f"Cannot show a question from opencode: {why}. Answer it at opencode's own prompt."
            )
            return
        arguments: JsonObject = {"questions": asked.get("questions")}
        external_call = await calls.questions(
            id, NAME, arguments, occasion.form, calls.backlog.take_up
        )
        outcome = await self._wait(calls, external_call)
        if isinstance(outcome, FormCompleted):
            answers: Json = [_labels(outcome, question.id) for question in occasion.form.questions]
            await self._deliver(
                calls, external_call, f"/question/{quote(id)}/reply", {"answers": answers}, outcome
            )
        elif isinstance(outcome, RepliedTo):
            said: Json = [[model_messages.replied(outcome)] for _ in occasion.form.questions]
            await self._deliver(
                calls, external_call, f"/question/{quote(id)}/reply", {"answers": said}, outcome
            )
        elif not isinstance(outcome, DecidedElsewhere):
            await self._deliver(calls, external_call, f"/question/{quote(id)}/reject", {}, outcome)

    async def _wait(self, calls: ExternalCallService, external_call: ExternalCall) -> Decided:
        """Wait for an answer. If the request is decided in opencode, this task is cancelled and
        closes the question.
        """
        try:
            return await calls.wait(external_call) or DecidedElsewhere()
        except asyncio.CancelledError:
            if (
                asyncio.current_task() in self._tasks.values()
            ):  # cancelled because the bridge stops waiting
                await asyncio.shield(calls.let_go(external_call, left=self._is_unavailable))
            else:
                await asyncio.shield(calls.close(external_call, model_messages.ELSEWHERE))
            raise

    async def _deliver(
        self,
        calls: ExternalCallService,
        external_call: ExternalCall,
        path: str,
        body: JsonObject,
        outcome: Decided,
    ) -> None:
        """Send an answer to opencode. `_poll` does not cancel this task in the meantime, because
        opencode closes the request when it receives this answer.
        """
        task = asyncio.current_task()
        self._delivering.add(task)
        try:
            taken = await self._server.post(path, body)
        except OpencodeUnavailable:
            await calls.let_go(external_call, left=True)
            raise
        else:
            await calls.close(
                external_call,
                model_messages.recorded_content(outcome) if taken else model_messages.ELSEWHERE,
            )
        finally:
            self._delivering.discard(task)


def _labels(given: FormCompleted, id: str) -> list[Json]:
    """Return an answer as labels. The last label is the reason, if there is one."""
    reason = given.reasons.get(id)
    return [
        *model_messages.labels_of(given.answers.get(id)),
        *([user_added(reason)] if reason else []),
    ]


def password_of(environment: Mapping[str, str]) -> str:
    """Return the server's password from the environment, or an empty string."""
    return environment.get("OPENCODE_SERVER_PASSWORD", "")
