"""External calls whose outcome the agent has not received yet.

The process that asked may no longer exist, for example because a hook was killed or a bridge was
restarted. If another process receives the same call, it takes over the earlier question: it waits
for that answer instead of asking again. The session's other questions are closed when the session
continues.

| method | recognizes the call by | takes over |
|---|---|---|
| `take_up_known` | the agent's own id of the call | open and answered calls |
| `take_up` | session, subagent, tool and arguments | open calls, and answers that `counts_later` accepts |
| `take_up_open` | agent name, directory, tool and arguments (agents without a session id) | open calls only |
| `take_up_cancelled` | the call itself | a call that the agent has cancelled and repeats |
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from midturn.clock import stamp
from midturn.events.open_question import AskingAgent
from midturn.events.types import Event
from midturn.integrations.hooks import model_messages
from midturn.integrations.hooks.external_call import (
    ExternalCall,
    ExternalCallLog,
    asked_by,
    decision_of,
    external_call_of,
    is_over,
    shows,
)
from midturn.integrations.hooks.model_messages import (
    DecidedElsewhere,
    is_process_session,
    tool_name,
)
from midturn.question.json_value import JsonObject, canonical
from midturn.stores.lock import is_found, lives
from midturn.turn.view import TurnView, closed_call

# number of newest conversations to search for an earlier call
_MAX_SEARCHED = 200


def _always(external_call: ExternalCall, turn: Sequence[Event]) -> bool:
    del external_call, turn
    return True


class UndeliveredAnswers:
    """The external calls of one session whose outcome the agent has not received yet.

    Args:
        log: Log of external calls.
        asker: The session, and the process that takes over calls.
    """

    def __init__(self, log: ExternalCallLog, asker: AskingAgent) -> None:
        self._log = log
        self._asker = asker

    async def calls(self) -> list[ExternalCall]:
        """Return the unfinished calls of this session, oldest first."""
        session = (self._asker.agent, self._asker.session)
        return [
            external_call
            for external_call in await self._all_unfinished()
            if (external_call.asker.agent, external_call.asker.session) == session
        ]

    async def matching(self, tool: str, arguments: JsonObject) -> list[ExternalCall]:
        """Return the unfinished calls of this session with the same tool and arguments, oldest
        first.
        """
        name, wanted = tool_name(tool), canonical(arguments)
        return [
            external_call
            for external_call in await self.calls()
            if external_call.tool == name and canonical(external_call.arguments) == wanted
        ]

    async def shown_by_dialog(self, dialog: JsonObject) -> ExternalCall | None:
        """Return the unfinished call to midturn's MCP server whose questions a dialog of this agent
        shows, or None.

        The session is not compared, because the agent may use another session id for its hooks.
        """
        unfinished = await self._all_unfinished()
        return next(
            (
                external_call
                for external_call in unfinished
                if external_call.asker.agent == self._asker.agent and shows(dialog, external_call)
            ),
            None,
        )

    async def close_left(self, tool: str = "", arguments: JsonObject | None = None) -> None:
        """Close the earlier calls of this session, because the session continued with other work.

        Four kinds of calls stay open: the call given by `tool` and `arguments`, which `take_up`
        handles; calls that a process still waits for; calls that were deferred, so that the
        agent's run ended; and calls to midturn's MCP server, because the agent fetches their
        answers by id.
        """
        wanted = (tool_name(tool), canonical(arguments), self._asker.subagent)
        for external_call in await self.calls():
            asker = external_call.asker
            if lives(asker.process) or asker.defers or asker.via != self._asker.via:
                continue
            if (
                external_call.tool,
                canonical(external_call.arguments),
                asker.subagent,
            ) != wanted or not _is_same_call(
                external_call, await self._log.turn(external_call.conversation)
            ):
                await self._close(
                    external_call,
                    model_messages.ELSEWHERE if asker.ends else model_messages.gone_on(asker.name),
                )

    async def take_up_known(self, id: str, tool: str, arguments: JsonObject) -> ExternalCall | None:
        """Return the call that the agent already reported with this id. If the process of the call
        no longer exists, this process waits for the answer from now on.

        Closed calls are ignored, because they were decided in the agent's own dialog, or the agent
        continued without a decision.
        """
        known = await self._known(id, tool_name(tool), arguments)
        if known is None or is_found(known.asker.process):
            return known
        is_closed = isinstance(
            decision_of(await self._log.turn(known.conversation)), DecidedElsewhere
        )
        return None if is_closed else await self._take(known)

    async def take_up(self, tool: str, arguments: JsonObject) -> ExternalCall | None:
        """Return an earlier equal call whose process no longer exists, so that the question is not
        asked twice. This process waits for the answer from now on.

        If the call was already answered, the answer counts only if `counts_later` accepts it.
        """
        own = [
            external_call
            for external_call in await self.matching(tool, arguments)
            if external_call.asker.subagent == self._asker.subagent
        ]
        left = [external_call for external_call in own if not is_found(external_call.asker.process)]
        fitting = [
            external_call
            for external_call in left
            if _is_same_call(external_call, await self._log.turn(external_call.conversation))
        ]
        return await self._take(next(iter(fitting), None), _is_same_call)

    async def take_up_open(self, tool: str, arguments: JsonObject) -> ExternalCall | None:
        """Take over an open call whose process no longer exists, for an agent without a session id.

        Agents with the same name and directory are treated as the same agent. This check is
        sufficient to take over an open question, but not to use an existing answer, because the
        answer may belong to another session.
        """
        wanted, own = canonical(arguments), self._asker
        for conversation, turn in await self._log.open_turns():
            external_call = (
                external_call_of(conversation, turn) if TurnView.last(turn).waits else None
            )
            if external_call is None or (
                external_call.tool,
                canonical(external_call.arguments),
            ) != (tool_name(tool), wanted):
                continue
            if _is_same_agent(external_call.asker, own) and not is_found(
                external_call.asker.process
            ):
                return await self._take(external_call)
        return None

    async def take_up_cancelled(self, external_call: ExternalCall) -> ExternalCall:
        """Take over a call that the agent cancelled and now repeats."""
        now = await self._log.find(external_call.conversation) or external_call
        return (await self._take(now) or now) if now.asker.cancelled else now

    async def _take(
        self,
        external_call: ExternalCall | None,
        fits: Callable[[ExternalCall, Sequence[Event]], bool] = _always,
    ) -> ExternalCall | None:
        """Record that this process now waits for a call of another process. Return None if the call
        no longer matches at that moment.
        """
        if external_call is None:
            return None
        before = external_call.asker
        asker = replace(
            self._asker,
            always=before.always,
            refused=before.refused,
            round=before.round + before.cancelled,
        )
        is_valid: list[bool] = []

        def decide(turn: Sequence[Event]) -> Sequence[Event]:
            is_valid[:] = [fits(external_call, turn)]
            return asked_by(turn, asker, self._log.ids) if is_valid[0] else ()

        await self._log.write(external_call, decide)
        return replace(external_call, asker=asker) if is_valid[0] else None

    async def _known(self, id: str, tool: str, arguments: JsonObject) -> ExternalCall | None:
        """Return the earlier call with the same call id, tool, arguments and session."""
        if not id:
            return None
        wanted = canonical(arguments)
        for conversation in await self._log.store.port.newest(_MAX_SEARCHED):
            external_call = await self._log.find(conversation)
            if external_call and (
                external_call.id,
                external_call.tool,
                external_call.asker.session,
            ) == (id, tool, self._asker.session):
                return external_call if canonical(external_call.arguments) == wanted else None
        return None

    async def _all_unfinished(self) -> list[ExternalCall]:
        """Return the unfinished calls of all agents, oldest first."""
        found = [
            external_call_of(conversation, turn)
            for conversation, turn in await self._log.open_turns()
            if not is_over(turn)
        ]
        return [
            external_call
            for external_call in found
            if external_call and not await self._has_ended(external_call)
        ]

    async def _has_ended(self, external_call: ExternalCall) -> bool:
        """Close a call if its recorded end time has passed and its process no longer exists. Return
        whether the call was closed.
        """
        if not external_call.asker.has_ended(stamp(self._log.clock)) or lives(
            external_call.asker.process
        ):
            return False
        await self._close(external_call, external_call.asker.in_own_dialog)
        return True

    async def _close(self, external_call: ExternalCall, content: str) -> None:
        await self._log.write(
            external_call, lambda turn: closed_call(TurnView.last(turn), content, self._log.ids)
        )


def counts_later(external_call: ExternalCall) -> bool:
    """Return whether to use an answer that was given while no process waited for it.

    The answer counts only if the call cannot have been decided in another way. There are two
    conditions. First, the agent's own dialog did not ask the same question. Second, the agent was
    informed that the question stays open, its run was deferred, it asked through another interface
    than a hook, or it no longer runs. If only the hook was killed, the agent itself decided.
    """
    asker = external_call.asker
    is_gone = asker.serves is not None and not lives(asker.serves)
    return not asker.ends and (asker.left or asker.defers or asker.via != "hook" or is_gone)


def _is_same_call(external_call: ExternalCall, turn: Sequence[Event]) -> bool:
    """Return whether an equal call can take over the earlier call: it must be open, or its answer
    must count.
    """
    return TurnView.last(turn).waits or counts_later(external_call)


def _is_same_agent(asked: AskingAgent, now: AskingAgent) -> bool:
    """Return whether both are the same agent: the same name, directory and interface (`via`), and
    the same session id unless both have none.
    """
    if (asked.name, asked.via, asked.cwd) != (now.name, now.via, now.cwd):
        return False
    return asked.session == now.session or (
        is_process_session(asked.session) and is_process_session(now.session)
    )
