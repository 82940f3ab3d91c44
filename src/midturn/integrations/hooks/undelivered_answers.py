"""Questions of an agent's session whose outcome the agent has not heard yet.

The process that asked may be gone: a hook is killed, a bridge starts anew. Then the same question is taken up by the process that hears of
the same call next, so that it is not answered twice, and the rest is closed when the session goes on.

| method | recognizes the call by | takes up |
|---|---|---|
| `take_up_known` | the agent's own id for it | what is open or answered, not what was closed |
| `take_up` | session, subagent, tool and arguments | what is open, and an answer that `counts_later` |
| `take_up_open` | name and directory of an agent without a session, tool and arguments | what is open: an answer may be another session's |
| `take_up_cancelled` | the errand itself | a call that its asker has cancelled and now makes again |
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from midturn.clock import stamp
from midturn.events.open_question import Asker
from midturn.events.types import Event
from midturn.integrations.hooks import model_messages
from midturn.integrations.hooks.external_call import Errand, ErrandLog, asked_by, decided, errand_of, is_over, shows
from midturn.integrations.hooks.model_messages import DecidedElsewhere, is_nameless, tool_name
from midturn.question.json_value import JsonObject, canonical
from midturn.stores.lock import is_found, lives
from midturn.turn.view import TurnView, closed_call

_RECENT = 200  # conversations among which a call is looked for that was made before


def _always(errand: Errand, turn: Sequence[Event]) -> bool:
    del errand, turn
    return True


class Backlog:
    """The errands of one asker's session that it has not heard about.

    Args:
        log: Where errands are recorded.
        asker: The session, and the process that takes up what another has left.
    """

    def __init__(self, log: ErrandLog, asker: Asker) -> None:
        self._log = log
        self._asker = asker

    async def errands(self) -> list[Errand]:
        """Return what this session has asked and not yet heard about, oldest first."""
        mine = (self._asker.agent, self._asker.session)
        return [errand for errand in await self._of_all() if (errand.asker.agent, errand.asker.session) == mine]

    async def matching(self, tool: str, arguments: JsonObject) -> list[Errand]:
        """Return what this session has asked about such a call and not yet heard, oldest first."""
        name, wanted = tool_name(tool), canonical(arguments)
        return [errand for errand in await self.errands() if errand.tool == name and canonical(errand.arguments) == wanted]

    async def shown_in(self, dialog: JsonObject) -> Errand | None:
        """Return what this agent has asked through our server and not yet heard, where a dialog that it is about to open shows just that.

        Its session may go by another name by now.
        """
        unfinished = await self._of_all()
        return next((errand for errand in unfinished if errand.asker.agent == self._asker.agent and shows(dialog, errand)), None)

    async def close_left(self, tool: str = "", arguments: JsonObject | None = None) -> None:
        """Close what this session has left behind: it does something else now, perhaps this call.

        What was asked about this very call is left to `take_up`. Nothing is closed that a process still waits for, that its run has
        ended with, or that our server has asked, whose answers are asked for by their id.
        """
        wanted = (tool_name(tool), canonical(arguments), self._asker.subagent)
        for errand in await self.errands():
            asker = errand.asker
            if lives(asker.process) or asker.defers or asker.via != self._asker.via:
                continue
            if (errand.tool, canonical(errand.arguments), asker.subagent) != wanted or not _is_same_call(
                errand, await self._log.turn(errand.conversation)
            ):
                await self._close(errand, model_messages.ELSEWHERE if asker.ends else model_messages.gone_on(asker.name))

    async def take_up_known(self, id: str, tool: str, arguments: JsonObject) -> Errand | None:
        """Return what was asked under the id that the agent gives a call; where the process that asked is gone, this one waits now.

        What was closed since then says nothing about a call that comes again: the agent's own dialog had it, or the agent had gone on.
        """
        known = await self._known(id, tool_name(tool), arguments)
        if known is None or is_found(known.asker.process):
            return known
        is_closed = isinstance(decided(await self._log.turn(known.conversation)), DecidedElsewhere)
        return None if is_closed else await self._take(known)

    async def take_up(self, tool: str, arguments: JsonObject) -> Errand | None:
        """Return what was asked before by a process that is gone: it is the same question, and not asked twice. Now this one waits.

        What was answered meanwhile counts only where this must be the call that it was asked for: see `counts_later`.
        """
        own = [errand for errand in await self.matching(tool, arguments) if errand.asker.subagent == self._asker.subagent]
        left = [errand for errand in own if not is_found(errand.asker.process)]
        fitting = [errand for errand in left if _is_same_call(errand, await self._log.turn(errand.conversation))]
        return await self._take(next(iter(fitting), None), _is_same_call)

    async def take_up_open(self, tool: str, arguments: JsonObject) -> Errand | None:
        """Take up what waits for a person, and was asked by a process that is gone.

        An agent that has no name for its session is the one that asked if it has the same name and works in the same directory. That is
        enough for a question that is still to be answered, and not for an answer: it may be another session.
        """
        wanted, own = canonical(arguments), self._asker
        for conversation, turn in await self._log.open_turns():
            errand = errand_of(conversation, turn) if TurnView.last(turn).waits else None
            if errand is None or (errand.tool, canonical(errand.arguments)) != (tool_name(tool), wanted):
                continue
            if _is_same(errand.asker, own) and not is_found(errand.asker.process):
                return await self._take(errand)
        return None

    async def take_up_cancelled(self, errand: Errand) -> Errand:
        """Take up a question whose asker has cancelled its call, and now makes the same call again."""
        now = await self._log.find(errand.conversation) or errand
        return (await self._take(now) or now) if now.asker.cancelled else now

    async def _take(self, errand: Errand | None, fits: Callable[[Errand, Sequence[Event]], bool] = _always) -> Errand | None:
        """Have this process wait for what another one has asked; None where it does not fit any more when that is written."""
        if errand is None:
            return None
        before = errand.asker
        asker = replace(self._asker, always=before.always, refused=before.refused, round=before.round + before.cancelled)
        still: list[bool] = []

        def decide(turn: Sequence[Event]) -> Sequence[Event]:
            still[:] = [fits(errand, turn)]
            return asked_by(turn, asker, self._log.ids) if still[0] else ()

        await self._log.write(errand, decide)
        return replace(errand, asker=asker) if still[0] else None

    async def _known(self, id: str, tool: str, arguments: JsonObject) -> Errand | None:
        """Find a call that was made before, under the id that the agent gives it."""
        if not id:
            return None
        wanted = canonical(arguments)
        for conversation in await self._log.store.port.newest(_RECENT):
            errand = await self._log.find(conversation)
            if errand and (errand.id, errand.tool, errand.asker.session) == (id, tool, self._asker.session):
                return errand if canonical(errand.arguments) == wanted else None
        return None

    async def _of_all(self) -> list[Errand]:
        """Return what any agent has asked and not yet heard about, oldest first."""
        found = [errand_of(conversation, turn) for conversation, turn in await self._log.open_turns() if not is_over(turn)]
        return [errand for errand in found if errand and not await self._has_ended(errand)]

    async def _has_ended(self, errand: Errand) -> bool:
        """Close what has come to its recorded end while no process was there to close it."""
        if not errand.asker.has_ended(stamp(self._log.clock)) or lives(errand.asker.process):
            return False
        await self._close(errand, errand.asker.in_own_dialog)
        return True

    async def _close(self, errand: Errand, content: str) -> None:
        await self._log.write(errand, lambda turn: closed_call(TurnView.last(turn), content, self._log.ids))


def counts_later(errand: Errand) -> bool:
    """Say whether an answer counts that came when no process waited for it any more.

    It does where no one else can have decided meanwhile: no dialog of the agent has asked the same, and the agent has either heard that the
    question stays open, or is gone itself. A hook that is killed while its agent goes on leaves the call to the agent.
    """
    asker = errand.asker
    is_gone = asker.serves is not None and not lives(asker.serves)
    return not asker.ends and (asker.left or asker.defers or asker.via != "hook" or is_gone)


def _is_same_call(errand: Errand, turn: Sequence[Event]) -> bool:
    """Say whether a call of the same arguments may go on with what was asked before: a person has still to answer, or the answer counts."""
    return TurnView.last(turn).waits or counts_later(errand)


def _is_same(asked: Asker, now: Asker) -> bool:
    """Say whether these may be the same agent's: by its own name for its session, or by where it works."""
    if (asked.name, asked.via, asked.cwd) != (now.name, now.via, now.cwd):
        return False
    return asked.session == now.session or (is_nameless(asked.session) and is_nameless(now.session))
