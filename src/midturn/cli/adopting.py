"""`midturn resume --adopt`: shows what an open turn that came from elsewhere would do, and takes it over if its user says so."""

from __future__ import annotations

from midturn.cli.asking import confirmed
from midturn.cli.output import note, say, tell
from midturn.cli.place import Place
from midturn.cli.shown import line
from midturn.core.events import ChatRequest, Event, InquiryAnswered, InquiryRequest, ToolCallRequest, ToolCallResponse
from midturn.core.json_value import shown
from midturn.core.question import Question
from midturn.core.stream import open_turn
from midturn.errors import NotOpen

_ASK = "Take this turn over? Its approvals are asked again, its answers are offered as drafts, its flags are dropped."
_HINT = "Nobody is here to look at it: adopt it at a terminal, or end it with `midturn resume --discard`."


def adopt(place: Place, conversation: str) -> bool:
    """Show an open turn and ask; say whether it is ours now.

    Raises:
        NotOpen: Its last turn is over.
    """
    window = open_turn(place.store.read_sync(conversation).events)
    if window is None:
        raise NotOpen(f"Conversation {conversation} has no open turn.")
    if not _needs_adoption(place, conversation):
        tell("The open turn of conversation {} is yours already.", conversation)
        return True
    _show(conversation, list(window.events))
    question = Question.boolean("adopt", _ASK)
    if not confirmed(question, _HINT):
        note("midturn: nothing was taken over.")
        return False
    place.run(place.store.port.adopt(conversation))
    note("midturn: the turn is yours. `midturn resume {}` goes on with it.", conversation)
    return True


def adopt_all(place: Place) -> bool:
    """Adopt one open turn after the other; say whether all are ours now."""
    unfinished = place.run(place.store.port.ids(which="open"))
    waiting = [number for number in unfinished if _needs_adoption(place, number)]
    if not waiting:
        tell("No open turn waits to be adopted.")
    return sum([adopt(place, number) for number in waiting]) == len(waiting)


def _needs_adoption(place: Place, conversation: str) -> bool:
    return place.run(place.store.port.look(conversation)).turn.needs_adoption


def _show(conversation: str, turn: list[Event]) -> None:
    say("Conversation {}", conversation)
    done = {event.call for event in turn if isinstance(event, ToolCallResponse)}
    asked = {event.id: event for event in turn if isinstance(event, InquiryRequest) and event.call not in done}
    for event in turn:
        match event:
            case ChatRequest(content=content):
                say("  asked: {}", content)
            case ToolCallRequest(name=name, arguments=arguments):
                ran = "has run" if event.event_id in done else "would run"
                say(line("  {}: {} {}", ran, name, shown(arguments)))
            case InquiryAnswered(id=id, answer=answer) if id in asked:
                say("    {} {}  (answered elsewhere)", asked[id].question.text, shown(answer))
            case _:
                pass
