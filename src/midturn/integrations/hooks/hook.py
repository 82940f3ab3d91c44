"""One run of a hook: reads the agent's event, asks a person, and outputs the decision."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta
from typing import assert_never

from msgspec import Struct
from msgspec.structs import replace

from midturn.errors import MidturnError
from midturn.integrations.hooks import hook_agent, model_messages
from midturn.integrations.hooks.external_call import ExternalCall, first_question, was_delivered
from midturn.integrations.hooks.external_calls import ExternalCallService
from midturn.integrations.hooks.model_messages import Approved, Decided, DecidedElsewhere
from midturn.integrations.hooks.undelivered_answers import counts_later
from midturn.ports import Clock
from midturn.question.json_value import JsonObject, canonical
from midturn.question.text import rfc3339
from midturn.stores.lock import lives

_LOG = logging.getLogger(__name__)
_POLL_INTERVAL = 0.3


class HookRun(Struct, frozen=True, kw_only=True):
    """One run of a hook. `say` prints the output for the agent immediately."""

    agent: hook_agent.HookAgent
    document: JsonObject
    occasion: hook_agent.HookEvent
    calls: ExternalCallService
    clock: Clock
    wait: float
    say: Callable[[hook_agent.HookOutput], None]
    needed: Callable[[], bool] = lambda: True
    """Returns whether the agent is still running. If it is not, the hook exits, and the question
    stays open.
    """

    async def go(self) -> None:
        """Ask, wait, output the decision, and record it. If an error occurs and only midturn asks
        about the call, deny the call with the error as the reason.
        """
        occasion = self.occasion
        try:
            await self._handle(occasion)
        except MidturnError as error:
            _LOG.warning("the hook for %s failed: %r", self.agent.name, str(error))
            self.say(self._without_answer(occasion, f"{model_messages.FAILED} ({error})"))
        except Exception:  # noqa: BLE001  no error may let the call run
            _LOG.exception("the hook for %s failed", self.agent.name)
            self.say(self._without_answer(occasion, model_messages.FAILED))

    async def _handle(self, occasion: hook_agent.HookEvent) -> None:
        match occasion:
            case hook_agent.Permit():
                await self._ask_permission(occasion)
            case hook_agent.PutElicitation(arguments=dialog) if (
                await self.calls.backlog.shown_by_dialog(dialog)
            ):
                self.say(hook_agent.HookOutput())
            case hook_agent.PutForm():
                await self._ask_questions(occasion)
            case hook_agent.Done(tool=tool, arguments=arguments):
                await self._close((await self.calls.backlog.matching(tool, arguments))[:1])
            case hook_agent.Ran():
                await self.calls.backlog.close_left()
                self.say(hook_agent.HookOutput())
            case hook_agent.Stopping():
                await self._stop(occasion)
            case hook_agent.MovedOn():
                await self._close(
                    [
                        external_call
                        for external_call in await self.calls.backlog.calls()
                        if _has_no_process(external_call)
                    ]
                )
            case hook_agent.Unaskable(why=why):
                self.say(self._without_answer(occasion, f"{model_messages.FAILED} ({why})"))
            case hook_agent.Nothing():
                self.say(hook_agent.HookOutput())
            case _ as never:
                assert_never(never)

    # Calls and questions
    # ----------------------------------------------------------------------------------------------

    async def _ask_permission(self, occasion: hook_agent.Permit) -> None:
        calls = await self._start(occasion)
        external_call = await calls.permission(
            occasion.id, occasion.tool, occasion.arguments, occasion.always, calls.backlog.take_up
        )
        outcome = await self._decision(occasion, external_call)
        if outcome is None:
            self.say(
                self.agent.left_open(self.document) if occasion.gates else hook_agent.HookOutput()
            )
            return
        if (
            isinstance(outcome, DecidedElsewhere) and occasion.gates
        ):  # an empty output would let the call run
            self.say(self._without_answer(occasion, model_messages.FAILED))
            return
        if (
            isinstance(outcome, Approved) and outcome.always not in occasion.always
        ):  # a standing permission counts only if it was shown to the person
            outcome = replace(outcome, always="")
        self.say(self.agent.permitted(self.document, occasion, outcome))
        await self.calls.close(external_call, model_messages.recorded_content(outcome))

    async def _ask_questions(self, occasion: hook_agent.PutForm) -> None:
        calls = await self._start(occasion)
        external_call = await calls.questions(
            occasion.id, occasion.tool, occasion.arguments, occasion.form, calls.backlog.take_up
        )
        outcome = await self._decision(occasion, external_call)
        if outcome is None:
            self.say(
                self.agent.left_open(self.document) if occasion.gates else hook_agent.HookOutput()
            )
            return
        self.say(self.agent.answered(self.document, occasion, outcome))
        await self.calls.close(external_call, model_messages.recorded_content(outcome))

    async def _start(self, occasion: hook_agent.Permit | hook_agent.PutForm) -> ExternalCallService:
        """Close the session's earlier open questions, and return the service for this event.

        The earlier questions are obsolete, because the agent continued with this call. If the
        agent's own dialog opens later, the question is recorded with the time when it opens.
        """
        await self.calls.backlog.close_left(occasion.tool, occasion.arguments)
        said = hook_agent.last_message(self.document)
        if occasion.gates:
            return self.calls.of(said=said, defers=occasion.defers)
        return self.calls.of(
            said=said, ends=rfc3339(self.clock.now() + timedelta(seconds=self._seconds(occasion)))
        )

    async def _decision(
        self, occasion: hook_agent.Permit | hook_agent.PutForm, external_call: ExternalCall
    ) -> Decided | None:
        """Wait for the decision. Return None after the timeout: the question is closed if the
        agent's own dialog also asks it, and stays open otherwise.
        """
        outcome = await self.calls.wait(external_call, self._seconds(occasion), self.needed)
        if outcome is not None or not self.needed():
            return outcome
        if not occasion.gates:
            return await self.calls.give_up(external_call, external_call.asker.in_own_dialog)
        if not occasion.defers:
            await self.calls.stays_open(external_call)
        return None

    def _seconds(
        self, occasion: hook_agent.Permit | hook_agent.PutForm | hook_agent.Stopping
    ) -> float:
        return self.wait if occasion.seconds is None else min(self.wait, occasion.seconds)

    def _without_answer(
        self, occasion: hook_agent.HookEvent, message: str
    ) -> hook_agent.HookOutput:
        return hook_agent.without_answer(self.agent, self.document, occasion, message)

    # End of a turn
    # ----------------------------------------------------------------------------------------------

    async def _stop(self, stopping: hook_agent.Stopping) -> None:
        """Deliver the answers that arrived while no hook was waiting for them.

        If the agent runs without a terminal, wait until an answer arrives.
        """
        if not stopping.waits:
            await self._close(
                [
                    external_call
                    for external_call in await self.calls.backlog.calls()
                    if external_call.asker.via == "hook" and _has_no_process(external_call)
                ]
            )
        began = self.clock.monotonic()
        while calls := await self._undelivered():
            news = [
                (external_call, outcome)
                for external_call in calls
                if (outcome := await self.calls.outcome(external_call))
            ]
            if news:
                await self._deliver(news)
                return
            if (
                not stopping.waits
                or self.clock.monotonic() - began >= self._seconds(stopping)
                or not self.needed()
            ):
                break
            await self.clock.sleep(_POLL_INTERVAL)
        self.say(hook_agent.HookOutput())

    async def _undelivered(self) -> list[ExternalCall]:
        unfinished = [
            external_call
            for external_call in await self.calls.backlog.calls()
            if lives(external_call.asker.process) or counts_later(external_call)
        ]
        return [
            external_call
            for external_call in unfinished
            if not was_delivered(await self.calls.turn(external_call))
        ]

    async def _deliver(self, news: list[tuple[ExternalCall, Decided]]) -> None:
        lines = [
            model_messages.outcome_message(await self._subject(external_call), outcome)
            for external_call, outcome in news
        ]
        self.say(self.agent.goes_on(self.document, "\n".join(lines)))
        for (external_call, outcome), line in zip(news, lines, strict=True):
            if isinstance(outcome, Approved):
                await self.calls.tell(
                    external_call, line
                )  # the call stays open, so that it is allowed when the agent repeats it
            else:
                await self.calls.close(external_call, line)

    async def _subject(self, external_call: ExternalCall) -> str:
        first = first_question(await self.calls.turn(external_call))
        if first is None:
            return (
                f"the call of {external_call.tool} with"
                f" {canonical(external_call.arguments).decode()}"
            )
        return f'the question "{first.question.text}"'

    async def _close(self, calls: list[ExternalCall]) -> None:
        for external_call in calls:
            await self.calls.close(external_call, model_messages.ELSEWHERE)
        self.say(hook_agent.HookOutput())


def _has_no_process(external_call: ExternalCall) -> bool:
    """Return whether the process that asked no longer exists."""
    return not lives(external_call.asker.process)
