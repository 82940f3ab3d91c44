"""Stories of who is not there, or not alone: no one at any door, an asker that died, one far away, two who answer at once."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import midturn as mt
from midturn.stores.store import ConversationStore
from support.cli import asks
from support.stories.elsewhere import no_namespace
from support.stories.outcome import answered, approval, asked, closed, failed, outcome
from support.stories.people import another
from support.stories.scene import Pair, Scene
from support.stories.story import Story

CONFIRM = asks()
NOBODY = (
    "deploy cannot run because no interactive terminal is available. "
    "Do not retry this tool call in this turn; continue without user input or explain what information is missing."
)


def asker_dead(pair: Pair) -> None:
    """The process that asked is killed, and another goes on with the answer: nothing is asked anew."""
    pair.asker.die()
    pair.person.answer("confirm", True)
    pair.asker.go_on()


def asker_of_permission_dead(pair: Pair) -> None:
    """The process that asked is killed, and another goes on with the yes: it runs once."""
    pair.asker.die()
    pair.person.allow("run")
    pair.asker.go_on()


def asker_apart(pair: Pair) -> None:
    """The process that asks is alive, but its number says nothing here: it is neither taken for dead nor for another one."""
    pair.asker.begin_apart()
    question = another(pair).find("confirm")
    assert question.asker.waits if question.asker else _is_held(pair.asker.store, question.conversation)
    pair.person.answer("confirm", True)
    pair.asker.end_apart()


def answered_at_once(pair: Pair) -> None:
    """Two say yes in the same moment: one is on record, and the other is told who that was, in the words of who comes late."""
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
    assert sum(f"The question {id} was answered before, by " in said for said in told) == 1, told
    assert sum("That answer stands." in said for said in told) == 1, told
    pair.asker.go_on()


def inside(pair: Pair) -> None:
    """The answer goes to the agent inside, and the turn around it goes on."""
    pair.asker.begin()
    pair.asker.go_on()
    pair.person.answer("confirm", True)
    pair.asker.go_on()


def nobody_there(pair: Pair) -> None:
    """Nobody is asked; who comes by all the same is told how it went."""
    pair.asker.begin()
    pair.asker.go_on()
    (request,) = requests(pair)
    told = pair.person.refusal(request)
    assert f"The question {request} " in told, told
    assert any(words in told for words in ("closed: it was cancelled (", "was answered before, by ")), told


def deferred(pair: Pair) -> None:
    """It waits, however often somebody comes by at no terminal."""
    pair.asker.begin()
    pair.asker.go_on()
    pair.asker.go_on()
    pair.person.answer("confirm", True)
    pair.asker.go_on()


def _is_held(store: ConversationStore, conversation: str) -> bool:
    """Try to go on with a turn."""
    try:
        asyncio.run(store.open(conversation))
    except mt.StoreLocked:
        return True
    return False


def requests(pair: Pair) -> list[str]:
    """Return the addresses of everything that was ever asked."""
    store = pair.asker.store
    found = [(id, event) for id in store.ids_sync() for event in store.read_sync(id).events]
    return [f"{id}-{event.event_id}" for id, event in found if event.type == "inquiry_request"]


_YES = (asked("confirm"), answered("confirm", True))
_HEARD = '{"confirm": true}'

ABSENCES = (
    Story(
        name="asker dead, then back",
        scene=Scene(ask=[CONFIRM]),
        play=asker_dead,
        outcome=outcome(*_YES, words=_HEARD),
    ),
    Story(
        name="permission: asker dead, then back",
        scene=Scene(say="Deployed.", run="ask"),
        play=asker_of_permission_dead,
        outcome=outcome(approval("run", "approved"), words="Deployed."),
    ),
    Story(
        name="asker in another PID namespace",
        scene=Scene(ask=[CONFIRM]),
        play=asker_apart,
        outcome=outcome(*_YES, words=_HEARD),
        impossible=no_namespace,
    ),
    Story(
        name="answered twice at once",
        scene=Scene(ask=[CONFIRM]),
        play=answered_at_once,
        outcome=outcome(*_YES, words=_HEARD),
    ),
    Story(
        name="inner agent",
        scene=Scene(ask=[CONFIRM], inner=True),
        play=inside,
        outcome=outcome(*_YES, words=_HEARD),
    ),
    Story(
        name="nobody there: defer",
        scene=Scene(ask=[CONFIRM]),
        play=deferred,
        outcome=outcome(*_YES, words=_HEARD),
    ),
    Story(
        name="nobody there: deny",
        scene=Scene(ask=[CONFIRM], detached="deny"),
        play=nobody_there,
        outcome=outcome(asked("confirm"), closed("confirm", "detached_denied"), words=failed(NOBODY)),
    ),
    Story(
        name="nobody there: defaults",
        scene=Scene(ask=[asks(default=True)], detached="defaults"),
        play=nobody_there,
        outcome=outcome(asked("confirm"), "confirm = true by default", words=_HEARD),
    ),
    Story(
        name="nobody there: defaults, without one",
        scene=Scene(ask=[CONFIRM], detached="defaults"),
        play=nobody_there,
        outcome=outcome(asked("confirm"), closed("confirm", "no_default"), words=failed(NOBODY)),
    ),
    Story(
        name="nobody there: auto",
        scene=Scene(ask=[CONFIRM], detached="auto"),
        play=nobody_there,
        outcome=outcome(asked("confirm"), "confirm = true by assistant because 'Fine.'", words=_HEARD),
    ),
)
