"""Shows prompts. Each open prompt is one call to the prompter, whose reply is returned as one
input.

The caller supplies the prompter. If it fails, the question is closed and the turn continues.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import cast, get_args

from msgspec import Struct
from msgspec.structs import replace

from midturn.clock import stamp
from midturn.errors import ScriptError, TerminalGone
from midturn.events.open_question import OpenQuestion
from midturn.events.prompt import Prompt
from midturn.events.types import AnsweredBy, put_to_people
from midturn.journal import Journal
from midturn.ports import Clock
from midturn.prompter import Prompter
from midturn.question.reply import Deferred, EndedTurn, Replied, Reply, Unavailable, WentBack
from midturn.question.text import check_text
from midturn.runtime.call_state import CallState
from midturn.runtime.loop_thread import is_cancelled
from midturn.runtime.run_options import RunOptions
from midturn.turn.inputs import PromptFailed, TurnFailed, UserReplied
from midturn.turn.pending import pending

_LOG = logging.getLogger("midturn.prompts")
_REPLIES = cast("tuple[type, ...]", get_args(Reply))
_RESPONDERS = ("user", "policy")


def responder_of(prompter: Prompter) -> AnsweredBy:
    """Return the person or policy that a prompter represents.

    Raises:
        TypeError: The prompter's `by` is neither `user` nor `policy`, or a name is not a string.
    """
    by: str = getattr(prompter, "by", "user")
    if by not in _RESPONDERS:
        raise TypeError(
            f"`by` of `{type(prompter).__name__}` is {by!r}: a prompter represents a 'user' or a"
            " 'policy'"
        )
    fields = {
        name: cast("str | None", getattr(prompter, name, None)) for name in ("via", "user", "name")
    }
    for name, value in fields.items():
        if value is not None:
            check_text(name, value)
    if by == "policy":
        return AnsweredBy(
            "policy", via=fields["via"], name=fields["name"] or type(prompter).__name__
        )
    return AnsweredBy("user", via=fields["via"], user=fields["user"])


def at_prompt(prompter: Prompter | None) -> AnsweredBy:
    """Return the responder that will reply to prompts, if it is known in advance.

    A policy may pass a prompt on to the prompter that it wraps, so the innermost prompter counts.
    """
    while (behind := getattr(prompter, "otherwise", None)) is not None:
        prompter = cast("Prompter", behind)
    try:
        return AnsweredBy("user") if prompter is None else responder_of(prompter)
    except TypeError:  # the error is reported when the prompter replies
        return AnsweredBy("user")


class _ShownPrompt(Struct, frozen=True):
    prompt: Prompt
    prompter: Prompter


class PrompterClient:
    """Calls the prompter of a run.

    Args:
        options: The options of the run.
        journal: The log of the conversation.
        clock: The clock.
        state: Contains the tools' own checks of answers.
    """

    def __init__(
        self, options: RunOptions, journal: Journal, clock: Clock, state: CallState
    ) -> None:
        self._prompter = options.prompter
        self._journal = journal
        self._clock = clock
        self._state = state
        self._open: set[str] = set()
        self._shown: dict[str, _ShownPrompt] = {}
        self._screen = options.nesting.screen if options.nesting else None
        if self._screen:
            self._screen.open_prompts.append(self._open)

    @property
    def any_open(self) -> bool:
        """Whether a person is being asked now."""
        return bool(self._open)

    def open(self, id: str) -> None:
        """Mark a prompt as open. Called when the prompt is requested."""
        self._open.add(id)

    async def ask(self, id: str, prompt: Prompt) -> UserReplied | PromptFailed | TurnFailed:
        """Show a prompt and return the reply as an input.

        Raises:
            TerminalGone: The terminal was closed.
        """
        happened = await self._ask(id, prompt)
        self._open.discard(id)
        self._shown.pop(id, None)
        return happened

    def close(self, id: str, event_id: str = "", by: str = "") -> Awaitable[None] | None:
        """Remove a closed prompt. If its prompter supports notifications, return the awaitable that
        notifies it.

        Args:
            id: The prompt.
            event_id: The `event_id` of the request, if it was answered elsewhere. Empty otherwise.
            by: The responder.
        """
        self._open.discard(id)
        shown = self._shown.pop(id, None)
        if shown is None or not event_id or shown.prompt.event != event_id:
            return None
        withdrawn: Callable[[str, str], object] | None = getattr(shown.prompter, "withdrawn", None)
        return None if withdrawn is None else _notify(withdrawn, shown.prompt.id, by)

    async def _ask(self, id: str, prompt: Prompt) -> UserReplied | PromptFailed | TurnFailed:
        if self._prompter is None:
            return UserReplied(id, Unavailable())
        try:
            prompter = _prompter_for(self._prompter, prompt)
            self._shown[id] = _ShownPrompt(prompt, prompter)
            reply = await self._reply(prompter, prompt)
            who = responder_of(prompter)
            _check_policy(who, reply)
            return UserReplied(id, reply, who, prompt.digest)
        except asyncio.CancelledError as error:
            if is_cancelled():
                raise
            return _failed(id, error, "it cancelled itself")
        except ScriptError as error:
            return TurnFailed(str(error))
        except TerminalGone:
            raise  # the person did not reply, so the run stops and the turn stays open
        except Exception as error:  # noqa: BLE001  a caller's code
            return _failed(id, error, str(error) or type(error).__name__)

    async def _reply(self, prompter: Prompter, prompt: Prompt) -> Reply:
        self._describe(prompter, prompt)
        screen = self._screen
        async with (
            nullcontext()
            if screen is None or getattr(prompter, "concurrent", False)
            else screen.free
        ):
            return await self._checked_reply(
                prompter, replace(prompt, find_open=lambda: self._open_question(prompt))
            )

    async def _checked_reply(self, prompter: Prompter, prompt: Prompt) -> Reply:
        """Show the prompt until the tool's own check, if there is one, accepts the answer."""
        asked = next(
            (
                found
                for found in put_to_people(reversed(self._journal.events))
                if found.event_id == prompt.event
            ),
            None,
        )
        prompt = prompt.timed(asked.timestamp if asked else "", lambda: stamp(self._clock))
        if asked is None or prompt.kind != "tool":
            return await _reply_of(prompter.prompt(prompt))
        checks = self._state.checks(asked.call)
        while True:
            reply = await _reply_of(prompter.prompt(prompt))
            if asked.question_id not in checks.rules:
                return reply
            error = await checks.refusal(asked.question_id, reply)
            if error is None:
                return reply
            prompt = replace(prompt, error=error)

    def _describe(self, prompter: Prompter, prompt: Prompt) -> None:
        """Pass the open question of the next prompt to a prompter."""
        about_to_ask: Callable[[OpenQuestion], object] | None = getattr(
            prompter, "about_to_ask", None
        )
        question = self._open_question(prompt) if about_to_ask is not None else None
        if about_to_ask is not None and question is not None:
            about_to_ask(question)

    def _open_question(self, prompt: Prompt) -> OpenQuestion | None:
        asked = pending(self._journal.events, prompt.conversation)
        return next((question for question in asked if question.id == prompt.id), None)


