# pyright: basic
"""An evaluation with several judges on LangGraph: an interrupt per ticket, a thread per judge."""

from collections import Counter
from operator import or_
from typing import Annotated, Any, TypedDict

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, Send, interrupt

TICKETS = {
    "T1": "I was charged twice for my order.",
    "T2": "The app closes when I open a photo.",
    "T3": "How do I change my address?",
    "T4": "My invoice shows the wrong name, and I can't change it.",
}
KINDS = ["billing", "bug", "how-to"]
JUDGES = {
    "ana": {"T1": "billing", "T2": "bug", "T3": "how-to", "T4": "billing"},
    "bo": {"T1": "billing", "T2": "bug", "T3": "how-to", "T4": "bug"},
    "cy": {"T1": "bug", "T2": "bug", "T3": "how-to", "T4": "billing"},
}


class State(TypedDict):
    """Verdicts of a judge by ticket."""

    said: Annotated[dict[str, str], or_]


class Ticket(TypedDict):
    """A ticket to judge."""

    ticket: str


def judge(given: Ticket) -> dict[str, Any]:
    """Ask for a verdict. An invalid verdict is asked for again."""
    ticket = given["ticket"]
    kind = interrupt(
        {"ticket": ticket, "question": f"{TICKETS[ticket]} What is it about?", "options": KINDS}
    )
    while kind not in KINDS:
        kind = interrupt(
            {"ticket": ticket, "question": f"One of {KINDS}, please.", "options": KINDS}
        )
    return {"said": {ticket: kind}}


def main() -> None:
    """Ask every judge about every ticket, and compare."""
    made: Any = StateGraph(State)
    made.add_node("judge", judge)
    made.add_conditional_edges(
        START, lambda _: [Send("judge", Ticket(ticket=ticket)) for ticket in TICKETS], ["judge"]
    )
    graph = made.compile(checkpointer=InMemorySaver())
    for name, answers in JUDGES.items():
        config = {"configurable": {"thread_id": name}}
        state = graph.invoke({"said": {}}, config)
        while waiting := state.get("__interrupt__"):
            state = graph.invoke(
                Command(resume={one.id: answers[one.value["ticket"]] for one in waiting}), config
            )
    record = {
        name: graph.get_state({"configurable": {"thread_id": name}}).values["said"]
        for name in JUDGES
    }
    most = {
        ticket: Counter(said[ticket] for said in record.values()).most_common(1)[0][0]
        for ticket in TICKETS
    }
    for name, said in record.items():
        agreed = sum(said[ticket] == most[ticket] for ticket in TICKETS)
        print(f"{name} agrees with most about {agreed} of {len(TICKETS)} tickets")


if __name__ == "__main__":
    main()
