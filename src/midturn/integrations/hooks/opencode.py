"""opencode has no hooks for this, but a server: what waits there waits here, too, and the first answer counts at both."""

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
from midturn.integrations.hooks.external_call import Errand, NoRoom
from midturn.integrations.hooks.external_calls import Errands
from midturn.integrations.hooks.hook_agent import PutForm, Unaskable
from midturn.integrations.hooks.model_messages import Approved, Decided, DecidedElsewhere, FormCompleted, RepliedTo
from midturn.ports import Clock
from midturn.question.json_value import Json, JsonObject, items, members, objects, text
from midturn.routing.messages import user_added

NAME = "opencode"
_PORT = 4096
_LOOK = 0.3  # seconds between two looks at what waits there
_ROOM = 2.0  # seconds until it is tried again to put into the inbox what there was no room for
_SILENCE = 20.0
_GONE = 404


class OpencodeGone(MidturnError):  # noqa: N818  it says what is the case
    """The server does not take us, or is not opencode; the message says what to do."""


class OpencodeAway(OpencodeGone):
    """Nothing answers at its address, until it is started, or started again."""


class Opencode(Protocol):
    """An opencode server."""

    async def get(self, path: str) -> Json:
        """Return what is at a path."""
        ...

    async def post(self, path: str, body: JsonObject) -> bool:
        """Send an answer; False where no one waits for it any more."""
        ...


class OpencodeServer:
    """The server at an address; `password` is its `OPENCODE_SERVER_PASSWORD`, where it has one."""

    def __init__(self, url: str, password: str = "") -> None:
        self._url = url.rstrip("/")
        login = base64.b64encode(f"opencode:{password}".encode()).decode()
        self._headers = {"content-type": "application/json", **({"authorization": f"Basic {login}"} if password else {})}
        self._opener = build_opener(ProxyHandler({}), _NoRedirects())

    async def get(self, path: str) -> Json:
        """Return what is at a path.

        Raises:
            OpencodeAway: It does not answer.
            OpencodeGone: It refuses, or answers with something else.
        """
        return await asyncio.to_thread(self._ask, path, None)

    async def post(self, path: str, body: JsonObject) -> bool:
        """Send an answer; False where no one waits for it any more.

        Raises:
            OpencodeAway: It does not answer.
            OpencodeGone: It refuses.
        """
        try:
            await asyncio.to_thread(self._ask, path, body)
        except _NotThere:
            return False
        return True

    def _ask(self, path: str, body: JsonObject | None) -> Json:
        data = None if body is None else json.dumps(body).encode()
        request = Request(f"{self._url}{path}", data=data, headers=self._headers)  # noqa: S310  the address is the user's own
        try:
            with self._opener.open(request, timeout=_SILENCE) as answered:
                return json.loads(answered.read() or b"null")
        except HTTPError as error:
            if error.code == _GONE:
                raise _NotThere from error
            hint = " Set OPENCODE_SERVER_PASSWORD to its password." if error.code == 401 else ""  # noqa: PLR2004
            raise OpencodeGone(f"The opencode server at {self._url} refuses: {error}.{hint}") from error
        except (OSError, HTTPException) as error:
            raise OpencodeAway(f"No opencode server answers at {self._url} ({_why(error)}). {self._advice()}") from error
        except ValueError as error:
            raise OpencodeGone(f"What answers at {self._url} is not an opencode server. {self._advice()}") from error

    def _advice(self) -> str:
        port = urlsplit(self._url).port or _PORT
        return (
            f"Start it with `opencode --port {port}`, or without a terminal `opencode serve --port {port}`; `--url` takes another address."
        )


def _why(error: Exception) -> str:
    reason = error.reason if isinstance(error, URLError) else error
    return (reason.strerror if isinstance(reason, OSError) else None) or str(reason) or type(reason).__name__


class _NotThere(Exception):  # noqa: N818  it says what is the case
    """There is nothing at this path."""


class _NoRedirects(HTTPRedirectHandler):
    """Goes nowhere else: what we send is for this server."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Follow nothing."""


