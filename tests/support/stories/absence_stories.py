"""Stories about absent or concurrent participants: nobody to ask, a killed or remote asking
process, two answers at the same time.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import midturn as mt
from midturn.stores.store import ConversationStore
from support.cli import asks
from support.stories.outcome import answered, approval, asked, closed, failed, outcome
from support.stories.people import another
from support.stories.scene import Pair, Scene
from support.stories.separate_processes import no_namespace
from support.stories.story import Story

CONFIRM = asks()
NOBODY = (
    "deploy cannot run because no interactive terminal is available. Do not retry this tool call in"
    " this turn; continue without user input or explain what information is missing."
)


def asker_dead(pair: Pair) -> None:
    """The process that asked is killed. Another process continues with the answer and does not
    ask again.
    """
    pair.asker.die()
    pair.person.answer("confirm", True)
    pair.asker.go_on()


def asker_of_permission_dead(pair: Pair) -> None:
    """The process that asked is killed. Another process continues with the approval, and the call
    runs once.
    """
    pair.asker.die()
    pair.person.allow("run")
    pair.asker.go_on()


def asker_apart(pair: Pair) -> None:
    """The asking process runs in another PID namespace. Its process ID does not make it look
    dead or like another process.
    """
    pair.asker.begin_in_namespace()
    question = another(pair).find("confirm")
    assert (
        question.asker.waits
        if question.asker
        else _is_held(pair.asker.store, question.conversation)
    )
    pair.person.answer("confirm", True)
    pair.asker.end_in_namespace()


def answered_at_once(pair: Pair) -> None:
    """Two people approve at the same moment. One approval is recorded; the other person is told
    who was first, as after a late answer.
    """
    pair.asker.begin()
    id = another(pair).find("confirm").id
    together = Barrier(2)

    def ben() -> str:
        together.wait(60)
        return another(pair, "ben").refusal(id)

    def other() -> str:
        together.wait(60)
        return pair.person.tries(id)

    with ThreadPoolExecutor(2) as both:
        told = [said.result() for said in (both.submit(ben), both.submit(other))]
    assert sum(_is_late(said, id) for said in told) == 1, told
    assert sum("answer stands." in said for said in told) == 1, told
    pair.asker.go_on()


def inside(pair: Pair) -> None:
    """The inner agent gets the answer, and the outer turn continues."""
    pair.asker.begin()
    pair.asker.go_on()
    pair.person.answer("confirm", True)
    pair.asker.go_on()


def _is_late(said: str, id: str) -> bool:
    """Return whether a refusal says that somebody else was first. The page uses its own
    sentence.
    """
    return (
        f"The question {id} was answered before, by " in said
        or "already answered this. Their answer stands." in said
    )


def nobody_there(pair: Pair) -> None:
    """Nobody is asked. A person who answers later is told how the question was closed."""
    pair.asker.begin()
    pair.asker.go_on()
    (request,) = requests(pair)
    told = pair.person.refusal(request)
    on_page = (
        "already answered this. Their answer stands." in told
    )  # the page uses its own sentence
    assert on_page or f"The question {request} " in told, told
    assert on_page or any(
        words in told for words in ("closed: it was cancelled (", "was answered before, by ")
    ), told


def deferred(pair: Pair) -> None:
    """The question stays open, however often the turn is continued without a terminal."""
    pair.asker.begin()
    pair.asker.go_on()
    pair.asker.go_on()
    pair.person.answer("confirm", True)
    pair.asker.go_on()


def _is_held(store: ConversationStore, conversation: str) -> bool:
    """Try to continue the turn, and return whether it is locked."""
    try:
        asyncio.run(store.open(conversation))
    except mt.StoreLocked:
        return True
    return False


def requests(pair: Pair) -> list[str]:
    """Return the IDs of all questions that were ever asked."""
    store = pair.asker.store
    found = [(id, event) for id in store.ids_sync() for event in store.read_sync(id).events]
    return [f"{id}-{event.event_id}" for id, event in found if event.type == "inquiry_request"]


_YES = (asked("confirm"), answered("confirm", True))
_HEARD = '{"confirm": true}'

ABSENCES = (
    Story(
        name="asking process killed and restarted",
        scene=Scene(ask=[CONFIRM]),
        play=asker_dead,
        outcome=outcome(*_YES, words=_HEARD),
    ),
    Story(
        name="permission: asking process killed and restarted",
        scene=Scene(say="Deployed.", run="ask"),
        play=asker_of_permission_dead,
        outcome=outcome(approval("run", "approved"), words="Deployed."),
    ),
    Story(
        name="asking process in another PID namespace",
        scene=Scene(ask=[CONFIRM]),
        play=asker_apart,
        outcome=outcome(*_YES, words=_HEARD),
        impossible=no_namespace,
    ),
    Story(
        name="answered twice at the same time",
        scene=Scene(ask=[CONFIRM]),
        play=answered_at_once,
        outcome=outcome(*_YES, words=_HEARD),
    ),
    Story(
        name="agent inside a tool",
        scene=Scene(ask=[CONFIRM], inner=True),
        play=inside,
        outcome=outcome(*_YES, words=_HEARD),
    ),
    Story(
        name="detached: defer",
        scene=Scene(ask=[CONFIRM]),
        play=deferred,
        outcome=outcome(*_YES, words=_HEARD),
    ),
    Story(
        name="detached: deny",
        scene=Scene(ask=[CONFIRM], detached="deny"),
        play=nobody_there,
        outcome=outcome(
            asked("confirm"), closed("confirm", "detached_denied"), words=failed(NOBODY)
        ),
    ),
    Story(
        name="detached: defaults",
        scene=Scene(ask=[asks(default=True)], detached="defaults"),
        play=nobody_there,
        outcome=outcome(asked("confirm"), "confirm = true by default", words=_HEARD),
    ),
    Story(
        name="detached: defaults, no default value",
        scene=Scene(ask=[CONFIRM], detached="defaults"),
        play=nobody_there,
        outcome=outcome(asked("confirm"), closed("confirm", "no_default"), words=failed(NOBODY)),
    ),
    Story(
        name="detached: auto",
        scene=Scene(ask=[CONFIRM], detached="auto"),
        play=nobody_there,
        outcome=outcome(
            asked("confirm"), "confirm = true by assistant because 'Fine.'", words=_HEARD
        ),
    ),
)
