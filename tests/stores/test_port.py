"""The store contract: random steps have the same results in each store as in the memory store,
including the synchronous methods.

To test another store, add an entry to `PLACES`. After every step both stores must agree on the
recorded events, open questions, queued answers, ready turns and refused answers.
"""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Callable, Collection
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings, strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from midturn.errors import AlreadyAnswered, AnswerError, NotOpen, StoreLocked
from midturn.events.open_question import address
from midturn.events.types import InquiryRequest, TurnEnd
from midturn.stores import claims
from midturn.stores.file_conversations import FileConversations
from midturn.stores.locked import LockedConversation
from midturn.stores.memory_conversations import MemoryConversations
from midturn.stores.port import LockedBy, StorePort
from midturn.stores.postgres import statements
from midturn.stores.postgres.conversations import PostgresConversations
from midturn.stores.postgres.own_loop import parse_database_address
from midturn.stores.queued_answer import QueuedAnswer, SubmittedAnswer
from midturn.stores.store import ConversationStore
from midturn.stores.sync_forms import drive, in_a_loop
from support.postgres import Cluster
from support.tapes import Tape

PLACES: dict[str, Callable[[Path], StorePort]] = {
    "files": FileConversations,
    "memory": lambda _: MemoryConversations(),
}
QUESTIONS = 3
EXAMPLES = 20
DATABASE_EXAMPLES = int(os.environ.get("MIDTURN_PORT_EXAMPLES", "8"))
REFUSED = (AlreadyAnswered, AnswerError, NotOpen, StoreLocked)


class Side:
    """One of the two compared stores, with its locked conversations."""

    def __init__(self, port: StorePort) -> None:
        self.store = ConversationStore(port)
        self.run = in_a_loop if port.needs_loop else drive
        self.ids: list[str] = []
        self.held: dict[int, LockedConversation] = {}

    def begin(self, tape: Tape) -> None:
        """Create a conversation with an open question and release it."""
        journal = self.run(self.store.create("Ship it"))
        for event in tape.events:
            self.run(journal.append([event]))
        self.run(journal.__aexit__(None, None, None))
        self.ids.append(journal.conversation)

    def attempt(self, work: Callable[[], Any]) -> str:
        """Run a step; return its result in words that are the same on both sides."""
        try:
            done = work()
        except REFUSED as error:
            return type(error).__name__
        return repr(done)

    def hold(self, number: int) -> str:
        """Lock a conversation."""

        def work() -> None:
            self.held[number] = self.run(self.store.open(self.ids[number]))

        return self.attempt(work)

    def release_conversation(self, number: int) -> None:
        """Release a conversation normally."""
        self.run(self.held.pop(number).__aexit__(None, None, None))

    def die(self, number: int) -> None:
        """Abandon a conversation as a killed process does: queued answers are not recorded."""
        error = KeyboardInterrupt()
        self.run(self.held.pop(number).__aexit__(type(error), error, None))

    def answer(self, number: int, event_id: str, *, value: Any) -> str:
        """Answer at once. If the conversation is locked, queue the answer and do not wait."""
        conversation = self.ids[number]

        def work() -> str:
            if number in self.held:
                return f"handed over: {self.hand_over(number, event_id, value=value)}"
            receipt = self.store.answer_sync(address(conversation, event_id), value, user="u42")
            return f"recorded, held: {receipt.held}"

        return self.attempt(work)

    def hand_over(self, number: int, event_id: str, *, value: Any) -> bool:
        """Queue an answer for the process that holds the lock."""
        looked = self.run(self.store.port.look(self.ids[number]))
        assert isinstance(looked, LockedBy)
        answer = QueuedAnswer(
            event_id=event_id,
            at="2026-11-21T10:00:00.000000Z",
            submission=SubmittedAnswer(value=value, user="u42"),
        )
        return self.run(self.store.port.queue_answer(looked, answer))

    def claimed(self) -> list[int]:
        """Claim ready turns and keep their locks."""
        found: list[int] = []
        for journal in self.run(self.store.claim(limit=2)):
            number = self.ids.index(journal.conversation)
            self.held[number] = journal
            found.append(number)
        return found

    def state(self) -> object:
        """Return the observable state of the store."""
        shown: list[object] = []
        for number, id in enumerate(self.ids):
            looked = self.run(self.store.port.look(id))
            events = [
                (event.type, getattr(event, "id", ""), event.more)
                for event in self.store.read_sync(id).events
            ]
            shown.append(
                (
                    number,
                    events,
                    isinstance(looked, LockedBy),
                    [handed.event_id for handed in looked.turn.handed],
                )
            )
        place = {id: number for number, id in enumerate(self.ids)}
        waiting = [
            (place[question.conversation], question.request.event_id)
            for question in self.store.pending_sync()
        ]
        lists = [
            [place[id] for id in self.run(self.store.port.ids(which=which))]
            for which in ("all", "begun", "open", "ready")
        ]
        return shown, waiting, lists


