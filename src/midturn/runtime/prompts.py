"""What people answer: at the prompts that are open now, one task each, and elsewhere, handed over."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, cast, get_args

from msgspec.structs import replace

from midturn.clock import stamp
from midturn.errors import ScriptError, TerminalGone
from midturn.events.open_question import OpenQuestion
from midturn.events.prompt import Prompt
from midturn.events.types import AnsweredBy, put_to_people
from midturn.journal import AnswerFeed, Handed, Journal
from midturn.ports import Clock
from midturn.prompter import Prompter
from midturn.question.reply import Deferred, EndedTurn, Replied, Reply, Unavailable, WentBack
from midturn.question.text import check_text
from midturn.runtime.loop_thread import is_cancelled
from midturn.runtime.surroundings import Services, Surroundings
from midturn.turn.pending import pending
from midturn.turn.people import under_key
from midturn.turn.step import AnsweredElsewhere, ClosePrompt, Happened, Noted, PromptFailed, TurnFailed, UserReplied

if TYPE_CHECKING:
    from midturn.runtime.tool_runs import Spawn


_LOG = logging.getLogger("midturn.prompts")
_REPLIES = cast("tuple[type, ...]", get_args(Reply))
_SPEAKERS = ("user", "policy")


def who_replies(prompter: Prompter) -> AnsweredBy:
    """Return who replied, as far as a prompter says it.

    Raises:
        TypeError: It says it in something that is not text, or speaks for something else than a person or a policy.
    """
    by: str = getattr(prompter, "by", "user")
    if by not in _SPEAKERS:
        raise TypeError(f"`by` of `{type(prompter).__name__}` is {by!r}: a prompter speaks for a 'user' or a 'policy'")
    told = {name: cast("str | None", getattr(prompter, name, None)) for name in ("via", "user", "name")}
    for name, said in told.items():
        if said is not None:
            check_text(name, said)
    if by == "policy":
        return AnsweredBy("policy", via=told["via"], name=told["name"] or type(prompter).__name__)
    return AnsweredBy("user", via=told["via"], user=told["user"])


def at_prompt(prompter: Prompter | None) -> AnsweredBy:
    """Return who replies to a prompt, as far as that is known beforehand: the person behind policies, where there is one."""
    while (behind := getattr(prompter, "otherwise", None)) is not None:
        prompter = cast("Prompter", behind)
    try:
        return AnsweredBy("user") if prompter is None else who_replies(prompter)
    except TypeError:  # said when it replies
        return AnsweredBy("user")


class Dialogs:
    """The prompts that are open: each is shown in a task of its own, which reports what came back."""

    def __init__(self, services: Services, surroundings: Surroundings, report: Callable[[Happened], None]) -> None:
        self._prompter = services.prompter
        self._clock = services.clock
        self._checks = surroundings.checks
        self._screen = surroundings.nest.screen if surroundings.nest else None
        if self._screen:
            self._screen.asking.append(lambda: self.any_open)
        self._journal = services.journal
        self._report = report
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._shown: dict[str, Prompt] = {}
        self._answered_by: dict[str, str] = {}
        self._speakers: dict[str, Prompter] = {}

    @property
    def any_open(self) -> bool:
        """Whether a person is being asked now."""
        return bool(self._tasks)

    def open(self, id: str, prompt: Prompt, spawn: Spawn) -> None:
        """Show a prompt."""
        self._shown[id] = prompt
        self._tasks[id] = spawn(self._ask(id, prompt))

    def expect_answer(self, event_id: str, who: AnsweredBy) -> None:
        """Note who answers a question elsewhere, for the prompt that closes because of it."""
        self._answered_by[event_id] = who.user or who.name or who.via or who.by

    def expect_nothing(self, event_id: str) -> None:
        """Forget who answered elsewhere: the prompt is closed, or the answer did not fit."""
        self._answered_by.pop(event_id, None)

    def close(self, effect: ClosePrompt, spawn: Spawn) -> None:
        """Take a prompt away; where it was answered elsewhere, let the prompter know by whom."""
        task, prompt = self._tasks.pop(effect.id, None), self._shown.pop(effect.id, None)
        if task is None or prompt is None:
            return
        task.cancel()
        by = self._answered_by.get(prompt.event)
        withdrawn: Callable[[str, str], object] | None = getattr(self._speakers.pop(effect.id, None), "withdrawn", None)
        if by is not None and withdrawn is not None:
            spawn(_tell(withdrawn, prompt.id, by))

    async def _ask(self, id: str, prompt: Prompt) -> None:
        happened = await self._happened(id, prompt)
        self._tasks.pop(id, None)
        self._shown.pop(id, None)
        self._speakers.pop(id, None)
        self._report(happened)

    async def _happened(self, id: str, prompt: Prompt) -> Happened:
        """Ask. A prompter is foreign code: whatever it does wrong, the question closes, and the turn goes on.

        Raises:
            TerminalGone: The person who was asked is not there any more.
        """
        if self._prompter is None:
            return UserReplied(id, Unavailable())
        try:
            speaker = self._speakers[id] = _speaker(self._prompter, prompt)
            reply = await self._reply(speaker, prompt)
            who = who_replies(speaker)
            _check_its_part(who, reply)
            return UserReplied(id, reply, who, prompt.digest)
        except asyncio.CancelledError as error:
            if is_cancelled():
                raise
            return _failed(id, error, "it cancelled itself")
        except ScriptError as error:
            return TurnFailed(str(error))
        except TerminalGone:
            raise  # nothing was said: the run stops here, and the turn stays open
        except Exception as error:  # noqa: BLE001  as above
            return _failed(id, error, str(error) or type(error).__name__)

    async def _reply(self, prompter: Prompter, prompt: Prompt) -> Reply:
        self._describe(prompter, prompt)
        screen = self._screen
        async with nullcontext() if screen is None or getattr(prompter, "concurrent", False) else screen.free:
            return await self._replied(prompter, replace(prompt, find_open=lambda: self._open(prompt)))

    async def _replied(self, prompter: Prompter, prompt: Prompt) -> Reply:
        """Ask until the tool's own rule, if it has one, has nothing to say against the answer."""
        asked = next((found for found in put_to_people(reversed(self._journal.events)) if found.event_id == prompt.event), None)
        prompt = prompt.timed(asked.timestamp if asked else "", lambda: stamp(self._clock))
        if asked is None or prompt.kind != "tool":
            return await _awaited(prompter.prompt(prompt))
        checks = self._checks.of(asked.call)
        while True:
            reply = await _awaited(prompter.prompt(prompt))
            if asked.question_id not in checks.rules:
                return reply
            said = await checks.refusal(asked.question_id, reply)
            if said is None:
                return reply
            prompt = replace(prompt, error=said)

    def _describe(self, prompter: Prompter, prompt: Prompt) -> None:
        """Tell a prompter that wants to know what it asks, as everybody outside the turn sees it."""
        about_to_ask: Callable[[OpenQuestion], object] | None = getattr(prompter, "about_to_ask", None)
        question = self._open(prompt) if about_to_ask is not None else None
        if about_to_ask is not None and question is not None:
            about_to_ask(question)

    def _open(self, prompt: Prompt) -> OpenQuestion | None:
        asked = pending(self._journal.events, prompt.conversation)
        return next((question for question in asked if question.id == prompt.id), None)


