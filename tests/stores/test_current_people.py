"""The configured people are read when an answer is given: removed people, logins, and the
recorded responder.
"""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace
from starlette.testclient import TestClient

from midturn.errors import NotAllowed
from midturn.events.open_question import address
from midturn.events.types import AnsweredBy, Event, Reassigned, Vote
from midturn.question.people import Directory, People, Person
from midturn.stores.store import ConversationStore
from midturn.web import inbox
from support.pages import OWN
from support.stored import asking, keep

EVERYONE = {"ana": Person(logins=("a.smith", "ana@corp.example")), "bo": Person(), "carl": Person()}
GROUPS = {"ops": ("ana", "bo")}


class ChangingConfiguration:
    """A configuration whose people can change."""

    def __init__(self) -> None:
        self.now = Directory(EVERYONE, GROUPS)

    def __call__(self) -> Directory:
        """Return the current people."""
        return self.now

    def remove(self, name: str) -> None:
        self.now = Directory(
            {each: person for each, person in EVERYONE.items() if each != name}, GROUPS
        )


def question_for(
    store: ConversationStore, people: People
) -> tuple[ConversationStore, ChangingConfiguration, str]:
    """Store a question for configured people; return the guarded store, the configuration and the
    question ID.
    """
    configured = ChangingConfiguration()
    tape, question = asking()
    place = tape.events.index(question)
    tape.events[place] = replace(question, people=configured.now.filled_in(people), configured=True)
    kept = keep(store, tape)
    return store.with_people(configured), configured, address(kept, question.event_id)


def last(store: ConversationStore, id: str) -> Event:
    return store.read_sync(id.partition("-")[0]).events[-1]


ANYONE = People(approvals=2)
OPS = People(ask=["ops"], only=True, approvals=2)


@pytest.mark.parametrize("people", [ANYONE, OPS])
@pytest.mark.parametrize(
    ("one", "other"),
    [("a.smith", "ana@corp.example"), ("ana", "A.Smith"), ("ANA@corp.example", "ana")],
)
def test_two_logins_of_one_person_are_one_vote(
    store: ConversationStore, people: People, one: str, other: str
) -> None:
    served, _, id = question_for(store, people)
    assert served.answer_sync(id, True, user=one, via="web").votes == "1 of 2"
    with pytest.raises(NotAllowed, match="ana has said yes already: 1 of 2"):
        served.answer_sync(id, True, user=other, via="api")
    with pytest.raises(NotAllowed, match="ana has said yes already: 1 of 2"):
        store.answer_sync(id, True, user=other, via="api")  # a program without the configuration
    assert served.answer_sync(id, True, user="bo").votes == ""


def test_the_proxy_s_address_on_the_page_and_a_paired_account_are_one_person(
    store: ConversationStore,
) -> None:
    served, _, id = question_for(store, ANYONE)
    client = TestClient(
        inbox(served, user=lambda _: "ana@corp.example"),
        base_url="http://testserver",
        headers={**OWN, "Accept": "text/html"},
    )
    with client as page:
        page.post(f"/q/{id}", data={"answer": "yes"})
    vote = last(store, id)
    assert isinstance(vote, Vote)
    assert vote.answered_by == AnsweredBy("user", via="web", user="ana", login="ana@corp.example")
    with pytest.raises(NotAllowed, match="ana has said yes already"):
        served.answer_sync(id, True, user="ana", via="telegram", login="12345")


@pytest.mark.parametrize("people", [ANYONE, People(ask=["ops"], only=True), People(ask=["ops"])])
@pytest.mark.parametrize("user", ["ana", "ANA"])
def test_removed_person_cannot_decide(store: ConversationStore, people: People, user: str) -> None:
    served, configured, id = question_for(store, people)
    configured.remove("ana")
    for how in ({"value": True}, {"value": False}, {"reply": "no"}, {"cancel": True}):
        with pytest.raises(NotAllowed, match="ana is not in the configuration any more") as refused:
            served.answer_sync(id, user=user, **how)  # type: ignore[arg-type]  # one way each
        assert refused.value.id == id
    with pytest.raises(NotAllowed, match="ana is not in the configuration any more"):
        served.reassign_sync(id, ["bo"], user=user)
    assert [question.id for question in store.pending_sync()] == [id]


def test_recorded_vote_of_a_removed_person_counts(store: ConversationStore) -> None:
    served, configured, id = question_for(store, OPS)
    served.answer_sync(id, True, user="ana")
    configured.remove("ana")
    client = TestClient(
        inbox(served, user=lambda _: "bo"),
        base_url="http://testserver",
        headers={**OWN, "Accept": "text/html"},
    )
    with client as page:
        assert "Approved by ana (has left)." in page.get(f"/q/{id}").text
    with pytest.raises(NotAllowed, match="ana is not in the configuration any more"):
        served.withdraw_vote_sync(id, user="ana")
    assert served.answer_sync(id, True, user="bo").votes == ""
    assert store.pending_sync() == []


@pytest.mark.parametrize("people", [ANYONE, OPS])
def test_unknown_login_error_explains_the_configuration(
    store: ConversationStore, people: People
) -> None:
    served, _, id = question_for(store, people)
    told = (
        r"dora (is not a known person|may not answer this).*add the login to its person:"
        r" `\[people.NAME\] logins`"
    )
    with pytest.raises(NotAllowed, match=told):
        served.answer_sync(id, True, user="dora")
    with pytest.raises(NotAllowed):
        store.answer_sync(id, True, user="dora")


def test_unknown_login_may_decide_a_question_for_anyone(store: ConversationStore) -> None:
    served, _, id = question_for(store, People(ask=["ops"]))
    served.answer_sync(id, True, user="dora")
    assert store.pending_sync() == []


def test_a_question_is_passed_on_only_to_people_who_are_configured(
    store: ConversationStore,
) -> None:
    served, _, id = question_for(store, People(ask=["ops"]))
    with pytest.raises(
        NotAllowed,
        match=r"There is no person or group `calr` in the configuration\. Did you mean `carl`\?",
    ):
        served.reassign_sync(id, ["calr"], user="ana")
    served.reassign_sync(id, ["CARL"], user="ana")
    assert isinstance(last(store, id), Reassigned)


def test_removed_person_cannot_decide_in_a_running_turn(store: ConversationStore) -> None:
    served, configured, id = question_for(store, OPS)

    async def while_held() -> None:
        async with await store.open(id.partition("-")[0]):
            await served.answer(id, True, user="a.smith", via="web")
            configured.remove("bo")
            with pytest.raises(NotAllowed, match="bo is not in the configuration any more"):
                await served.answer(id, True, user="bo")

    asyncio.run(while_held())
    vote = last(store, id)
    assert isinstance(vote, Vote)
    assert vote.answered_by == AnsweredBy("user", via="web", user="ana", login="a.smith")


def test_a_configuration_without_people_changes_nothing(store: ConversationStore) -> None:
    served, configured, id = question_for(store, OPS)
    configured.now = Directory()
    assert served.answer_sync(id, True, user="a.smith").votes == "1 of 2"
