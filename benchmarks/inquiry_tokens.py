"""Token cost of one question: a side request compared with the model repeating its call.

Prints a table; asserts nothing.

Both turns run against a server on the loopback interface, through the provider's library (the
extra `midturn[anthropic]`). The received requests are counted in the order in which providers
cache them: tools, system prompt, messages. Four bytes count as a token. Costs are in tokens of
fresh input at the usual prices: 0.1 for a cache read, 1.25 for a cache write, 5 for output.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from msgspec import Struct

import midturn as mt

sys.path.append(str(Path(__file__).parents[1] / "tests"))
answers, loopback, wire_prefix = (
    import_module(name)
    for name in ("support.providers.answers", "support.providers.loopback", "support.wire_prefix")
)

READ, WRITTEN, OUTPUT = 0.1, 1.25, 5.0
REASON = '{"reason": "It changes only the wording of the two steps.", "answer": true}'
APPLY = mt.Question.boolean("apply_changes", "Apply the changes to docs/plan.md?")


class Cost(Struct, frozen=True):
    """Tokens sent to and written by a model, with their cost with and without a cache."""

    sent: float
    cached: float
    output: float

    @property
    def with_cache(self) -> float:
        """Cost if the prefix shared with an earlier request is read from the cache and the rest
        is written to it.
        """
        return self.cached * READ + (self.sent - self.cached) * WRITTEN + self.output * OUTPUT

    @property
    def without_cache(self) -> float:
        """Cost if every request is processed completely."""
        return self.sent + self.output * OUTPUT

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.sent + other.sent, self.cached + other.cached, self.output + other.output)


@mt.tool
def change_on_the_side(path: str, edits: str, ctx: mt.ToolContext) -> str | mt.Question[bool]:
    """Change a file, once somebody has approved it."""
    return (
        APPLY
        if "apply_changes" not in ctx.answers
        else f"{path} was changed ({len(edits)} characters)."
    )


@mt.tool
def change_again(path: str, edits: str, approved: bool = False) -> str:  # noqa: FBT001, FBT002 (an argument that a model sends)
    """Change a file. Call it again with `approved` and the same arguments when you have looked
    at the change.
    """
    return (
        f"{path} was changed ({len(edits)} characters)."
        if approved
        else "Look at the change, then call again with `approved`."
    )


def played(tool: Any, said: Sequence[Any], history: int) -> list[Cost]:
    """Run a turn after about `history` tokens of conversation; return the cost of each
    request.
    """
    with loopback.Loopback(*said) as server:
        model = mt.ProviderModel("anthropic/claude-sonnet-5-5", base_url=server.url, api_key="none")
        routes: dict[str, mt.Target] = {
            f"{tool.definition.name}.apply_changes": mt.Target("assistant")
        }
        agent = mt.Agent(model, tools=[tool], instructions="You are careful.", routes=routes)
        agent.run_sync("Improve the plan. " + "word " * (history * 4 // 5))
        requests = [
            wire_prefix.rendered("anthropic", received.json) for received in server.received
        ]
    return [_cost(requests[:place], request, said[place]) for place, request in enumerate(requests)]


def _cost(earlier: Sequence[str], request: str, said: Any) -> Cost:
    sent = len(request.encode()) / 4
    cached = max((wire_prefix.shared(request, before) for before in earlier), default=0.0) * sent
    written = len(said.text) + sum(len(str(call.arguments)) for call in said.calls)
    return Cost(sent, cached, written / 4)


def turns(history: int, arguments: int) -> tuple[list[Cost], list[Cost]]:
    """Return the costs of a turn with a side request, and of a turn in which the model repeats
    its call.
    """
    call: dict[str, Any] = {"path": "docs/plan.md", "edits": "word " * (arguments * 4 // 5)}
    done = answers.Says(text="Done.")
    aside = [
        answers.Says(calls=(answers.ToolUse("change_on_the_side", call),)),
        answers.Says(text=REASON),
        done,
    ]
    approved = answers.ToolUse("change_again", {**call, "approved": True}, "call_2")
    again = [
        answers.Says(calls=(answers.ToolUse("change_again", call),)),
        answers.Says(calls=(approved,)),
        done,
    ]
    return played(change_on_the_side, aside, history), played(change_again, again, history)


def main() -> None:
    """Print the table: the question only, and the whole turn."""
    print(
        f"{'':27} {'sent':>16} {'cached':>9} {'output':>15} {'cost, cache':>17}"
        f" {'cost, no cache':>17}"
    )
    print(
        f"{'history':>8} {'arguments':>10} {'':7} {'aside':>8}{'again':>8} {'aside':>9}"
        f" {'aside':>7}{'again':>8}" + f" {'aside':>9}{'again':>8}" * 2
    )
    for history in (5_000, 50_000):
        for arguments in (200, 2_000, 10_000):
            aside, again = turns(history, arguments)
            whole = sum(aside, Cost(0, 0, 0)), sum(again, Cost(0, 0, 0))
            for what, (one, other) in (("request", (aside[1], again[1])), ("turn", whole)):
                print(
                    f"{history:>8,} {arguments:>10,} {what:7} {one.sent:>8,.0f}{other.sent:>8,.0f}"
                    f" {one.cached / one.sent:>9.1%} {one.output:>7,.0f}{other.output:>8,.0f}"
                    f" {one.with_cache:>9,.0f}{other.with_cache:>8,.0f}"
                    f" {one.without_cache:>9,.0f}{other.without_cache:>8,.0f}"
                )


if __name__ == "__main__":
    main()
