"""One run of a hook: an agent says what it is about to do, a person decides, and the agent is told something that is true."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta
from typing import assert_never

from msgspec import Struct
from msgspec.structs import replace

from midturn.errors import MidturnError
from midturn.integrations.hooks import hook_agent, model_messages
from midturn.integrations.hooks.external_call import Errand, asked, is_told
from midturn.integrations.hooks.external_calls import Errands
from midturn.integrations.hooks.model_messages import Approved, Decided, DecidedElsewhere
from midturn.integrations.hooks.undelivered_answers import counts_later
from midturn.ports import Clock
from midturn.question.json_value import JsonObject, canonical
from midturn.question.text import rfc3339
from midturn.stores.lock import lives

_LOG = logging.getLogger(__name__)
_LOOK = 0.3


class HookRun(Struct, frozen=True, kw_only=True):
    """One run of a hook: `say` gives the agent what it reads, at once."""

    agent: hook_agent.HookAgent
    document: JsonObject
    occasion: hook_agent.Occasion
    errands: Errands
    clock: Clock
    wait: float
    say: Callable[[hook_agent.Said], None]
    needed: Callable[[], bool] = lambda: True
    """Whether the agent is still there; when it is gone, its hook goes, too, and the question stays open."""

    async def go(self) -> None:
        """Ask, wait, tell, and record that it was told. Whatever goes wrong, a gate stays closed with true words."""
        occasion = self.occasion
        try:
            await self._carried_out(occasion)
        except MidturnError as error:
            _LOG.warning("the hook of %s failed: %r", self.agent.name, str(error))
            self.say(self._without_answer(occasion, f"{model_messages.FAILED} ({error})"))
        except Exception:  # noqa: BLE001  whatever it is, the agent must not take it for a yes
            _LOG.exception("the hook of %s failed", self.agent.name)
            self.say(self._without_answer(occasion, model_messages.FAILED))

    async def _carried_out(self, occasion: hook_agent.Occasion) -> None:
        match occasion:
            case hook_agent.Permit():
                await self._permit(occasion)
            case hook_agent.PutElicitation(arguments=dialog) if await self.errands.backlog.shown_in(dialog):
                self.say(hook_agent.Said())
            case hook_agent.PutForm():
                await self._ask(occasion)
            case hook_agent.Done(tool=tool, arguments=arguments):
                await self._close((await self.errands.backlog.matching(tool, arguments))[:1])
            case hook_agent.Ran():
                await self.errands.backlog.close_left()
                self.say(hook_agent.Said())
            case hook_agent.Stopping():
                await self._stop(occasion)
            case hook_agent.MovedOn():
                await self._close([errand for errand in await self.errands.backlog.errands() if _is_left(errand)])
            case hook_agent.Unaskable(why=why):
                self.say(self._without_answer(occasion, f"{model_messages.FAILED} ({why})"))
            case hook_agent.Nothing():
                self.say(hook_agent.Said())
            case _ as never:
                assert_never(never)

    # A call, a question ------------------------------------------------------------------------------------------------------

    async def _permit(self, occasion: hook_agent.Permit) -> None:
        errands = await self._begun(occasion)
        errand = await errands.permission(occasion.id, occasion.tool, occasion.arguments, occasion.always, errands.backlog.take_up)
        outcome = await self._decision(occasion, errand)
        if outcome is None:
            self.say(self.agent.left_open(self.document) if occasion.gates else hook_agent.Said())
            return
        if isinstance(outcome, DecidedElsewhere) and occasion.gates:  # silence would let it run
            self.say(self._without_answer(occasion, model_messages.FAILED))
            return
        if isinstance(outcome, Approved) and outcome.always not in occasion.always:  # what was shown is kept, and nothing else
            outcome = replace(outcome, always="")
        self.say(self.agent.permitted(self.document, occasion, outcome))
        await self.errands.close(errand, model_messages.decided(outcome))

    async def _ask(self, occasion: hook_agent.PutForm) -> None:
        errands = await self._begun(occasion)
        errand = await errands.questions(occasion.id, occasion.tool, occasion.arguments, occasion.form, errands.backlog.take_up)
        outcome = await self._decision(occasion, errand)
        if outcome is None:
            self.say(self.agent.left_open(self.document) if occasion.gates else hook_agent.Said())
            return
        self.say(self.agent.answered(self.document, occasion, outcome))
        await self.errands.close(errand, model_messages.decided(outcome))

    async def _begun(self, occasion: hook_agent.Permit | hook_agent.PutForm) -> Errands:
        """Return what asks; where the agent's own dialog asks in the end, it is on record from the beginning when that is.

        The agent goes on with this, so that nothing else stays open of what it was told would.
        """
        await self.errands.backlog.close_left(occasion.tool, occasion.arguments)
        said = hook_agent.last_words(self.document)
        if occasion.gates:
            return self.errands.of(said=said, defers=occasion.defers)
        return self.errands.of(said=said, ends=rfc3339(self.clock.now() + timedelta(seconds=self._seconds(occasion))))

    async def _decision(self, occasion: hook_agent.Permit | hook_agent.PutForm, errand: Errand) -> Decided | None:
        """Wait; None where the time is up. Then the question is over where another dialog asks it, and stays open where none does."""
        outcome = await self.errands.wait(errand, self._seconds(occasion), self.needed)
        if outcome is not None or not self.needed():
            return outcome
        if not occasion.gates:
            return await self.errands.give_up(errand, errand.asker.in_own_dialog)
        if not occasion.defers:
            await self.errands.stays_open(errand)
        return None

    def _seconds(self, occasion: hook_agent.Permit | hook_agent.PutForm | hook_agent.Stopping) -> float:
        return self.wait if occasion.seconds is None else min(self.wait, occasion.seconds)

    def _without_answer(self, occasion: hook_agent.Occasion, message: str) -> hook_agent.Said:
        return hook_agent.without_answer(self.agent, self.document, occasion, message)

    # The end of a turn -------------------------------------------------------------------------------------------------------

    async def _stop(self, stopping: hook_agent.Stopping) -> None:
        """Bring what was answered meanwhile; wait for the rest where no one is kept from typing."""
        if not stopping.waits:
            await self._close(
                [errand for errand in await self.errands.backlog.errands() if errand.asker.via == "hook" and _is_left(errand)]
            )
        began = self.clock.monotonic()
        while errands := await self._untold():
            news = [(errand, outcome) for errand in errands if (outcome := await self.errands.outcome(errand))]
            if news:
                await self._bring(news)
                return
            if not stopping.waits or self.clock.monotonic() - began >= self._seconds(stopping) or not self.needed():
                break
            await self.clock.sleep(_LOOK)
        self.say(hook_agent.Said())

    async def _untold(self) -> list[Errand]:
        unfinished = [errand for errand in await self.errands.backlog.errands() if lives(errand.asker.process) or counts_later(errand)]
        return [errand for errand in unfinished if not is_told(await self.errands.turn(errand))]

    async def _bring(self, news: list[tuple[Errand, Decided]]) -> None:
        lines = [model_messages.told(await self._subject(errand), outcome) for errand, outcome in news]
        self.say(self.agent.goes_on(self.document, "\n".join(lines)))
        for (errand, outcome), line in zip(news, lines, strict=True):
            if isinstance(outcome, Approved):
                await self.errands.tell(errand, line)  # the call comes again, and is allowed then
            else:
                await self.errands.close(errand, line)

    async def _subject(self, errand: Errand) -> str:
        first = asked(await self.errands.turn(errand))
        if first is None:
            return f"the call of {errand.tool} with {canonical(errand.arguments).decode()}"
        return f'the question "{first.question.text}"'

    async def _close(self, errands: list[Errand]) -> None:
        for errand in errands:
            await self.errands.close(errand, model_messages.ELSEWHERE)
        self.say(hook_agent.Said())


def _is_left(errand: Errand) -> bool:
    """Say whether the process that asked is gone."""
    return not lives(errand.asker.process)
