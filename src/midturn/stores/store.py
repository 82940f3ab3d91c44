"""`ConversationStore`: the behaviour that is the same for all storage backends, on top of a
`StorePort`.

Theory of operation
===================

A conversation is an append-only log with at most one writer. A `StorePort` (files, memory,
PostgreSQL) can lock a conversation, append a batch to it, and read it without a lock. Everything
else is implemented once, here and in the neighbouring modules.

**States of a conversation.** It is locked (one process writes it) or free, and its last turn is
open or finished. An open turn is *ready* if an answer lets it continue (`turn/record.py`). It is
*due* if it can continue without waiting for a person: it is ready, or its process died, or the
pause after a failure of the model is over. Workers claim due turns.

**Answering.** `answer` works whether or not a turn runs. If the conversation is free,
`stores/decisions.py` returns the events for the answer, and they are written in one transaction
of the port. If it is locked, the answer is queued, and the process with the lock records it. If
that process dies, the next process that opens the conversation records the queued answers first
(`drain_answer_queue`). So an acknowledged answer is never lost.

**Guarantees.**

1. A batch is in the log as a whole or not at all. On files and in PostgreSQL it survives a crash
   once `append` has returned.
2. The first answer to a question counts. A later answer fails with an error that names the
   responder, the interface and the time (`turn/view.py`).
3. Reading takes no lock and never blocks a writer.
4. Caches and indexes can be lost at any time: they are computed again from the logs.

**Why the rules are not in the port.** If each of three stores decided when an answer counts, the
stores would differ. The port's `settle` calls the decision while there is no other writer, and
the decision itself is a pure function.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, cast

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from midturn.clock import SYSTEM, TimeOfDay, trusted
from midturn.errors import (
    AnswerError,
    MidturnError,
    NotAllowed,
    Problem,
    StoreError,
    StoreLocked,
    TooOld,
)
from midturn.events.open_question import OpenQuestion, asker_of
from midturn.events.types import AnsweredBy, Child, Escalated, Notified, Reassigned, Reminded, Vote
from midturn.events.window import last_turn, parent_of
from midturn.question.json_value import Json, JsonObject, as_json
from midturn.question.people import checked_names
from midturn.question.public_names import public_repr
from midturn.question.reply import Scope
from midturn.question.text import check_text
from midturn.stores.authorization import Authorizer, CurrentPeople, MayAnswer
from midturn.stores.batch import check_version, without_standing_decision
from midturn.stores.conversation import Conversation
from midturn.stores.ending import TurnEnder, as_owner as owner_of, barred_in, check_ending
from midturn.stores.lock import looked_at
from midturn.stores.locked import LockedConversation
from midturn.stores.log_tail import Mark, Part
from midturn.stores.nested_conversations import (
    end_children,
    is_answered_inside,
    open_family,
    root_of,
    whole_family,
)
from midturn.stores.port import (
    NO_KEYS,
    CommittedBatch,
    LastTurn,
    LockedBy,
    PortJournal,
    StorePort,
    following,
)
from midturn.stores.pruning import Prunable, Pruned, Pruning
from midturn.stores.question_entries import remove_entries
from midturn.stores.queued_answer import SubmittedAnswer
from midturn.stores.sync_forms import drive, in_a_loop, keeper, refuse_inside_a_loop, sync_form
from midturn.stores.watching import (
    OnWake,
    StoreChange,
    Watch,
    changes,
    happened,
    happened_and_recorded,
    wake,
)
from midturn.turn.ending import TurnEnding

_LOG = logging.getLogger("midturn.store")
_IGNORED_SECONDS = 300.0
"""Seconds during which a worker ignores a conversation that needs a newer version, so that a newer
worker can claim it.
"""
_MAX_KEY = 1_000  # maximum length of a key, in characters
if TYPE_CHECKING:
    from midturn.stores.answer_service import AnswerService, IncomingAnswer, Receipt

T = TypeVar("T")
WriteRule: TypeAlias = "Callable[[OpenQuestion, JsonObject | None, Scope], str]"
"""Writes a standing permission into a configuration; returns a sentence for the user."""
NO_WRITER = (
    "A permission for the project, or for everywhere, is a rule in a configuration, and this"
    " program does not write rules. Use the scope `conversation`, or answer with `midturn answer`"
    " at a terminal."
)


class ConversationStore:
    """Conversations by ID, their open questions, and methods to answer them.

    Create one with `open_store` or `MemoryStore`. Every method has a synchronous form for programs
    without an event loop: `pending_sync`, `answer_sync` and so on.
    """

    def __init__(
        self,
        port: StorePort,
        admission: Authorizer | None = None,
        clock: TimeOfDay = SYSTEM,
        on_wake: OnWake | None = None,
        rule_writer: WriteRule | None = None,
    ) -> None:
        """Create a store that keeps its conversations in `port`."""
        self.port = port
        """The storage backend."""
        self.admission = Authorizer() if admission is None else admission
        """The authorization rules."""
        self._clock = clock
        self._rule_writer = rule_writer
        self._on_wake = on_wake
        self._left: dict[
            str,
            float,
            # conversations that need a newer version of midturn, and the time until which they are
            # ignored
        ] = {}
        self._told: set[str] = set()  # newer versions for which a warning was already logged

    def __repr__(self) -> str:
        return public_repr(self, "ConversationStore")

    def with_authorizer(self, may_answer: MayAnswer) -> ConversationStore:
        """Return a store with the same conversations and one more authorization rule,
        `may_answer(question, user)`, sync or async.
        """
        return ConversationStore(
            self.port,
            self.admission.with_rule(may_answer),
            self._clock,
            self._on_wake,
            self._rule_writer,
        )

    def with_rule_writer(self, write: WriteRule) -> ConversationStore:
        """Return a store with the same conversations, for a program that writes standing
        permissions into a configuration.

        Args:
            write: Called as `write(question, rule, scope)` after an approval with the scope
                `project` or `everywhere` was accepted. `rule` is None for calls with equal
                arguments. The function returns a sentence for the user.
        """
        return ConversationStore(self.port, self.admission, self._clock, self._on_wake, write)

    @property
    def writes_rules(self) -> bool:
        """Whether an approval may have the scope `project` or `everywhere`."""
        return self._rule_writer is not None

    def with_people(self, people: CurrentPeople) -> ConversationStore:
        """Return a store with the same conversations and the configured people. The configuration
        is read for each answer.

        The configuration maps logins to people. A person who was removed from the configuration
        may no longer decide questions assigned to them.

        Args:
            people: Returns the currently configured people.
        """
        return ConversationStore(
            self.port,
            self.admission.with_people(people),
            self._clock,
            self._on_wake,
            self._rule_writer,
        )

    def with_ready_callback(self, on_wake: OnWake) -> ConversationStore:
        """Return a store with the same conversations that calls `on_wake(conversation)`, sync or
        async, after each answer that lets a turn continue.

        For programs with their own job runner: let the job call `await agent.resume(conversation)`.
        The callback runs in the process that recorded the answer. The call is lost if that process
        dies, so also poll `ready()` from time to time.
        """
        return ConversationStore(self.port, self.admission, self._clock, on_wake, self._rule_writer)

    # Conversations
    # ----------------------------------------------------------------------------------------------

    async def new(self, title: str = "", *, key: str | None = None) -> str:
        """Create a conversation without events; return its ID.

        Args:
            title: Title for lists. If it is empty, lists show the first message.
            key: Your own key for the conversation, such as the ID of a thread in a chat program. If
                a conversation has this key, its ID is returned and no conversation is created, even
                if several processes call this at the same time. At most 1,000 characters. If the
                key contains an ID that users choose, put the user first
                (`f"chat:{user}:{thread}"`), so that no user gets another user's conversation.

        Raises:
            ValueError: The key is empty, too long, or not valid Unicode.
            StoreError: The store cannot be written, or it does not support keys.
        """
        check_text("title", title)
        found = None if key is None else await self.find(key)
        if found is not None:
            return found
        async with await self.create(title) as journal:
            created = journal.conversation
        if key is None:
            return created
        holder = await self.port.assign_key(key, created)
        if holder != created:  # another process created a conversation with this key first
            await self.port.remove(created)
        return holder

    async def find(self, key: str) -> str | None:
        """Return the ID of the conversation that was created with a key, or None if there is none,
        or if the conversation was removed.

        Args:
            key: The key that was passed to `new`.

        Raises:
            ValueError: The key is empty, too long, or not valid Unicode.
            StoreError: The store cannot be read, or it does not support keys.
        """
        _check_key(key)
        if not hasattr(self.port, "find_key"):  # a store written for an older version
            raise StoreError(NO_KEYS)
        return await self.port.find_key(key)

    async def read(self, id: str) -> Conversation:
        """Read a conversation, without a lock.

        Args:
            id: ID of the conversation.

        Raises:
            StoreError: There is no such conversation, or the conversation cannot be read.
        """
        return await self.port.read(id)

    async def ids(self, *, after: str | None = None, limit: int | None = None) -> list[str]:
        """Return the ids of conversations that contain events, oldest first: all of them, or at
        most `limit` that come after the id `after`.
        """
        return await self.port.ids(after=after, limit=limit, which="begun")

    async def fork(self, id: str, turns: int | None = None) -> str:
        """Copy the finished turns of a conversation (all, or the first `turns`) into a new
        conversation. Return the id of the new conversation.

        An open turn is not copied, because its questions can be answered in one conversation only.
        Standing permissions and answers of the conversation have no effect in the copy.

        Args:
            id: The id of the conversation.
            turns: Number of turns from the start; None for all finished turns.
        """
        lines, original = await self.port.lines(id), await self.port.read(id)
        copied = [
            without_standing_decision(line) for line in lines[: original.finished_length(turns)]
        ]
        return await self.port.add(copied, original.metadata)

    async def remove(self, id: str, *, user: str | None = None) -> None:
        """Remove a conversation permanently, with the conversations of agents that ran inside its
        tools.

        Args:
            id: ID of the conversation. The ID of a nested conversation also removes the whole
                family.
            user: The user who removes the conversation. If an open question is assigned to
                certain people, only they can remove the conversation.

        Raises:
            NotAllowed: The conversation has an open question that this user may not decide.
            StoreLocked: The conversation is locked.
            StoreError: There is no such conversation, or the conversation cannot be removed.
        """
        family = await whole_family(self.port, await root_of(self.port, id))
        if len(family) > 1 and isinstance(await self.port.look(family[-1]), LockedBy):
            await self.port.remove(family[-1])  # the error names the process
        who = _person(user, "api")
        await check_ending(self.port, self.admission, family[-1], who)
        for each in family:
            why: list[str] = []

            def may_go(
                turn: LastTurn, why: list[str] = why
            ) -> bool:  # called again while no one else can write
                why.append(barred_in(turn.events, self.admission, who))
                return not why[-1]

            try:
                await self.port.look(each)
            except StoreError:  # an unreadable conversation has no open question
                await self.port.remove(each)
                continue
            if not await self.port.remove(each, may_go) and why:
                raise NotAllowed(why[-1], user=user)
        await remove_entries(self.port, family)

    async def end(
        self,
        conversation: str,
        *,
        user: str | None = None,
        via: str = "api",
        answered_by: Literal["user", "agent"] = "user",
        as_owner: bool = False,
    ) -> bool:
        """End the open turn of a conversation together with its outer and nested turns, whether
        or not a question is open.

        Args:
            conversation: ID of the conversation.
            user: The user who ends the turn; recorded.
            via: Interface: `inbox`, `web`, `api`, `mcp`.
            answered_by: `agent` if a program ends the turn on its own behalf, without a person.
            as_owner: Whether to end the turn as the owner of a local store, even if other people
                have to decide its questions; recorded.

        Returns:
            Whether another process is running the turn. That process ends it and stops its tools.

        Raises:
            NotOpen: No turn is open.
            NotAllowed: Other people have to decide a question of the turn, or the store does not
                belong to the user of this process.
            PersonNeeded: The store is in the user's data directory, and this process was started by
                a tool.
            Busy: Other processes kept writing the conversation; try again.
            StoreError: The conversation cannot be read or written.
        """
        check_text("conversation", conversation)
        who = SubmittedAnswer(user=user, via=via, answered_by=_checked(answered_by)).by
        if as_owner:
            who = owner_of(self.port, who)

        def check(turn: LastTurn) -> None:
            from midturn.stores.answer_service import (
                check_that_a_person_answers,
            )  # not needed by programs that only list questions

            if turn.is_for_people:
                check_that_a_person_answers(asker_of(turn.events))

        return await TurnEnder(
            self.port, self.admission, self._clock, conversation, who, check
        ).end(partial(_take_over, self))

    async def prune(self, older: timedelta) -> Pruned:
        """Permanently remove conversations without an open turn whose last event is older than
        `older`; return them.

        Conversations of nested agents are removed together with the outer conversation. A
        conversation that has no event an hour after its creation is removed as well: its process
        was killed before it recorded the first message.

        Args:
            older: Minimum age of the last event.
        """
        return await Pruning(self.port, self._clock.now(), older).removed()

    async def prunable(self, older: timedelta) -> list[Prunable]:
        """Return the conversations that `prune` would remove now, oldest first. Nested
        conversations are not listed separately.

        Args:
            older: Minimum age of the last event.
        """
        return [prunable async for prunable in Pruning(self.port, self._clock.now(), older).found()]

    async def end_children(self, children: Sequence[Child], ending: TurnEnding) -> None:
        """End the open nested turns of a turn that ends.

        Args:
            children: The events that name the nested turns.
            ending: The ending of the nested turns.
        """
        await end_children(self.port, self._clock, children, ending)

    def require_person(self, what: str = "answer questions") -> None:
        """Refuse an action that only a person may perform in this store, if this process was
        started by a tool or by an agent that midturn serves.

        Args:
            what: The action, for the error message.

        Raises:
            PersonNeeded: The store is in the user's data directory, and this process was started by
                a tool or an agent.
        """
        if self.port.is_for_people:
            from midturn.security.authorization import (
                require_human,
            )  # not needed by programs that only read

            require_human(what)

    # Questions
    # ----------------------------------------------------------------------------------------------

    async def pending(
        self, conversation: str | None = None, *, after: str | None = None, limit: int | None = None
    ) -> list[OpenQuestion]:
        """Return the open questions of one conversation or of all conversations, or a page of the
        questions. The oldest conversation comes first.

        Questions of nested agents belong to the outer conversation.

        Args:
            conversation: ID of the conversation; None for all.
            after: ID of the last question of the previous page. If that question has been closed
                since, the page starts with its conversation.
            limit: Maximum number of questions; None for all.
        """
        if conversation is None:
            return await _page(self.port, self._clock, "", after, limit)
        family = [f"{id}-" for id in await open_family(self.port, conversation)]  # noqa: A001
        found = [
            question
            for prefix in family
            for question in await _page(self.port, self._clock, prefix, None, None)
        ]
        return following(found, after)[:limit]

    async def ready(self, *, interrupted: bool = False) -> list[str]:
        """Return the IDs of the free conversations whose turn can continue after a decision.

        A turn can continue if an open question was answered, or if its deadline has passed (this
        method then records that). Calls by other agents are not listed, because those agents
        continue them.

        Args:
            interrupted: Whether to list interrupted turns as well. A turn is interrupted if its
                process died in a model request or a call, if its model failed, or if its run was
                stopped, for example with Ctrl-C in a program. The log does not distinguish these
                cases. Workers (`Agent.work`) continue all of them; `midturn serve` and `midturn
                resume --ready` continue none.
        """
        await _outside_answers(self, self._clock).expire()
        return await self.port.ids(which="ready_or_interrupted" if interrupted else "ready")

    async def open_turns(self, conversation: str | None = None) -> set[str]:
        """Return the conversations whose last turn is open. With `conversation`, check only that
        one.

        Args:
            conversation: ID of the conversation; None for all.
        """
        if conversation is None:
            return set(await self.port.ids(which="open"))
        try:
            turns = (await self.port.read(conversation)).turns
        except StoreError:  # the conversation was removed
            return set()
        return {conversation} if turns and turns[-1].open else set()

    async def answer(  # noqa: PLR0913  a public signature
        self,
        id: str | OpenQuestion,
        value: Any = UNSET,
        *,
        approve: bool | None = None,
        arguments: Json | UnsetType = UNSET,
        content: str | UnsetType = UNSET,
        reply: str | None = None,
        back: bool = False,
        cancel: bool = False,
        reason: str | None = None,
        remember: bool | str = False,
        user: str | None = None,
        via: str = "api",
        digest: str = "",
        login: str | None = None,
        answered_by: Literal["user", "agent"] = "user",
        scope: Scope | None = None,
        rule: JsonObject | None = None,
    ) -> Receipt:
        """Answer the open question `id` (its complete address) in exactly one way.

        The turn may be running in another process.

        If several people have to approve, an approval is a vote, and `votes` of the receipt shows
        the count so far.

        Args:
            id: The question, or its ID, as `pending()` lists them.
            value: The answer, as JSON or as the Python type of the question (a member of its
                `Enum`, an instance of its dataclass). For a whole form, an object by question ID.
            approve: The decision about a call (kind `run`), a result (`deliver`) or the answers of
                a form (`review`).
            arguments: Arguments to run the call with instead.
            content: Content to deliver instead of the result.
            reply: Text for the model instead of an answer; may be empty.
            back: Ask the previous question of a form or of its review again.
            cancel: End the turn.
            reason: Reason; recorded with a value or a decision.
            remember: Remember the decision for the rest of the turn: for this question, or for all
                calls of the tool. For a call by another agent, the permission that the agent should
                remember: one of `asker.always`, or `True` if there is only one.
            user: The user who answers, as identified by the calling program.
            via: Interface: `inbox`, `web`, `api`, `mcp`.
            digest: `OpenQuestion.digest` of the question that the user saw. An approval or an edit
                counts only if the question is still the same. Without it, an approval is refused if
                `OpenQuestion.needs_digest` is true.
            login: The login or account of the user in the interface, if it differs from their name;
                recorded.
            answered_by: `agent` if a program answers on its own behalf, without a person. It is
                recorded, and refused if only a person may answer (an approval, an exclusive
                question, a secret, or a question assigned to people).
            scope: Scope of the answer: `conversation`, `project` or `everywhere`. An approval of a
                call then also applies to later calls with equal arguments. An answer to a question
                then applies to the rest of the conversation, if the tool allows it (`persistence =
                "conversation"`). None: only for this question. Refused if certain people have to
                decide. A permission for the project, or for everywhere, is written to a
                configuration: see `with_rule_writer`.
            rule: Only with a `scope`: a configuration rule that selects the calls that the approval
                covers. None: calls with equal arguments.

        Raises:
            AnswerError: The answer is not valid; `problems` says why. This method never accepts a
                secret.
            DigestMismatch: The question has changed since the user saw it, or a required digest
                is missing.
            NotAllowed: This user may not answer the question; the question stays open.
            AlreadyAnswered: Another answer came first; `answered_by` contains the responder, the
                interface and the time.
            NotOpen: The question was closed without an answer, or never existed (`NoSuchQuestion`).
            PersonNeeded: The store is in the user's data directory, and this process was started by
                a tool, or by the agent that asks.
            Busy: Other processes kept writing the conversation; try again.
            StoreError: The conversation cannot be read or written.
        """
        given = SubmittedAnswer(
            *(
                value if value is UNSET else as_json(value),
                approve,
                arguments,
                content,
                reply,
                back,
                cancel,
                reason,
                remember,
                user,
                via,
                digest,
                login,
            ),
            *(_checked(answered_by), scope, rule),
        )
        if scope is None or scope == "conversation":
            return await self._submit(id, given)
        return await self._submit_with_rule(id, given, scope)

    async def _submit_with_rule(
        self, id: str | OpenQuestion, given: SubmittedAnswer, scope: Scope
    ) -> Receipt:
        """Submit an approval. If it is accepted, write the rule that applies it to later calls."""
        if self._rule_writer is None:
            raise AnswerError([Problem("", NO_WRITER)])
        address = _address(id)
        question = next(
            (each for each in await self.port.questions(address) if each.id == address), None
        )
        receipt = await self._submit(id, given)
        if question is None:
            return receipt
        try:
            return replace(receipt, standing=self._rule_writer(question, given.rule, scope))
        except (MidturnError, OSError) as error:
            return replace(receipt, standing=f"The call may run, but no rule was written: {error}")

    async def reassign(
        self,
        id: str | OpenQuestion,
        to: Sequence[str],
        *,
        reason: str | None = None,
        user: str | None = None,
        via: str = "api",
    ) -> Receipt:
        """Reassign an open question to other people. If only certain people may answer the
        question, it can be reassigned only to these people.

        Args:
            id: The question, or its ID, as `pending()` lists them.
            to: Names of people and groups.
            reason: Reason; recorded.
            user: The user who reassigns the question.
            via: Interface: `inbox`, `web`, `api`, `mcp`.

        Raises:
            NotAllowed: This user, or one of the people in `to`, may not answer the question.
            NotOpen: There is no such question, or the question was closed.
            StoreError: The conversation cannot be read or written.
        """
        by = _person(user, via)
        return await self._submit(
            id, Reassigned(id="", to=checked_names(to), reason=reason, answered_by=by)
        )

    async def withdraw_vote(
        self, id: str | OpenQuestion, *, user: str | None = None, via: str = "api"
    ) -> Receipt:
        """Withdraw an approval of an open question that several people have to approve.

        Args:
            id: The question, or its ID, as `pending()` lists them.
            user: The user who gave the approval.
            via: Interface: `inbox`, `web`, `api`, `mcp`.

        Raises:
            NotAllowed: The user has not approved the question.
            NotOpen: There is no such question, or the question was closed.
            StoreError: The conversation cannot be read or written.
        """
        return await self._submit(id, Vote(id="", withdrawn=True, answered_by=_person(user, via)))

    async def _record(self, id: str | OpenQuestion, given: IncomingAnswer) -> Receipt:
        return await _outside_answers(self, self._clock).answer(_address(id), given)

    async def _submit(self, id: str | OpenQuestion, submission: IncomingAnswer) -> Receipt:
        receipt = await self._record(id, submission)
        if self._on_wake and not receipt.held:
            await wake(self._on_wake, await root_of(self.port, receipt.conversation))
        return receipt

    def watch(
        self, conversation: str | None = None, *, events: bool = False, after: int | None = None
    ) -> AsyncGenerator[StoreChange]:
        """Yield changes of questions from now on, in one conversation or in all conversations.
        Changes by any process on any machine are included.

        The kinds are `asked`, `changed`, `answered`, `withdrawn` and `turn_ended` (see
        `StoreChange`). Questions that are open already come first, as `asked`.

        Args:
            conversation: ID of the conversation; None for all.
            events: Whether to also yield every recorded event, as `recorded`, before the changes
                that it causes.
            after: Start after this position in the conversation, for example the number of events
                that `read` returned. Events recorded since then come first, instead of the
                questions that are open.

        Raises:
            ValueError: `after` is given for all conversations.
            StoreError: There is no such conversation.
        """
        if after is not None and conversation is None:
            raise ValueError(
                "`after` is a position in one conversation: pass the conversation as well."
            )
        return changes(
            Watch(
                self,
                self.port.growing,
                conversation,
                happened_and_recorded if events else happened,
                after=after,
            )
        )

    # Without an event loop
    # ----------------------------------------------------------------------------------------------

    def parts_sync(self, id: str, *, last: int | None = None) -> Iterator[Part]:
        """Read a conversation in parts, from the beginning or from the start of its last turns.
        This also works for logs that do not fit in memory.

        Args:
            id: ID of the conversation.
            last: Number of turns from the end; None for all.

        Raises:
            StoreError: There is no such conversation, or the conversation cannot be read.
        """
        return parts_from(
            self, id, self.run_sync("parts", self.port.last_turns(id, last)) if last else Mark()
        )

    def run_sync(self, name: str, work: Coroutine[Any, Any, T]) -> T:
        """Run the coroutine of a method to completion.

        Args:
            name: Name of the method.
            work: The coroutine.

        Raises:
            RuntimeError: An event loop is running in this thread.
        """
        try:
            refuse_inside_a_loop(f"store.{name}_sync", f"store.{name}(…)")
        except BaseException:
            work.close()
            raise
        return (
            in_a_loop(work)
            if self.port.needs_loop or self.admission or self._on_wake
            else drive(work)
        )

    new_sync = sync_form(new, run_sync)
    find_sync = sync_form(find, run_sync)
    read_sync = sync_form(read, run_sync)
    ids_sync = sync_form(ids, run_sync)
    fork_sync = sync_form(fork, run_sync)
    remove_sync = sync_form(remove, run_sync)
    end_sync = sync_form(end, run_sync)
    prune_sync = sync_form(prune, run_sync)
    prunable_sync = sync_form(prunable, run_sync)
    pending_sync = sync_form(pending, run_sync)
    ready_sync = sync_form(ready, run_sync)
    open_turns_sync = sync_form(open_turns, run_sync)
    answer_sync = sync_form(answer, run_sync)
    reassign_sync = sync_form(reassign, run_sync)
    withdraw_vote_sync = sync_form(withdraw_vote, run_sync)

    def watch_sync(
        self, conversation: str | None = None, *, events: bool = False, after: int | None = None
    ) -> Iterator[StoreChange]:
        """Yield changes of questions from now on, see `watch`."""
        watched = self.watch(conversation, events=events, after=after)
        with keeper(needs_loop=self.port.needs_loop) as run:
            while True:
                refuse_inside_a_loop("store.watch_sync", "store.watch(…)")
                yield run(_next(watched))

    # Locking
    # ----------------------------------------------------------------------------------------------

    async def create(self, first_words: str) -> LockedConversation:
        """Create and lock a conversation: `async with await store.create(…) as journal`.

        Args:
            first_words: The user's first message, for the title.
        """
        return LockedConversation(
            await self.port.create(first_words),
            self.admission,
            self._clock,
            partial(is_answered_inside, self.port),
        )

    async def open(self, id: str) -> LockedConversation:
        """Lock a conversation for writing. Answers that were queued for a process that died are
        recorded first.

        Args:
            id: ID of the conversation.

        Raises:
            StoreLocked: Another writer has the lock.
            StoreError: There is no such conversation, or the conversation cannot be read or
                written.
        """
        return await self._with_drained_queue(await self.port.open(id))

    async def open_root(self, id: str) -> LockedConversation:
        """Lock the conversation in which a turn continues: its own conversation, or the outermost
        conversation if the turn runs inside a tool of another agent.

        Args:
            id: ID of the conversation.

        Raises:
            StoreLocked: Another writer has the lock.
            StoreError: There is no such conversation, or the conversation cannot be read or
                written.
        """
        held = await self.open(id)
        window = last_turn(held.events)
        parent = parent_of(window.events) if window else None
        if parent is None:
            return held
        await held.__aexit__(None, None, None)
        return await self.open(parent.root)

    async def claim(self, limit: int = 1) -> Sequence[LockedConversation]:
        """Lock up to `limit` conversations that are due and free, so that no other process gets
        them.
        """
        claimed: list[LockedConversation] = []
        now = time.monotonic()
        self._left = {id: until for id, until in self._left.items() if until > now}  # noqa: A001  the common name of IDs
        for journal in await self.port.claim(limit, self._left):
            try:
                claimed.append(await self._with_drained_queue(journal))
            except TooOld as error:
                # ignored for a while, so that a newer worker can claim it and other conversations
                # are not delayed
                self._left[error.conversation] = now + _IGNORED_SECONDS
                _LOG.log(
                    logging.DEBUG if error.requires in self._told else logging.WARNING, "%s", error
                )
                self._told.add(error.requires)
        return claimed

    async def _with_drained_queue(self, journal: PortJournal) -> LockedConversation:
        held = LockedConversation(
            journal, self.admission, self._clock, partial(is_answered_inside, self.port)
        )
        try:
            window = last_turn(journal.events)
            check_version(window.events if window else (), journal.conversation)
            await held.drain_answer_queue()
        except BaseException as error:
            await journal.__aexit__(type(error), error, error.__traceback__)
            raise
        return held

    async def ensure_drained(self, conversation: str) -> None:
        """Record the answers that were queued for a process that has ended, if there are any.

        Args:
            conversation: ID of the conversation.
        """
        last = await self.port.look(conversation)
        if isinstance(last, CommittedBatch) and last.turn.handed:
            await _take_over(self, conversation)


def parts_from(store: ConversationStore, id: str, mark: Mark | None) -> Iterator[Part]:
    """Read a conversation part by part from a mark on, see `ConversationStore.parts_sync`."""
    while mark:
        part = store.run_sync("parts", store.port.part(id, mark))
        yield part
        mark = part.following


async def record_notice(
    store: ConversationStore, id: str | OpenQuestion, notice: Reminded | Escalated | Notified
) -> Receipt:
    """Record that people were notified or reminded of an open question, or that the question was
    escalated to them. Such a record does not answer the question.

    Used only by the server and the channels. No public method writes such an event.

    Args:
        store: The store of the question.
        id: The question, or its ID, as `pending()` lists them.
        notice: The event. This function sets the `id` of the event, and the people of a reminder or
            an escalation.

    Raises:
        TypeError: The event has another type.
        NotOpen: There is no such question, or the question was closed.
        NotAllowed: The same event is already recorded, or the question has no such reminder or
            escalation.
        PersonNeeded: The store is in the user's data directory, and this process was started by a
            tool, or by the agent that asks.
        StoreError: The conversation cannot be read or written.
    """
    if getattr(notice, "type", "") not in (
        "reminded",
        "escalated",
        "notified",
    ):  # a program without a type checker may pass a vote
        raise TypeError(
            f"`record_notice` records reminders, escalations and notices, not {notice!r:.80}."
        )
    return await _outside_answers(store, store._clock).answer(_address(id), notice)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  the same module


async def _take_over(store: ConversationStore, conversation: str) -> None:
    """Record the answers queued for a process that has ended.

    If another process opens the conversation first, that process records the answers.
    """
    with suppress(StoreLocked):
        async with await store.open(conversation):
            pass


def _outside_answers(store: ConversationStore, clock: TimeOfDay) -> AnswerService:
    from midturn.stores.answer_service import (
        AnswerService,
    )  # not needed by programs that only list questions

    return AnswerService(store.port, store.admission, clock, partial(_take_over, store))


def _person(user: str | None, via: str) -> AnsweredBy:
    """Return the acting user.

    Raises:
        TypeError: `user` or `via` is not a string.
        ValueError: `user` is not a valid name.
    """
    return SubmittedAnswer(user=user, via=via).by


def _checked(answered_by: str) -> str:
    """Return `answered_by`.

    Raises:
        ValueError: The value is neither `user` nor `agent`.
    """
    if answered_by not in ("user", "agent"):
        raise ValueError(f"`answered_by` takes 'user' or 'agent', not {answered_by!r:.80}.")
    return answered_by


def _check_key(key: str) -> None:
    """Check a key of a conversation.

    Raises:
        TypeError: The key is not a string.
        ValueError: The key is empty, too long, or contains a lone surrogate.
    """
    check_text("key", key)
    if not 0 < len(key) <= _MAX_KEY:
        raise ValueError(
            f"`key` must have 1 to {_MAX_KEY:,} characters, but it has {len(key):,}: {key!r:.80}."
        )
    try:
        key.encode()
    except UnicodeEncodeError:
        raise ValueError(
            f"`key` {key!r:.80} contains a lone surrogate, which is not valid text."
        ) from None


def _address(question: str | OpenQuestion) -> str:
    """Return the id of a question.

    Raises:
        TypeError: The argument is neither a question nor an id.
    """
    id = question if isinstance(question, str) else getattr(question, "id", None)  # noqa: A001
    check_text("id", id)
    return cast("str", id)


async def _page(
    port: StorePort, clock: TimeOfDay, prefix: str, after: str | None, limit: int | None
) -> list[OpenQuestion]:
    """Return at most `limit` questions. Questions that have expired are left out."""
    found: list[OpenQuestion] = []
    now = trusted(clock).now() or ""
    while limit is None or len(found) < limit:
        wanted = None if limit is None else limit - len(found)
        questions = await port.questions(prefix, after=after, limit=wanted)
        found += [looked for question in questions if (looked := looked_at(question, now))]
        if wanted is None or len(questions) < wanted:
            break
        after = questions[-1].id
    return found


async def _next(watched: AsyncGenerator[StoreChange]) -> StoreChange:
    return await anext(watched)
