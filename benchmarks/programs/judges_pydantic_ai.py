# pyright: basic
"""An evaluation with several judges on Pydantic AI: a deferred call per ticket, a run per
judge.
"""

from collections import Counter

from pydantic_ai import Agent, CallDeferred, DeferredToolRequests, DeferredToolResults, ModelRetry
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

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


def model(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
    """Call the tool for every ticket, as a model would."""
    if not isinstance(messages[-1].parts[-1], UserPromptPart):
        return ModelResponse([TextPart("Judged.")])
    return ModelResponse([ToolCallPart("judge", {"ticket": ticket}, ticket) for ticket in TICKETS])


agent: Agent[None, str | DeferredToolRequests] = Agent(
    FunctionModel(model), output_type=[str, DeferredToolRequests]
)


@agent.tool_plain
def judge(ticket: str) -> str:
    """Get a verdict on a ticket."""
    raise CallDeferred(
        metadata={"question": f"{TICKETS[ticket]} What is it about?", "options": KINDS}
    )


def asked(name: str) -> list[ModelMessage]:
    """Ask a judge until every ticket has a verdict. An invalid verdict is asked for again."""
    result = agent.run_sync("Judge these tickets.")
    while isinstance(result.output, DeferredToolRequests):
        results = DeferredToolResults()
        for call in result.output.calls:
            kind = JUDGES[name][call.args_as_dict()["ticket"]]
            results.calls[call.tool_call_id] = (
                kind if kind in KINDS else ModelRetry(f"One of {KINDS}, please.")
            )
        result = agent.run_sync(
            message_history=result.all_messages(), deferred_tool_results=results
        )
    return result.all_messages()


def main() -> None:
    """Ask every judge about every ticket, and compare."""
    record: dict[str, dict[str, str]] = {}
    for name in JUDGES:
        parts = (
            part
            for message in asked(name)
            if isinstance(message, ModelRequest)
            for part in message.parts
        )
        record[name] = {
            part.tool_call_id: str(part.content)
            for part in parts
            if isinstance(part, ToolReturnPart)
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
