"""Questions for certain people in every kind of store: votes, reassignment, and the answer
queue.
"""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from midturn.errors import AnswerError, NotAllowed, NotOpen
from midturn.events.open_question import address
from midturn.events.types import AnsweredBy, InquiryAnswered, Reassigned, Reminded, Vote
from midturn.question.people import People
from midturn.stores.store import ConversationStore, record_notice
from support.stored import asking, keep
from support.tapes import Tape

OPS = People(
    ask=["ops"],
    only=True,
    approvals=2,
    remind_after=60,
    members={"ops": ["ana", "bo", "carl"]},
    logins={"ana": ["a.smith"]},
)


def question_for(store: ConversationStore, people: People = OPS) -> tuple[str, str, Tape]:
    """Create a conversation with a question for certain people; return its ID and the question
    ID.
    """
    tape, question = asking()
    place = tape.events.index(question)
    tape.events[place] = replace(question, people=people)
    kept = keep(store, tape)
    return kept, address(kept, question.event_id), tape


def new(store: ConversationStore, kept: str, tape: Tape) -> list[object]:
    return list(store.read_sync(kept).events[len(tape.events) :])


def test_last_vote_records_the_answer(store: ConversationStore) -> None:
    kept, id, tape = question_for(store)
    first = store.answer_sync(id, True, user="a.smith", via="web")
    assert first.votes == "1 of 2"
    assert first.to_json()["votes"] == "1 of 2"
    (waiting,) = store.pending_sync()
    assert waiting.to_json()["people"] == {
        "ask": ["ops"],
        "only": True,
        "may_answer": ["ana", "bo", "carl"],
        "approvals": 2,
        "voted": ["ana"],
    }
    with pytest.raises(NotAllowed, match="ana has said yes already: 1 of 2"):
        store.answer_sync(id, True, user="ana", via="api")
    with pytest.raises(
        NotAllowed, match="dora may not answer this: only ana, bo and carl may"
    ) as refused:
        store.answer_sync(id, True, user="dora")
    assert (refused.value.id, refused.value.user) == (id, "dora")
    with pytest.raises(NotAllowed, match="This interface does not identify users"):
        store.answer_sync(id, True)
    assert store.ready_sync() == []
    assert not store.answer_sync(id, True, user="bo").votes
    vote, other, answer = new(store, kept, tape)
    assert isinstance(vote, Vote)
    assert isinstance(other, Vote)
    assert isinstance(answer, InquiryAnswered)
    assert answer.votes == (vote.event_id, other.event_id)
    assert store.ready_sync() == [kept]


@pytest.mark.parametrize("again", ["ANA", "A.SMITH", "ana\u00a0", "a\u200bna", "\uff41na"])
def test_one_person_votes_once_however_the_name_is_spelled(
    store: ConversationStore, again: str
) -> None:
    _, id, _ = question_for(store)
    store.answer_sync(id, True, user="ana")
    with pytest.raises(NotAllowed, match="ana has said yes already: 1 of 2"):
        store.answer_sync(id, True, user=again)


@pytest.mark.parametrize("user", ["ana\n", "\x1b[31mana", "\u200b"])
def test_invalid_user_name_is_refused(store: ConversationStore, user: str) -> None:
    _, id, _ = question_for(store)
    with pytest.raises(ValueError, match="the name"):
        store.answer_sync(id, True, user=user)
    with pytest.raises(ValueError, match="the name"):
        store.reassign_sync(id, ["bo"], user=user)
    with pytest.raises(ValueError, match="the name"):
        store.withdraw_vote_sync(id, user=user)


def test_question_is_reassigned_to_permitted_people(store: ConversationStore) -> None:
    _, id, _ = question_for(store)
    store.reassign_sync(id, ["bo"], user="ana")
    (waiting,) = store.pending_sync()
    assert waiting.whose is not None
    assert (waiting.whose.is_for("bo"), waiting.whose.is_for("ana")) == (True, False)
    with pytest.raises(NotAllowed, match="dora may not answer this"):
        store.reassign_sync(id, ["dora"], user="ana")
    with pytest.raises(NotAllowed, match="dora may not answer this"):
        store.reassign_sync(id, ["ana"], user="dora")
    with pytest.raises(NotOpen):
        store.reassign_sync(f"{id}x", ["ana"], user="ana")


def test_vote_is_withdrawn(store: ConversationStore) -> None:
    _, id, _ = question_for(store)
    store.answer_sync(id, True, user="ana")
    with pytest.raises(NotAllowed, match="You have no vote"):
        store.withdraw_vote_sync(id, user="bo")
    store.withdraw_vote_sync(id, user="ana")
    (waiting,) = store.pending_sync()
    assert waiting.whose is not None
    assert waiting.whose.tally == "0 of 2"