class Bridge:
    """Carries what an opencode server asks.

    Args:
        server: The server.
        errands: Returns what a session of it asks here.
        clock: What time it is.
        tell: Says something to the user who has started the bridge.
    """

    def __init__(self, server: Opencode, errands: Callable[[str], Errands], clock: Clock, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._server = server
        self._errands = errands
        self._clock = clock
        self._asked: dict[str, asyncio.Task[None]] = {}
        self._delivering: set[asyncio.Task[None] | None] = set()
        self._is_away = False

    async def run(self) -> None:
        """Carry until it is cancelled; while no server answers, wait for one.

        Raises:
            OpencodeGone: It refuses, or is not opencode. What it asked stays open, and recorded.
        """
        try:
            while True:
                await self._look_again()
                await self._clock.sleep(_LOOK)
        finally:
            await self._leave()

    async def _look_again(self) -> None:
        """Look; where a server is gone, let go of what it asked, for its ids are worth nothing any more."""
        try:
            await self._look()
        except OpencodeAway as away:
            if not self._is_away:
                self._tell(f"{away} I wait for it{'; what it asked stays open' if self._asked else ''}.")
            self._is_away = True
            await self._leave()
            return
        if self._is_away:
            self._tell("opencode is there.")
        self._is_away = False

    async def _leave(self) -> None:
        """Leave what was asked as it is; what is being delivered is delivered."""
        tasks = list(self._asked.values())
        for task in tasks:
            if task not in self._delivering:
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._asked.clear()

    async def _look(self) -> None:
        """Take up what is new, and leave what was decided there."""
        waiting: dict[str, tuple[str, JsonObject]] = {}
        for kind in ("permission", "question"):
            waiting |= {text(one.get("id")): (kind, one) for one in objects(await self._server.get(f"/{kind}"))}
        for id, task in list(self._asked.items()):  # noqa: A001  the wire's word
            if task.done():
                task.result()
            if id not in waiting and task not in self._delivering:
                del self._asked[id]
                task.cancel()
        for id, (kind, one) in waiting.items():  # noqa: A001
            if id and id not in self._asked:
                self._asked[id] = asyncio.create_task(self._carried(kind, id, one))

    async def _carried(self, kind: str, id: str, asked: JsonObject) -> None:
        """Carry one thing; where there is no room for it here, it waits at opencode's own prompt until there is."""
        is_told = False
        while True:
            try:
                return await (self._permit(id, asked) if kind == "permission" else self._ask(id, asked))
            except NoRoom as full:
                if not is_told:
                    self._tell(f"{full} It waits at opencode's own prompt.")
                is_told = True
                await self._clock.sleep(_ROOM)

    async def _permit(self, id: str, asked: JsonObject) -> None:
        errands = self._errands(text(asked.get("sessionID")))
        patterns: Json = [text(pattern) for pattern in items(asked.get("patterns"))]
        arguments: JsonObject = {"patterns": patterns, **members(asked.get("metadata"))}
        kept = [text(pattern) for pattern in items(asked.get("always"))]
        always = [f"run {', '.join(kept)} without asking, until opencode ends"] if kept else []
        tool = text(asked.get("permission")) or "tool"
        errand = await errands.permission(id, tool, arguments, always, errands.backlog.take_up)
        outcome = await self._waited(errands, errand)
        if isinstance(outcome, DecidedElsewhere):
            return
        why = model_messages.denial(outcome)
        allowed = isinstance(outcome, Approved) and not why
        how = "always" if isinstance(outcome, Approved) and outcome.always else "once"
        reply: JsonObject = {"reply": how} if allowed else {"reply": "reject", "message": why}
        await self._deliver(errands, errand, f"/permission/{quote(id)}/reply", reply, outcome)

    async def _ask(self, id: str, asked: JsonObject) -> None:
        errands = self._errands(text(asked.get("sessionID")))
        questions: list[Json] = [{**one, "multiSelect": one.get("multiple") is True} for one in objects(asked.get("questions"))]
        occasion = questions_of({"questions": questions}, gates=False)
        if not isinstance(occasion, PutForm):
            why = occasion.why if isinstance(occasion, Unaskable) else "there is nothing in it"
            self._tell(f"A question of opencode cannot be shown here ({why}). It waits at opencode's own prompt.")
            return
        arguments: JsonObject = {"questions": asked.get("questions")}
        errand = await errands.questions(id, NAME, arguments, occasion.form, errands.backlog.take_up)
        outcome = await self._waited(errands, errand)
        if isinstance(outcome, FormCompleted):
            answers: Json = [_labels(outcome, question.id) for question in occasion.form.questions]
            await self._deliver(errands, errand, f"/question/{quote(id)}/reply", {"answers": answers}, outcome)
        elif isinstance(outcome, RepliedTo):
            said: Json = [[model_messages.replied(outcome)] for _ in occasion.form.questions]
            await self._deliver(errands, errand, f"/question/{quote(id)}/reply", {"answers": said}, outcome)
        elif not isinstance(outcome, DecidedElsewhere):
            await self._deliver(errands, errand, f"/question/{quote(id)}/reject", {}, outcome)

    async def _waited(self, errands: Errands, errand: Errand) -> Decided:
        """Wait for an answer here; what is decided there cancels this, and closes the question."""
        try:
            return await errands.wait(errand) or DecidedElsewhere()
        except asyncio.CancelledError:
            if asyncio.current_task() in self._asked.values():  # it is us who leave
                await asyncio.shield(errands.let_go(errand, left=self._is_away))
            else:
                await asyncio.shield(errands.close(errand, model_messages.ELSEWHERE))
            raise

    async def _deliver(self, errands: Errands, errand: Errand, path: str, body: JsonObject, outcome: Decided) -> None:
        """Bring an answer. From then on it waits there no more, and that is our doing."""
        task = asyncio.current_task()
        self._delivering.add(task)
        try:
            taken = await self._server.post(path, body)
        except OpencodeAway:
            await errands.let_go(errand, left=True)
            raise
        else:
            await errands.close(errand, model_messages.decided(outcome) if taken else model_messages.ELSEWHERE)
        finally:
            self._delivering.discard(task)


def _labels(given: FormCompleted, id: str) -> list[Json]:
    """Return an answer as labels, and what the person added to it as one more."""
    reason = given.reasons.get(id)
    return [*model_messages.labels_of(given.answers.get(id)), *([user_added(reason)] if reason else [])]


def password_of(environment: Mapping[str, str]) -> str:
    """Return the password of the server, where its variable is set."""
    return environment.get("OPENCODE_SERVER_PASSWORD", "")
