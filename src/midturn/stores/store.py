"""`ConversationStore`: everything that is the same wherever conversations are kept, on top of a `StorePort`.

Theory of operation
===================

A conversation is an append-only log with at most one writer. A `StorePort` (files, memory, PostgreSQL) knows how to hold a conversation,
append a batch to it, and look at it without holding it. Everything else is written once, here and in the modules beside.

**States of a conversation.** Held (one process writes it) or free; its last turn open or finished. An open turn is *ready* where an answer
lets it go on (`turn/record.py`), and *due* where it needs no absent person: it is ready, or its process died, or the pause after a
failure of the model is over. Workers claim what is due.

**Answering.** `answer` works whether or not a turn runs. Free: the machine says which events the answer leads to (`stores/decisions.py`),
and they are written in one settling of the port. Held: the answer is handed over, and the holder takes it in as `AnsweredElsewhere`.
A holder that dies leaves handed-over answers behind; the next one to open the conversation records them first (`take_over`), so that an
acknowledged answer is never lost.

**Guarantees.**

1. A batch is in the log whole or not at all. On files and in PostgreSQL it survives a crash once `append` has returned.
2. The first answer to a question counts. A later one hears who was first, how and when (`turn/view.py`).
3. Reading takes no lock and never blocks a writer.
4. What is in memory or in an index can be lost: everything is found again from the logs.

**Why the rules are not in the port.** Three stores that each decide when an answer counts would decide in three ways. The port's
`settle` gives the decision its moment (no other writer, the last turn in hand), and the decision itself is a pure function.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, TypeVar, cast

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from midturn.clock import SYSTEM, TimeOfDay, trusted
from midturn.errors import AnswerError, MidturnError, NotAllowed, Problem, Renamed, StoreError, StoreLocked, TooOld
from midturn.events.open_question import OpenQuestion, asker_of
from midturn.events.types import AnsweredBy, Child, Escalated, Notified, Reassigned, Reminded, Vote
from midturn.events.window import last_turn, parent_of
from midturn.question.json_value import Json, JsonObject, as_json
from midturn.question.people import checked_names
from midturn.question.public_names import public_repr
from midturn.question.reply import Scope
from midturn.question.text import check_text
from midturn.stores.authorization import Admission, CurrentPeople, MayAnswer
from midturn.stores.batch import check_version, without_standing_decision
from midturn.stores.conversation import Conversation
from midturn.stores.ending import TurnEnding, as_owner as owner_of, barred_in, check_ending
from midturn.stores.lock import looked_at
from midturn.stores.locked import HeldConversation
from midturn.stores.log_tail import Mark, Part
from midturn.stores.nested_conversations import end_children, is_answered_inside, open_family, root_of, whole_family
from midturn.stores.port import HeldBy, LastTurn, PortJournal, Settled, StorePort, following
from midturn.stores.pruning import Prunable, Pruned, Pruning
from midturn.stores.question_entries import remove_entries
from midturn.stores.queued_answer import Submission
from midturn.stores.sync_forms import drive, in_a_loop, keeper, refuse_inside_a_loop, sync_form
from midturn.stores.watching import OnWake, StoreChange, Watch, changes, happened, happened_and_recorded, wake
from midturn.turn.ending import Ending

_LOG = logging.getLogger("midturn.store")
_LEFT = 300.0
"""Seconds for which a worker leaves what it is too old for to others: who takes it again and again keeps newer ones from it."""
if TYPE_CHECKING:
    from midturn.stores.answer_service import Given, OutsideAnswers, Receipt

T = TypeVar("T")
WriteRule: TypeAlias = "Callable[[OpenQuestion, JsonObject | None, Scope], str]"
"""Writes a standing permission into a configuration; returns a sentence for the user."""
NO_WRITER = (
    "A permission for the project, or for everywhere, is a rule in a configuration, and this program writes none. "
    "Use the scope `conversation`, or answer with `midturn answer` at a terminal."
)


class ConversationStore(Renamed):
    """Conversations by id, their open questions, and the way to answer them.

    Make one with `open_store` or `MemoryStore`. Every method has a form for programs without an event loop: `pending_sync`,
    `answer_sync` and so on.
    """

    _gone: ClassVar[Mapping[str, str]] = {"woken": "`store.woken()` is `store.port.woken()` now."}

    def __init__(
        self,
        port: StorePort,
        admission: Admission | None = None,
        clock: TimeOfDay = SYSTEM,
        on_wake: OnWake | None = None,
        rule_writer: WriteRule | None = None,
    ) -> None:
        """Stand on a place where conversations are kept."""
        self.port = port
        """The place itself."""
        self.admission = Admission() if admission is None else admission
        """The rules of who may answer."""
        self._clock = clock
        self._rule_writer = rule_writer
        self._on_wake = on_wake
        self._left: dict[str, float] = {}  # the conversations that this version is too old for, and until when they are left alone
        self._told: set[str] = set()  # the versions of which it was said that they are needed

    def __repr__(self) -> str:
        return public_repr(self, "ConversationStore")

    def guarded(self, may_answer: MayAnswer) -> ConversationStore:
        """Return the same conversations, with one more rule about who may answer: `may_answer(question, user)`, sync or async."""
        return ConversationStore(self.port, self.admission.with_rule(may_answer), self._clock, self._on_wake, self._rule_writer)

    def with_rule_writer(self, write: WriteRule) -> ConversationStore:
        """Return the same conversations, for a program that writes standing permissions into a configuration.

        Args:
            write: Called as `write(question, rule, scope)` after a yes with the scope `project` or `everywhere` has counted. `rule` is None
                for calls with equal arguments. It returns a sentence for the user.
        """
        return ConversationStore(self.port, self.admission, self._clock, self._on_wake, write)

    @property
    def writes_rules(self) -> bool:
        """Whether a yes may have the scope `project` or `everywhere`."""
        return self._rule_writer is not None

    def with_people(self, people: CurrentPeople) -> ConversationStore:
        """Return the same conversations, answered by the people that a configuration names when they answer.

        A login is the person's that the configuration says, and who is no person of it any more decides nothing that was put to them.

        Args:
            people: Returns the configured people as they are now.
        """
        return ConversationStore(self.port, self.admission.with_people(people), self._clock, self._on_wake, self._rule_writer)

    def waking(self, on_wake: OnWake) -> ConversationStore:
        """Return the same conversations; after each answer that lets a turn go on, `on_wake(conversation)` is called, sync or async.

        For programs that run jobs in a way of their own: have the job call `await agent.resume(conversation)`. It is called after the
        answer is recorded, in the process that records it. A call may be lost with that process, so look at `ready()` now and then.
        """
        return ConversationStore(self.port, self.admission, self._clock, on_wake, self._rule_writer)

    # Conversations --------------------------------------------------------------------------------------------------------

    async def new(self, title: str = "") -> str:
        """Make a conversation without any event in it; return its id.

        Args:
            title: What listings show; the first message stands in for an empty one.
        """
        check_text("title", title)
        async with await self.create(title) as journal:
            return journal.conversation

    async def read(self, id: str) -> Conversation:
        """Read a conversation. It takes no lock.

        Args:
            id: The id of the conversation.

        Raises:
            StoreError: There is none, or it cannot be read.
        """
        return await self.port.read(id)

    async def ids(self, *, after: str | None = None, limit: int | None = None) -> list[str]:
        """Return ids of conversations in which anything is recorded, oldest first: all, or up to `limit` that come after the id `after`."""
        return await self.port.ids(after=after, limit=limit, which="begun")

    async def fork(self, id: str, turns: int | None = None) -> str:
        """Copy the finished turns of a conversation (the first `turns` of them) into a new one; return its id.

        An open turn stays behind: its questions can be answered in one place only. A permission or an answer that was given for the
        conversation has no effect in the copy.

        Args:
            id: The id of the conversation.
            turns: How many turns from the start; None for all that are finished.
        """
        lines, original = await self.port.lines(id), await self.port.read(id)
        copied = [without_standing_decision(line) for line in lines[: original.finished_length(turns)]]
        return await self.port.add(copied, original.metadata)

    async def remove(self, id: str, *, user: str | None = None) -> None:
        """Remove a conversation for good, with those of agents that ran inside of its tools.

        Args:
            id: The id of the conversation; one of those inside stands for all of them.
            user: Who removes it. Where a question is open that is for certain people, they alone may: its turn has to be ended first.

        Raises:
            NotAllowed: A question is open in it that this user may not decide.
            StoreLocked: It is being written.
            StoreError: There is none, or it cannot be removed.
        """
        family = await whole_family(self.port, await root_of(self.port, id))
        if len(family) > 1 and isinstance(await self.port.look(family[-1]), HeldBy):
            await self.port.remove(family[-1])  # it says who holds it
        who = _person(user, "api")
        await check_ending(self.port, self.admission, family[-1], who)
        for each in family:
            why: list[str] = []

            def may_go(turn: LastTurn, why: list[str] = why) -> bool:  # once more, while nobody else writes
                why.append(barred_in(turn.events, self.admission, who))
                return not why[-1]

            try:
                await self.port.look(each)
            except StoreError:  # nothing is asked where nothing can be read
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
        """End the open turn of a conversation, with those around it and inside of it, whether or not anything is asked in it.

        Args:
            conversation: The id of the conversation.
            user: Who ends it; recorded.
            via: How: `inbox`, `web`, `api`, `mcp`.
            answered_by: `agent` where a program ends it for itself, and no person does.
            as_owner: End also what is for others to decide, with the right of the user to whom a local store belongs; recorded so.

        Returns:
            Whether another process runs the turn: that process ends it, and stops its tools.

        Raises:
            NotOpen: No turn is open.
            NotAllowed: A question of it is for others to decide; or the store does not belong to the user of this process.
            PersonNeeded: The store is a workspace's or the user's own, and this process was started by a tool.
            Busy: Others write the conversation again and again; try again.
            StoreError: The conversation cannot be read or written.
        """
        check_text("conversation", conversation)
        who = Submission(user=user, via=via, answered_by=_checked(answered_by)).by
        if as_owner:
            who = owner_of(self.port, who)

        def check(turn: LastTurn) -> None:
            from midturn.stores.answer_service import check_that_a_person_answers  # who lists questions answers none

            if turn.is_for_people:
                check_that_a_person_answers(asker_of(turn.events))

        return await TurnEnding(self.port, self.admission, self._clock, conversation, who, check).end(partial(_take_over, self))

    async def prune(self, older: timedelta) -> Pruned:
        """Remove conversations in which nothing was recorded for as long as `older`, and no turn is open, for good; say which.

        Those of agents inside of tools go with the conversation around. A conversation that has no event an hour after it was made goes,
        too: its process was killed before its first message was on record.

        Args:
            older: How long ago the last event of what is removed was recorded, at least.
        """
        return await Pruning(self.port, self._clock.now(), older).removed()

    async def prunable(self, older: timedelta) -> list[Prunable]:
        """Return what `prune` would remove now, the oldest first; each stands for its family.

        Args:
            older: As of `prune`.
        """
        return [prunable async for prunable in Pruning(self.port, self._clock.now(), older).found()]

    async def end_children(self, children: Sequence[Child], ending: Ending) -> None:
        """End the turns inside of tools that are open on record, as the turn around them ends.

        Args:
            children: The events that name them.
            ending: How they end.
        """
        await end_children(self.port, self._clock, children, ending)

    def require_person(self, what: str = "answer questions") -> None:
        """Refuse an act that only a person may do here, where this process was started by a tool, or by an agent that midturn serves.

        Args:
            what: The act, as the error names it.

        Raises:
            PersonNeeded: The store is a workspace's or the user's own, and this process is no person's.
        """
        if self.port.is_for_people:
            from midturn.security.authorization import for_people_only  # who only reads does without it

            for_people_only(what)

    # Questions ------------------------------------------------------------------------------------------------------------

    async def pending(self, conversation: str | None = None, *, after: str | None = None, limit: int | None = None) -> list[OpenQuestion]:
        """Return the open questions of one conversation, or of all, the oldest conversation first, or a page of them.

        Those of agents that run inside of tools are among those of the conversation around.

        Args:
            conversation: The id of the one; None for all.
            after: The id of the last question of the page before. Where it is closed by now, the page begins with its conversation.
            limit: How many at most; None for all.
        """
        if conversation is None:
            return await _page(self.port, self._clock, "", after, limit)
        family = [f"{id}-" for id in await open_family(self.port, conversation)]  # noqa: A001
        found = [question for prefix in family for question in await _page(self.port, self._clock, prefix, None, None)]
        return following(found, after)[:limit]

    async def ready(self, *, interrupted: bool = False) -> list[str]:
        """Return the IDs of the conversations whose turn can continue after a decision, and which no process writes now.

        A turn can continue if an open question was answered, or if its deadline has passed (which is recorded here).
        The calls of other agents are not listed: they continue where they were made.

        Args:
            interrupted: Whether to list interrupted turns, too: those whose process died in a model request or a call, whose model failed,
                or whose run was stopped, for example with Ctrl-C in a program. The record does not tell these apart. Workers (`Agent.work`)
                continue all of them; `midturn serve` and `midturn resume --ready` continue none.
        """
        await _outside_answers(self, self._clock).expire()
        return await self.port.ids(which="ready_or_interrupted" if interrupted else "ready")

    async def open_turns(self, conversation: str | None = None) -> set[str]:
        """Return the conversations whose last turn is open; of one alone, whether it is among them.

        Args:
            conversation: The id of the one; None for all.
        """
        if conversation is None:
            return set(await self.port.ids(which="open"))
        try:
            turns = (await self.port.read(conversation)).turns
        except StoreError:  # it was removed
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
        """Answer the open question `id` (its whole address) in exactly one way. It counts in whatever process the turn runs.

        Where several people have to say yes, a yes is a vote: `votes` of the receipt says how many there are by now.

        Args:
            id: The question, or its id, as `pending()` lists them.
            value: The answer, as JSON or as the Python type of the question (a member of its `Enum`, an instance of its dataclass); of a
                whole form, an object by question id.
            approve: The decision about a call (kind `run`), a result (`deliver`) or the answers of a form (`review`).
            arguments: What the call shall run with instead.
            content: What shall be delivered instead of the result.
            reply: Words for the model instead of an answer; may be empty.
            back: Ask the question before this one again, in a form or at its review.
            cancel: End the turn.
            reason: Why; recorded with a value or a decision.
            remember: Keep a yes or a no for the rest of the turn: for this question of this tool, or for every call of it. Of the call of
                another agent, what it keeps of a yes: one of `asker.always`; `True` where it offers one thing alone.
            user: Who answers, as the calling program knows them.
            via: How: `inbox`, `web`, `api`, `mcp`.
            digest: `OpenQuestion.digest` of the question that the user saw. A yes or an edit counts only if this is still what is asked.
                Without it, a yes is refused where `OpenQuestion.needs_digest`.
            login: The sign-in or the account by which the interface knows the user, where it is not their name; recorded.
            answered_by: `agent` where a program answers for itself, and no person does: recorded so, and refused where only a person may
                answer (an approval, an exclusive question, a secret, or a question that is put to people).
            scope: How far the answer counts: `conversation`, `project` or `everywhere`. A yes to a call then counts for later calls with
                equal arguments, an answer to a question of a tool that allows it (`persistence = "conversation"`) for the rest of the
                conversation. None: for this question only. It is refused where certain people decide. A permission for the project, or
                for everywhere, is written into a configuration: see `with_rule_writer`.
            rule: With a `scope`, the calls that a yes covers, as a rule of the configuration. None: those with equal arguments.

        Raises:
            AnswerError: It does not fit; `problems` says why. A secret is never taken here.
            DigestMismatch: What is asked was changed since the user saw it, or a digest is needed and was not given.
            NotAllowed: This user may not answer it; the question stays open.
            AlreadyAnswered: Another answer was first; `answered_by` says who, how and when.
            NotOpen: It was closed without an answer, or (`NoSuchQuestion`) there never was such a question.
            PersonNeeded: The store is a workspace's or the user's own, and this process was started by a tool, or by the agent that asks.
            Busy: Others write the conversation again and again; try again.
            StoreError: The conversation cannot be read or written.
        """
        given = Submission(
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

    async def _submit_with_rule(self, id: str | OpenQuestion, given: Submission, scope: Scope) -> Receipt:
        """Submit a yes and, if it counts, write the rule that makes it count for later calls."""
        if self._rule_writer is None:
            raise AnswerError([Problem("", NO_WRITER)])
        address = _address(id)
        question = next((each for each in await self.port.questions(address) if each.id == address), None)
        receipt = await self._submit(id, given)
        if question is None:
            return receipt
        try:
            return replace(receipt, standing=self._rule_writer(question, given.rule, scope))
        except (MidturnError, OSError) as error:
            return replace(receipt, standing=f"The call may run, but no rule was written: {error}")

    async def pass_on(
        self, id: str | OpenQuestion, to: Sequence[str], *, reason: str | None = None, user: str | None = None, via: str = "api"
    ) -> Receipt:
        """Put an open question to other people; where only certain people may answer it, they are the ones that it can be passed on to.

        Args:
            id: The question, or its id, as `pending()` lists them.
            to: Names of people and groups.
            reason: Why; recorded.
            user: Who passes it on.
            via: How: `inbox`, `web`, `api`, `mcp`.

        Raises:
            NotAllowed: This user, or one of those people, may not answer it.
            NotOpen: There is no such question, or it was closed.
            StoreError: The conversation cannot be read or written.
        """
        by = _person(user, via)
        return await self._submit(id, Reassigned(id="", to=checked_names(to), reason=reason, answered_by=by))

    async def take_back(self, id: str | OpenQuestion, *, user: str | None = None, via: str = "api") -> Receipt:
        """Take back a yes to a question that several people have to say yes to, as long as it is open.

        Args:
            id: The question, or its id, as `pending()` lists them.
            user: Whose yes it was.
            via: How: `inbox`, `web`, `api`, `mcp`.

        Raises:
            NotAllowed: There is no such yes.
            NotOpen: There is no such question, or it was closed.
            StoreError: The conversation cannot be read or written.
        """
        return await self._submit(id, Vote(id="", withdrawn=True, answered_by=_person(user, via)))

    async def _record(self, id: str | OpenQuestion, given: Given) -> Receipt:
        return await _outside_answers(self, self._clock).answer(_address(id), given)

    async def _submit(self, id: str | OpenQuestion, submission: Given) -> Receipt:
        receipt = await self._record(id, submission)
        if self._on_wake and not receipt.held:
            await wake(self._on_wake, await root_of(self.port, receipt.conversation))
        return receipt

    def watch(self, conversation: str | None = None, *, events: bool = False, after: int | None = None) -> AsyncGenerator[StoreChange]:
        """Yield what happens to questions from now on, in one conversation or in all.

        The kinds are `asked`, `changed`, `answered`, `withdrawn` and `turn_ended` (see `StoreChange`).
        What is open already comes first, as `asked`. Whichever process records it, on whichever machine: also what a worker does.

        Args:
            conversation: The id of the one; None for all.
            events: Yield every event that is recorded, too, as `recorded`, ahead of what it means for questions.
            after: Go on after this `position` of the one conversation, such as the number of events that `read` has returned: what was
                recorded since comes first, in place of what is open.

        Raises:
            ValueError: `after` is given for all conversations.
            StoreError: There is no such conversation to go on with.
        """
        if after is not None and conversation is None:
            raise ValueError("`after` is a position in one conversation: name the conversation, too.")
        return changes(Watch(self, self.port.growing, conversation, happened_and_recorded if events else happened, after=after))

    # Without an event loop -----------------------------------------------------------------------------------------------

    def parts_sync(self, id: str, *, last: int | None = None) -> Iterator[Part]:
        """Read a conversation part by part, from the beginning, or from where at least the last turns are in it: for logs of any length.

        Args:
            id: The id of the conversation.
            last: How many turns from the end; None for all.

        Raises:
            StoreError: There is none, or it cannot be read.
        """
        return parts_from(self, id, self.run_sync("parts", self.port.last_turns(id, last)) if last else Mark())

    def run_sync(self, name: str, work: Coroutine[Any, Any, T]) -> T:
        """Run one of the methods to its end.

        Args:
            name: What the method is called.
            work: What it has returned.

        Raises:
            RuntimeError: An event loop is running in this thread.
        """
        try:
            refuse_inside_a_loop(f"store.{name}_sync", f"store.{name}(…)")
        except BaseException:
            work.close()
            raise
        return in_a_loop(work) if self.port.needs_loop or self.admission or self._on_wake else drive(work)

    new_sync = sync_form(new, run_sync)
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
    pass_on_sync = sync_form(pass_on, run_sync)
    take_back_sync = sync_form(take_back, run_sync)

    def watch_sync(self, conversation: str | None = None, *, events: bool = False, after: int | None = None) -> Iterator[StoreChange]:
        """Yield what happens to questions from now on, see `watch`."""
        watched = self.watch(conversation, events=events, after=after)
        with keeper(needs_loop=self.port.needs_loop) as run:
            while True:
                refuse_inside_a_loop("store.watch_sync", "store.watch(…)")
                yield run(_next(watched))

    # Holding --------------------------------------------------------------------------------------------------------------

    async def create(self, first_words: str) -> HeldConversation:
        """Begin a conversation, and hold it: `async with await store.create(…) as journal`.

        Args:
            first_words: What the user says first, for the title.
        """
        return HeldConversation(await self.port.create(first_words), self.admission, self._clock, partial(is_answered_inside, self.port))

    async def open(self, id: str) -> HeldConversation:
        """Hold a conversation for writing; what was handed over to a holder that died is recorded first.

        Args:
            id: The id of the conversation.

        Raises:
            StoreLocked: It is held elsewhere.
            StoreError: There is none, or it cannot be read or written.
        """
        return await self._taken_over(await self.port.open(id))

    async def open_root(self, id: str) -> HeldConversation:
        """Hold the conversation in which a turn goes on: its own or, where it runs inside a tool of another agent, the one at the top.

        Args:
            id: The id of the conversation.

        Raises:
            StoreLocked: It is held elsewhere.
            StoreError: There is none, or it cannot be read or written.
        """
        held = await self.open(id)
        window = last_turn(held.events)
        parent = parent_of(window.events) if window else None
        if parent is None:
            return held
        await held.__aexit__(None, None, None)
        return await self.open(parent.root)

    async def claim(self, limit: int = 1) -> Sequence[HeldConversation]:
        """Hold up to `limit` conversations that are due and free; no other process gets them."""
        claimed: list[HeldConversation] = []
        now = time.monotonic()
        self._left = {id: until for id, until in self._left.items() if until > now}  # noqa: A001  what the wire calls it
        for journal in await self.port.claim(limit, self._left):
            try:
                claimed.append(await self._taken_over(journal))
            except TooOld as error:  # it is left to a worker of a newer version, and hides no other
                self._left[error.conversation] = now + _LEFT
                _LOG.log(logging.DEBUG if error.requires in self._told else logging.WARNING, "%s", error)
                self._told.add(error.requires)
        return claimed

    async def _taken_over(self, journal: PortJournal) -> HeldConversation:
        held = HeldConversation(journal, self.admission, self._clock, partial(is_answered_inside, self.port))
        try:
            window = last_turn(journal.events)
            check_version(window.events if window else (), journal.conversation)
            await held.take_over()
        except BaseException as error:
            await journal.__aexit__(type(error), error, error.__traceback__)
            raise
        return held

    async def taken_over(self, conversation: str) -> None:
        """Make sure that nothing is left over that was handed to a holder that is gone.

        Args:
            conversation: The id of the conversation.
        """
        last = await self.port.look(conversation)
        if isinstance(last, Settled) and last.turn.handed:
            await _take_over(self, conversation)


def parts_from(store: ConversationStore, id: str, mark: Mark | None) -> Iterator[Part]:
    """Read a conversation part by part from a mark on, see `ConversationStore.parts_sync`."""
    while mark:
        part = store.run_sync("parts", store.port.part(id, mark))
        yield part
        mark = part.following


async def record_notice(store: ConversationStore, id: str | OpenQuestion, notice: Reminded | Escalated | Notified) -> Receipt:
    """Record on an open question that people were notified, reminded, or are asked by an escalation; it answers nothing.

    Only the server and the channels do: no public method writes such an event.

    Args:
        store: Where the question is.
        id: The question, or its id, as `pending()` lists them.
        notice: The event; its own `id`, and the people of a reminder or an escalation, are filled in.

    Raises:
        TypeError: The event is of another kind.
        NotOpen: There is no such question, or it was closed.
        NotAllowed: The same is on record already, or the question has no such reminder or escalation.
        PersonNeeded: The store is a workspace's or the user's own, and this process was started by a tool, or by the agent that asks.
        StoreError: The conversation cannot be read or written.
    """
    if getattr(notice, "type", "") not in ("reminded", "escalated", "notified"):  # a program without a type checker may pass a vote
        raise TypeError(f"`record_notice` records reminders, escalations and notices, not {notice!r:.80}.")
    return await _outside_answers(store, store._clock).answer(_address(id), notice)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  the same module


async def _take_over(store: ConversationStore, conversation: str) -> None:
    """Record what was handed over to a holder that is gone; a new holder of the conversation does it otherwise."""
    with suppress(StoreLocked):
        async with await store.open(conversation):
            pass


def _outside_answers(store: ConversationStore, clock: TimeOfDay) -> OutsideAnswers:
    """Return the way of answers that come from outside of a turn."""
    from midturn.stores.answer_service import OutsideAnswers  # who lists questions answers none

    return OutsideAnswers(store.port, store.admission, clock, partial(_take_over, store))


def _person(user: str | None, via: str) -> AnsweredBy:
    """Return the person who acts.

    Raises:
        TypeError: One of them is no text.
        ValueError: `user` is no name.
    """
    return Submission(user=user, via=via).by


def _checked(answered_by: str) -> str:
    """Return who answers from outside.

    Raises:
        ValueError: It is neither a person nor a program.
    """
    if answered_by not in ("user", "agent"):
        raise ValueError(f"`answered_by` takes 'user' or 'agent', not {answered_by!r:.80}.")
    return answered_by


def _address(question: str | OpenQuestion) -> str:
    """Return the id of a question.

    Raises:
        TypeError: It is neither a question nor an id.
    """
    id = question if isinstance(question, str) else getattr(question, "id", None)  # noqa: A001
    check_text("id", id)
    return cast("str", id)


async def _page(port: StorePort, clock: TimeOfDay, prefix: str, after: str | None, limit: int | None) -> list[OpenQuestion]:
    """Return as many questions as are wanted: those that are over by their own end are on no page."""
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