def _speaker(prompter: Prompter, prompt: Prompt) -> Prompter:
    """Return who answers a prompt: a prompter that is not derived from ours may have no way to pass it on."""
    speaker: Callable[[Prompt], Prompter] | None = getattr(prompter, "speaker", None)
    return prompter if speaker is None else speaker(prompt)


def _check_its_part(who: AnsweredBy, reply: Reply) -> None:
    """Let no policy say what only a person says.

    Raises:
        TypeError: It does.
    """
    if who.by == "policy" and isinstance(reply, Replied | WentBack | EndedTurn | Deferred):
        raise TypeError(f"{who.name!r} speaks for a policy, and returned a `{type(reply).__name__}`, which only a person may say")


async def _awaited(prompted: object) -> Reply:
    """Return what a prompter replied.

    Raises:
        TypeError: It is not a reply, or nothing that can be awaited.
    """
    if not inspect.isawaitable(prompted):
        raise TypeError(f"`prompt` returned a `{type(prompted).__name__}` at once; write it as `async def prompt(self, prompt)`")
    reply = await cast("Awaitable[object]", prompted)
    if not isinstance(reply, _REPLIES):
        raise TypeError(f"`prompt` returned a `{type(reply).__name__}`; return a reply, such as `Answered(value)` or `EndedTurn()`")
    return cast("Reply", reply)


def _failed(id: str, error: BaseException, message: str) -> PromptFailed:
    _LOG.warning("the prompter failed at %r", id, exc_info=error)
    return PromptFailed(id, message)


async def _tell(withdrawn: Callable[[str, str], object], id: str, by: str) -> None:
    """Say who answered; `withdrawn` may be a coroutine function."""
    try:
        told = withdrawn(id, by)
        if inspect.isawaitable(told):
            await cast("Awaitable[object]", told)
    except Exception:  # noqa: BLE001  a prompter is foreign code: it hears of this, and the turn goes on
        _LOG.exception("the prompter failed to hear that %r was answered", id)


# ----------------------------------------------------------------------------------------------------------------------
# Answers from outside, while this process holds the conversation: collected, and reported to the machine


INTERVAL = 0.1  # seconds between two looks, while an answer waits for its question to be asked again


class Elsewhere:
    """Looks for answers that were handed over, and reports them.

    An answer that the turn does not take is kept: a resumed turn may not have asked again yet. It is reported again whenever the turn has
    recorded something, or has asked (what it asks again is on record already), until it is taken; the next to open the conversation takes
    what is left over.
    """

    def __init__(self, feed: AnswerFeed, journal: Journal, report: Callable[[Happened], None]) -> None:
        self._feed = feed
        self._journal = journal
        self._report = report
        self._asked = 0
        self._reported: dict[str, tuple[int, int]] = {}

    def asked(self) -> None:
        """Note that a question was asked: an answer that came too early may be the one to this."""
        self._asked += 1

    async def look(self) -> bool:
        """Report what is handed over by now; say whether there is anything."""
        handed = await self._feed.collect()
        state = (len(self._journal.events), self._asked) if handed else (0, 0)
        for answer in handed:
            if self._reported.get(answer.key) != state:
                self._reported[answer.key] = state
                self._report(_happened(answer))
        return bool(handed)

    async def listen(self, clock: Clock) -> None:
        """Report what is handed over, until cancelled."""
        while True:
            handed = await self.look()
            await (clock.sleep(INTERVAL) if handed else self._feed.changed())


def _happened(handed: Handed) -> AnsweredElsewhere | Noted:
    """Return what was handed over as the turn hears of it; the key of a vote or a note is recorded with it."""
    if handed.note is not None:
        return Noted(handed.event_id, under_key(handed.note, handed.key))
    return AnsweredElsewhere(handed.event_id, handed.reply, handed.by, handed.key if handed.name else "", handed.digest)