def _prompter_for(prompter: Prompter, prompt: Prompt) -> Prompter:
    """Return the prompter that replies to a prompt.

    A prompter that is not a subclass of `Prompter` may have no `speaker`.
    """
    speaker: Callable[[Prompt], Prompter] | None = getattr(prompter, "speaker", None)
    return prompter if speaker is None else speaker(prompt)


def _check_policy(who: AnsweredBy, reply: Reply) -> None:
    """Reject a policy's reply if only a person may give such a reply.

    Raises:
        TypeError: The reply is from a policy, but only a person may give it.
    """
    if who.by == "policy" and isinstance(reply, Replied | WentBack | EndedTurn | Deferred):
        raise TypeError(
            f"{who.name!r} represents a policy, but returned a `{type(reply).__name__}`, which only"
            " a person may return"
        )


async def _reply_of(prompted: object) -> Reply:
    """Await and return the reply of a prompter.

    Raises:
        TypeError: The value is not awaitable, or its result is not a reply.
    """
    if not inspect.isawaitable(prompted):
        raise TypeError(
            f"`prompt` returned a `{type(prompted).__name__}` at once; write it as `async def"
            " prompt(self, prompt)`"
        )
    reply = await cast("Awaitable[object]", prompted)
    if not isinstance(reply, _REPLIES):
        raise TypeError(
            f"`prompt` returned a `{type(reply).__name__}`; return a reply, such as"
            " `Answered(value)` or `EndedTurn()`"
        )
    return cast("Reply", reply)


def _failed(id: str, error: BaseException, message: str) -> PromptFailed:
    _LOG.warning("the prompter failed at %r", id, exc_info=error)
    return PromptFailed(id, message)


async def _notify(withdrawn: Callable[[str, str], object], id: str, by: str) -> None:
    """Notify a prompter that its question was answered by `by`. `withdrawn` may be a coroutine
    function.
    """
    try:
        result = withdrawn(id, by)
        if inspect.isawaitable(result):
            await cast("Awaitable[object]", result)
    except Exception:  # noqa: BLE001  a caller's code: the failure is logged, and the turn goes on
        _LOG.exception("the prompter's `withdrawn` failed for the answered question %r", id)
