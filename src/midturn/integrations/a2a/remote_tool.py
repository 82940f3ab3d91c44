"""A remote agent as a tool.

The call stores its progress with `ToolContext.keep`: the number of sent messages, the remote task,
and the message that it is about to send. If its process dies, the next run of the call continues
the same remote task. Answers from people are recorded before they are sent.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from a2a.types.a2a_pb2 import Part
from google.protobuf.json_format import MessageToDict, ParseDict
from msgspec import Struct

from midturn.errors import ConfigError
from midturn.integrations.a2a.questions import EXTENSION
from midturn.integrations.a2a.remote_agent import (
    MessageRefused,
    RemoteAgent,
    RemoteTask,
    connected,
)
from midturn.integrations.a2a.remote_questions import (
    RemoteQuestion,
    answer_parts,
    remote_questions,
)
from midturn.integrations.a2a.wire import message_of, text_part
from midturn.integrations.remote_asking import MAX_ROUNDS, Answers, ask_people, done_question
from midturn.integrations.remote_http import RemoteError, check_url
from midturn.question.form import Form
from midturn.question.json_value import Json, members
from midturn.tools.asking import ToolContext
from midturn.tools.function import FunctionTool, tool as function_tool
from midturn.tools.returned import Rejected

KEPT: Final = "a2a"
"""Name under which a call stores its progress."""
_TIMEOUT: Final = 3600.0
_MIN_POLL_INTERVAL: Final = 0.2  # seconds
_MAX_POLL_INTERVAL: Final = 30.0
_ATTEMPTS: Final = 3  # maximum number of attempts for a request
_RETRY_DELAY: Final = 1.0
_REQUEST_SECONDS: Final = 660.0  # remote agents may take ten minutes to respond


def tool(
    url: str,
    *,
    name: str,
    description: str,
    headers: Mapping[str, str] | None = None,
    timeout: float = _TIMEOUT,
) -> FunctionTool[Any, Any]:
    """Return a tool that sends a message to a remote agent and returns its answer.

    The remote agent's questions become questions of this call. Only people may answer them, in any
    interface. Questions with a secret answer type are not passed on. The call continues after a
    restart.

    Args:
        url: Address of the remote agent. Its card is read from `/.well-known/agent-card.json`.
            Use `https`, except for agents on this machine.
        name: Name of the tool. Questions also show it as the name of the asking agent.
        description: Description for the model: what the remote agent can do.
        headers: Headers to send with each request, such as `Authorization`. They are not recorded.
        timeout: Maximum time, in seconds, that the remote agent may work without asking a question.

    Raises:
        ConfigError: The address, the name or the timeout is not valid.
    """
    check_url(url)
    if not timeout > 0:
        raise ConfigError(f"`timeout` must be a positive number of seconds, not {timeout!r:.80}.")
    given = dict(headers or {})

    async def ask_remote(ctx: ToolContext, message: str) -> str:
        async with connected(url, given, seconds=_REQUEST_SECONDS) as agent:
            return await _RemoteCall(ctx, agent, name, timeout).run(message)

    return function_tool(name=name, description=description)(ask_remote)


def remote_agent_tool(
    url: str, *, name: str, agent_name: str, headers: Mapping[str, str]
) -> FunctionTool[Any, Any]:
    """Return the tool that `RemoteModel` uses. It can continue a remote context.

    Args:
        url: Address of the remote agent.
        name: Name of the tool.
        agent_name: Name of the asking agent.
        headers: Headers to send with each request. They are not recorded.
    """

    async def ask_remote_agent(ctx: ToolContext, message: str, context: str = "") -> str:
        async with connected(url, headers, seconds=_REQUEST_SECONDS) as agent:
            call = _RemoteCall(ctx, agent, agent_name, _TIMEOUT, context)
            return await call.run(message)

    description = "Send a message to the remote agent."
    return function_tool(name=name, description=description)(ask_remote_agent)


class _Progress(Struct):
    """The stored progress of a call.

    Args:
        sent: Number of messages that were sent, including `message`.
        task: ID of the remote task.
        context: ID of the remote context.
        message: The parts of the message that is being sent; None if no message is being sent.
    """

    sent: int = 0
    task: str = ""
    context: str = ""
    message: list[Json] | None = None

    @classmethod
    def of(cls, kept: Json) -> _Progress:
        """Read the stored progress."""
        given = members(kept)
        parts = given.get("message")
        sent = given.get("sent")
        return cls(
            sent=sent if isinstance(sent, int) else 0,
            task=str(given.get("task") or ""),
            context=str(given.get("context") or ""),
            message=[*parts] if isinstance(parts, list) else None,
        )

    def to_json(self) -> Json:
        """Return the progress as JSON."""
        return {
            "sent": self.sent,
            "task": self.task,
            "context": self.context,
            "message": self.message,
        }


class _RemoteCall:
    """One call to the tool."""

    def __init__(
        self, ctx: ToolContext, agent: RemoteAgent, name: str, timeout: float, context: str = ""
    ) -> None:
        self._ctx = ctx
        self._agent = agent
        self._name = name
        self._timeout = timeout
        kept = ctx.kept(KEPT)
        self._progress = _Progress(context=context) if kept is None else _Progress.of(kept)
        self._confirmations = 0

    async def run(self, message: str) -> str:
        """Send the message, ask people the remote agent's questions, and return its answer.

        Raises:
            Rejected: The remote agent fails or refuses the message, or its question is not
                answered.
        """
        try:
            task = await self._first_task(message)
            while True:
                match task.state:
                    case "completed":
                        return task.answer or task.status_text
                    case "failed" | "canceled" | "rejected":
                        reason = task.status_text or "It gave no reason."
                        raise Rejected(f"The task of {self._name} is {task.state}: {reason}")
                    case "working":
                        task = await self._until_changed(task)
                    case "auth_required":
                        task = await self._confirm(task)
                    case _:
                        task = await self._answer(task)
        except RemoteError as error:
            raise Rejected(str(error)) from None

    async def _first_task(self, message: str) -> RemoteTask:
        """Begin the remote task, or continue the task that an earlier run of the call began."""
        if self._progress.message is not None:
            return await self._deliver()
        if self._progress.task:
            return await self._get()
        return await self._send([text_part(message)])

    # Messages
    # ----------------------------------------------------------------------------------------------

    async def _send(self, parts: Sequence[Part]) -> RemoteTask:
        """Store a message, and then send it."""
        if self._progress.sent >= MAX_ROUNDS:
            raise Rejected(f"{self._name} has asked more than {MAX_ROUNDS} times.")
        self._progress.sent += 1
        self._progress.message = [_part_json(part) for part in parts]
        await self._keep()
        return await self._deliver()

    async def _deliver(self) -> RemoteTask:
        """Send the stored message, and store the result."""
        parts = [_part_of(part) for part in self._progress.message or ()]
        message = message_of(
            f"{self._ctx.idempotency_key}.{self._progress.sent}",
            parts,
            task=self._progress.task,
            context=self._progress.context,
            is_user=True,
            extensions=[EXTENSION],
        )
        try:
            task = await self._attempted(lambda: self._agent.send(message))
        except MessageRefused:
            if not self._progress.task:
                raise
            task = await self._get()  # the message arrived earlier, or the question is closed
        self._progress.message = None
        self._progress.task = task.id or self._progress.task
        self._progress.context = task.context or self._progress.context
        await self._keep()
        return task

    async def _get(self) -> RemoteTask:
        return await self._attempted(lambda: self._agent.get(self._progress.task))

    async def _attempted(self, request: Any) -> RemoteTask:
        """Send a request, and repeat it if it fails. A repeated message has the same ID, so that
        the remote agent can detect the repetition.
        """
        for attempt in range(1, _ATTEMPTS):
            try:
                return await request()
            except MessageRefused:
                raise
            except RemoteError:
                await asyncio.sleep(_RETRY_DELAY * attempt)
        return await request()

    async def _keep(self) -> None:
        await self._ctx.keep(KEPT, self._progress.to_json())

    async def _until_changed(self, task: RemoteTask) -> RemoteTask:
        """Poll a task until it stops working."""
        until, pause = time.monotonic() + self._timeout, _MIN_POLL_INTERVAL
        while task.state == "working":
            if time.monotonic() > until:
                raise Rejected(f"{self._name} has not finished after {self._timeout:.0f} s.")
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, _MAX_POLL_INTERVAL)
            task = await self._get()
        return task

    # Questions
    # ----------------------------------------------------------------------------------------------

    async def _answer(self, task: RemoteTask) -> RemoteTask:
        """Ask people the questions of a task, and send their answers."""
        asked = remote_questions(task, f"ask_{self._progress.sent}")
        answers = await asyncio.gather(*map(self._ask, asked))
        return await self._send(answer_parts(asked, answers))

    async def _ask(self, each: RemoteQuestion) -> Json:
        """Ask people one question. Return the answer for the remote agent.

        Raises:
            Rejected: There is neither an answer nor a reply that the remote agent accepts.
        """
        answers = await ask_people(self._ctx, Form((each.question,)), self._name)
        if isinstance(answers, Answers):
            return each.answered(answers.values[each.question.id], answers.reason)
        if answers.reason == "reply" and each.takes_replies:
            return {"reply": answers.reply or ""}
        words = f" The user said: {answers.reply}" if answers.reply else ""
        raise Rejected(f"The question of {self._name} was not answered ({answers.reason}).{words}")

    async def _confirm(self, task: RemoteTask) -> RemoteTask:
        """Ask people whether the requested action is done. If so, get the task again.

        Raises:
            Rejected: The action is not done, or people were asked too often.
        """
        self._confirmations += 1
        if self._confirmations > MAX_ROUNDS:
            raise Rejected(f"{self._name} still waits for a person.")
        id = f"done_{self._progress.sent}_{self._confirmations}"  # noqa: A001
        question = done_question(id, self._name, task.status_text)
        answers = await ask_people(self._ctx, Form((question,)), self._name)
        if not isinstance(answers, Answers) or answers.values[id] is not True:
            raise Rejected(f"Nobody has done what {self._name} waits for: {task.status_text}")
        return await self._get()


def _part_json(part: Part) -> Json:
    return MessageToDict(part)


def _part_of(part: Json) -> Part:
    given: Any = part
    return ParseDict(given, Part())
