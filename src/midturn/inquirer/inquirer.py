"""The question layer without our loop, for people who have one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

from midturn.compose.given import GivenTarget, check_model, check_prompter, limits_of, policy_of, routes_of, tools_of
from midturn.compose.inquirer import InquirerParts, compose_inquirer
from midturn.compose.models import Models
from midturn.compose.run_parts import Prompter, RunParts, Silence
from midturn.core.json_value import JsonObject
from midturn.core.limits import Limits
from midturn.core.names import BUILT_IN_TOOLS
from midturn.core.routing.policy import DetachedPolicy
from midturn.core.source import Source
from midturn.errors import CallEnded, ConfigError, Suspended
from midturn.inquirer.call import InquirerCall, check_call
from midturn.ports import Model, Tool
from midturn.runtime.foreign_turn import ForeignTurn
from midturn.store.store import ConversationStore
from midturn.tools.source import source_of


class Inquirer:
    """Asks, routes, records and replays for a loop that is not ours.

    ```python
    async with inquirer.call("deploy", call_id, {"env": "staging"}) as call:
        if not await call.ask(Question.boolean("confirm", "Deploy to staging?")):
            raise Rejected("Not deployed.")
        call.finish("Deployed.")
    ```

    A call whose process died, or that ended in `Suspended`, is made again with the same tool, id and arguments: what was answered is
    not asked again. `turn` holds a turn over several calls; a call outside of it is a turn of its own. What was remembered
    holds for the turn.
    """

    def __init__(  # noqa: PLR0913  (a public signature)
        self,
        store: ConversationStore,
        conversation: str,
        prompter: Prompter | None = None,
        detached: DetachedPolicy = "defer",
        *,
        routes: Mapping[str, GivenTarget] | None = None,
        limits: Limits | Mapping[str, object] | None = None,
        model: Model | str | None = None,
        source: Source | None = None,
    ) -> None:
        """Stand on a conversation.

        Args:
            store: Where the conversation is kept.
            conversation: Its id (`await store.new(…)` makes one); it is held while a turn is.
            prompter: Who answers for the user; nobody is attached where there is none.
            detached: What happens to questions then: `defer`, `auto`, `defaults` or `deny`.
            routes: Who is to answer, by `<tool>.<question>`, as for `Agent`.
            limits: As for `Agent`; how many model requests a turn takes is not counted here.
            model: Who answers where a question is routed to the assistant.
            source: Who asks in every call, such as `Source("other", "Claude Code")`; without it, each call's own tool.
        """
        models = Models(llm={}, display=Silence())
        answering = models.named(model) if isinstance(model, str) else model and models.around(check_model(model))
        self._parts = InquirerParts(
            model=answering,
            detached=policy_of(detached),
            routes=routes_of(routes, None),
            limits=limits_of(limits),
            models=models,
            source=source,
        )
        self._store = store
        self._conversation = conversation
        self._prompter = check_prompter(prompter)
        self._turn: ForeignTurn | None = None
        self._holders = 0
        self._changing = asyncio.Lock()
        self._closing = AsyncExitStack()

    @asynccontextmanager
    async def turn(self, text: str = "", *, author: str | None = None) -> AsyncGenerator[None]:
        """Hold one turn: the one that was left open, or a new one, which begins with what the user said, if that is known.

        Raises:
            StoreLocked: Somebody else writes the conversation.
            StoreError: It cannot be read or written.
        """
        async with self._held(text, author):
            yield

    @asynccontextmanager
    async def call(self, tool: str | Tool, call_id: str, arguments: JsonObject | None = None) -> AsyncGenerator[InquirerCall]:
        """Make one call of a tool (of yours by its name, or one of ours), with its questions inside the block.

        What the block raises is recorded as the tool's error and raised on. `Suspended`, and cancelling the task, leave the call
        unfinished, to be made again.

        Raises:
            Suspended: Nobody is there to answer now; `pending` says what is open.
            CallEnded: There is no answer, and the call is over.
            ConfigError: The tool's name, the id or the arguments cannot be used.
            StoreLocked: Somebody else writes the conversation.
            StoreError: It cannot be read or written.
        """
        name, source = _asking(tool, self._parts.source)
        check_call(name, call_id, arguments, self._parts.limits.json_depth)
        async with self._held() as turn:
            foreign = await turn.call(source, name, call_id, arguments or {})
            call = InquirerCall(source, turn, foreign)
            try:
                yield call
            except Exception as error:
                if not isinstance(error, Suspended | CallEnded):
                    await call.fail(error)
                raise
            else:
                await call.end(call.outcome)
            finally:
                call.leave()

    @asynccontextmanager
    async def _held(self, text: str = "", author: str | None = None) -> AsyncGenerator[ForeignTurn]:
        """Hold the conversation and its turn as long as anybody needs it; who comes while they are let go waits for that."""
        async with self._changing:
            if self._turn is None:
                self._turn = await self._begun(text, author)
            self._holders += 1
        try:
            yield self._turn
        finally:
            self._holders -= 1
            if self._holders == 0:
                async with self._changing:
                    turn, self._turn = self._turn, None
                    async with self._closing.pop_all():
                        await turn.close()

    async def _begun(self, text: str, author: str | None) -> ForeignTurn:
        async with AsyncExitStack() as undone:
            journal = await undone.enter_async_context(await self._store.open(self._conversation))
            turn = compose_inquirer(self._parts, RunParts(prompter=self._prompter), journal)
            await turn.begin(text, author)
            self._closing = undone.pop_all()
        return turn


def _asking(tool: str | Tool, source: Source | None) -> tuple[str, Source]:
    """Return a tool's name, and who asks when it asks: `source`, where somebody else's agent makes all calls.

    Raises:
        ConfigError: The name belongs to a built-in tool, and this is not it; or the tool claims to be somebody else.
    """
    if not isinstance(tool, str):
        (checked,) = tools_of([tool])
        return checked.definition.name, source_of(checked)
    if source:
        return tool, source
    if tool in BUILT_IN_TOOLS:
        raise ConfigError(f"`{tool}` is the name of a built-in tool; give yours another, or pass the built-in tool itself.")
    return tool, Source.tool(tool)