def test_votes_and_notes_are_queued_separately(store: ConversationStore) -> None:
    kept, id, tape = question_for(store)
    request = id.rpartition("-")[2]

    async def told() -> None:
        async with await store.open(kept) as held:
            await asyncio.gather(
                store.answer(id, True, user="ana"), store.reassign(id, ["bo"], user="carl")
            )
            await record_notice(store, id, Reminded(id="", number=1, to=("ops",)))
            with pytest.raises(NotAllowed, match="has already received this"):
                await record_notice(store, id, Reminded(id="", number=1, to=("ops",)))
            with pytest.raises(NotAllowed, match="has already received this"):
                await store.answer(id, True, user="a.smith")
            handed = await held.answers.collect()
            assert {(one.event_id, one.note is None) for one in handed} == {
                (request, True),
                (request, False),
            }
            assert len(handed) == 3

    asyncio.run(told())
    found = new(store, kept, tape)
    assert {type(event) for event in found} == {Vote, Reassigned, Reminded}
    assert not asyncio.run(store.port.look(kept)).turn.handed
    store.answer_sync(id, True, user="bo")
    assert isinstance(new(store, kept, tape)[-1], InquiryAnswered)


def test_two_queued_votes_complete_the_answer(store: ConversationStore) -> None:
    kept, id, tape = question_for(store)

    async def told() -> None:
        async with await store.open(kept):
            await asyncio.gather(*(store.answer(id, True, user=user) for user in ("ana", "bo")))

    asyncio.run(told())
    answer = new(store, kept, tape)[-1]
    assert isinstance(answer, InquiryAnswered)
    assert len(answer.votes) == 2
    assert answer.answered_by is not None
    assert answer.answered_by.by == AnsweredBy("user").by


def permission_for(store: ConversationStore) -> tuple[str, str, Tape]:
    """Create a conversation with a call that several people have to allow; return its ID and the
    question ID.
    """
    tape = Tape()
    tape.start()
    waiting = tape.wait(tape.call("call_1", arguments={"env": "production"}))
    tape.events[-1] = replace(waiting, people=replace(OPS, only=False), any_arguments=True)
    kept = keep(store, tape)
    return kept, address(kept, waiting.event_id), tape


def test_yes_to_outdated_arguments_is_refused(store: ConversationStore) -> None:
    _, id, _ = permission_for(store)
    (shown,) = store.pending_sync()
    assert shown.to_json()["about"] == shown.digest
    store.answer_sync(id, arguments={"env": "staging"}, user="bo")
    with pytest.raises(AnswerError, match="was changed after you saw it"):
        store.answer_sync(id, approve=True, user="ana", digest=shown.digest)
    (edited,) = store.pending_sync()
    assert edited.arguments == {"env": "staging"}
    assert not store.answer_sync(id, approve=True, user="ana", digest=edited.digest).votes


def test_an_edit_that_is_a_vote_is_not_reported_as_the_proposal_of_another_call(
    store: ConversationStore,
) -> None:
    tape = Tape()
    tape.start()
    voted = tape.wait(tape.call("call_1", arguments={"env": "production"}))
    tape.events[-1] = replace(voted, people=replace(OPS, only=False), any_arguments=True)
    unchecked = tape.wait(tape.call("call_2", arguments={"env": "eu-1"}))
    tape.events[-1] = replace(unchecked, any_arguments=False)
    kept = keep(store, tape)
    assert store.answer_sync(
        address(kept, unchecked.event_id), arguments={"env": "eu-2"}, user="bo"
    ).proposed
    receipt = store.answer_sync(
        address(kept, voted.event_id), arguments={"env": "staging"}, user="bo"
    )
    assert (receipt.votes, receipt.proposed) == ("1 of 2", False)


def test_queued_yes_applies_to_the_arguments_at_its_time(store: ConversationStore) -> None:
    """The process that runs the turn records bo's edit first, but ana had approved the model's
    arguments.
    """
    kept, id, tape = permission_for(store)

    async def told() -> None:
        async with await store.open(kept) as held:
            await store.answer(id, arguments={"env": "staging"}, user="bo")
            await store.answer(
                id, approve=True, user="ana", digest=(await store.pending())[0].digest
            )
            first, second = await held.answers.collect()
            assert {first.digest, second.digest} > {""}

    asyncio.run(told())
    (vote,) = [event for event in new(store, kept, tape) if isinstance(event, Vote)]
    assert vote.arguments == {"env": "staging"}
    assert [question.whose.tally for question in store.pending_sync() if question.whose] == [
        "1 of 2"
    ]