def machine(  # noqa: C901  one rule after the other
    place: Callable[[Path], StorePort],
) -> type[RuleBasedStateMachine]:
    """Return the state machine that compares a store with the memory store."""

    class Compared(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            self.stack = ExitStack()
            root = Path(self.stack.enter_context(tempfile.TemporaryDirectory()))
            self.ours, self.oracle = (
                Side(place(root / "conversations")),
                Side(MemoryConversations()),
            )
            self.sides = (self.ours, self.oracle)
            self.tapes: list[Tape] = []
            self.asked: list[list[InquiryRequest]] = []

        def both(self, work: Callable[[Side], object]) -> None:
            ours, oracle = (work(side) for side in self.sides)
            assert ours == oracle

        def teardown(self) -> None:
            for side in self.sides:
                for number in list(side.held):
                    side.die(number)
                if isinstance(side.store.port, PostgresConversations):
                    side.run(side.store.port.loop.run(side.store.port.database.close()))
            self.stack.close()

        @precondition(lambda self: len(self.tapes) < 4)
        @rule()
        def begin(self) -> None:
            tape = Tape(f"c{len(self.tapes)}.")
            tape.start()
            tape.user("Ship it")
            self.asked.append(
                [tape.ask(tape.call(f"call_{number}")) for number in range(QUESTIONS)]
            )
            self.tapes.append(tape)
            self.both(lambda side: side.begin(tape))

        @precondition(lambda self: self.tapes)
        @rule(data=st.data(), value=st.sampled_from([True, False, "perhaps"]))
        def answer(self, data: st.DataObject, value: object) -> None:
            number = data.draw(st.integers(0, len(self.tapes) - 1))
            event_id = data.draw(
                st.sampled_from(
                    [*(question.event_id for question in self.asked[number]), "nothing"]
                )
            )
            self.both(lambda side: side.answer(number, event_id, value=value))

        @precondition(lambda self: self.tapes)
        @rule(data=st.data())
        def hold(self, data: st.DataObject) -> None:
            number = data.draw(st.integers(0, len(self.tapes) - 1))
            self.both(lambda side: side.hold(number))

        @precondition(lambda self: self.ours.held)
        @rule(data=st.data(), how=st.sampled_from(["let go", "die", "end the turn"]))
        def leave(self, data: st.DataObject, how: str) -> None:
            number = data.draw(st.sampled_from(sorted(self.ours.held)))
            match how:
                case "let go":
                    self.both(lambda side: side.release_conversation(number))
                case "die":
                    self.both(lambda side: side.die(number))
                case _:
                    self.both(
                        lambda side: side.run(
                            side.held[number].append([TurnEnd(status="completed")])
                        )
                    )

        @precondition(lambda self: self.tapes)
        @rule()
        def claim(self) -> None:
            self.both(lambda side: side.claimed())

        @precondition(lambda self: self.tapes)
        @rule(data=st.data())
        def fork(self, data: st.DataObject) -> None:
            number = data.draw(st.integers(0, len(self.tapes) - 1))

            def forked(side: Side) -> int:
                copy = side.store.fork_sync(side.ids[number])
                events = side.store.read_sync(copy).events
                side.store.remove_sync(copy)
                return len(events)

            self.both(forked)

        @invariant()
        def states_are_equal(self) -> None:
            self.both(lambda side: side.state())

    return Compared


def _no_pause(tries: int) -> float:
    """Make ready turns claimable again at once, because the two sides have different speeds."""
    return 0.0 * tries


def compare_with_memory(
    place: Callable[[Path], StorePort],
    examples: int = EXAMPLES,
    phases: Collection[Phase] = tuple(Phase),
) -> None:
    """Run the same random steps in a store and in memory, and compare the observable state after
    each step.
    """
    checks = [HealthCheck.too_slow, HealthCheck.data_too_large]
    limits = settings(
        max_examples=examples,
        stateful_step_count=15,
        deadline=None,
        suppress_health_check=checks,
        phases=phases,
    )
    run_state_machine_as_test(machine(place), settings=limits)


@pytest.mark.parametrize("place", PLACES)
def test_random_steps_have_the_same_results_in_every_store(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "pause_after", _no_pause)
    compare_with_memory(PLACES[place])


def check_answer_to_a_closed_question(side: Side) -> None:
    """An answer to a closed question stays queued until the next decision in that turn removes
    it.
    """
    tape = Tape()
    tape.start()
    first, second = (tape.ask(tape.call(f"call_{number}")) for number in range(2))
    closed, closed_too = tape.cancel(first), tape.cancel(second)
    tape.events = tape.events[:-2]
    side.begin(tape)
    side.hold(0)
    side.run(side.held[0].append([closed]))
    assert side.hand_over(0, first.event_id, value=True)
    side.run(side.held[0].append([closed_too]))
    assert side.run(side.store.port.look(side.ids[0])).turn.handed == ()


@pytest.mark.parametrize("place", PLACES)
def test_queued_answer_to_a_closed_question_is_removed_by_the_next_decision(
    place: str, tmp_path: Path
) -> None:
    check_answer_to_a_closed_question(Side(PLACES[place](tmp_path / "conversations")))


@pytest.mark.real("PostgreSQL")
def test_queued_answer_to_a_closed_question_is_removed_over_postgres(url: str) -> None:
    check_answer_to_a_closed_question(Side(PostgresConversations(parse_database_address(url))))


@pytest.mark.real("PostgreSQL")
def test_random_steps_have_the_same_results_over_postgres(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "pause_after", _no_pause)
    # The turns that have been ready for longest come first there; the others are sorted by age.
    monkeypatch.setattr(
        statements,
        "CLAIM",
        statements.CLAIM.replace("least(300, 0.25", "least(0, 0.25").replace(
            "order by wake", "order by id"
        ),
    )
    monkeypatch.setattr(
        statements, "RELEASE", statements.RELEASE.replace("least(300, 0.25", "least(0, 0.25")
    )
    numbers = itertools.count(1)

    def place(_: Path) -> StorePort:
        return PostgresConversations(
            parse_database_address(f"{cluster.url}&midturn_schema=port_{next(numbers)}")
        )

    compare_with_memory(
        place, examples=DATABASE_EXAMPLES, phases=[Phase.generate]
    )  # each attempt needs its own schema, so no attempt is spent on shrinking
