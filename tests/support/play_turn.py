"""Program that shows a turn on its terminal step by step: `play_turn.py FILE`, a JSON file with
settings and steps.

Steps: `["text", words]`, `["reasoning", words]`, `["model"]`, `["answered"]` (the model is done),
`["tool", name, arguments]`, `["again", name]`, `["result", name, content, is_error]`, `["notice",
text, seconds]`, `["sleep", seconds]`, `["ask", prompt]` (opens a prompt of the catalogue while
the following steps run), `["reply"]` (waits until it is answered), `["end"]`.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from midturn.events.types import ToolCall
from midturn.ports import (
    ModelFinished,
    ModelStarted,
    Notice,
    ReasoningShown,
    TextShown,
    ToolBegan,
    ToolEnded,
)
from midturn.terminal.capabilities import TerminalSettings
from midturn.terminal.output import OutputSettings, TerminalDisplay
from midturn.terminal.output_pair import Gate
from midturn.terminal.prompter import TerminalPrompter
from support.prompt_catalogue import PROMPTS


class Player:
    """Plays steps on a display, and prompts on the same screen."""

    def __init__(self, settings: dict[str, Any]) -> None:
        gate = Gate(max_buffered=settings.get("most_held", 1_000_000))
        mode = settings.get("mode", "auto")
        shown = OutputSettings(
            hidden=frozenset(settings.get("hidden", ())),
            reasoning=settings.get("reasoning", False),
            mode=mode,
        )
        asked = TerminalSettings(
            settle_ms=0,
            mode=mode,
            bell=False,
            notify=False,
            notify_command=tuple(settings.get("notify", ())),
        )
        self.display = TerminalDisplay(shown, gate)
        self._prompter = TerminalPrompter(asked, gate)
        self._asking: asyncio.Task[Any] | None = None

    async def play(self, step: list[Any]) -> None:
        show = self.display.show
        match step:
            case ["text", text]:
                show(TextShown(text))
            case ["reasoning", text]:
                show(ReasoningShown(text))
            case ["model"]:
                show(ModelStarted())
            case ["answered"]:
                show(ModelFinished())
            case ["tool", name, arguments]:
                show(ToolBegan(_call(name, arguments)))
            case ["again", name]:
                show(ToolBegan(_call(name, {}), again=True))
            case ["result", name, content, is_error]:
                show(ToolEnded(_call(name, {}), content, is_error))
            case ["notice", text, seconds]:
                show(Notice(text, seconds))
            case _:
                await self._wait(step)

    async def _wait(self, step: list[Any]) -> None:
        match step:
            case ["sleep", seconds]:
                await asyncio.sleep(seconds)
            case ["ask", name]:
                self._asking = asyncio.create_task(self._prompter.prompt(PROMPTS[name]))
                await asyncio.sleep(0.2)
            case ["reply"] if self._asking:
                await self._asking
            case ["end"]:
                self.display.end()
            case _:
                raise ValueError(step)


async def main(script: dict[str, Any]) -> None:
    player = Player(script.get("settings", {}))
    try:
        for step in script["steps"]:
            await player.play(step)
    finally:
        player.display.end()


def _call(name: str, arguments: Any) -> ToolCall:
    return ToolCall(name, name, name, arguments)


if __name__ == "__main__":
    asyncio.run(main(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))))
