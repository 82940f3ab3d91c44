"""Runs a plain prompt without a terminal: takes lines, collects the output and the reply."""

from __future__ import annotations

from midturn.events.prompt import Prompt
from midturn.question.reply import Reply
from midturn.terminal.prompts.plain_prompt import plain_dialog
from midturn.terminal.prompts.plain_scene import Edit, PromptBase, Say


class PlainPromptDriver:
    """A run of a plain prompt: the reply, all output (`said`), and the texts given to the
    editor.
    """

    def __init__(
        self,
        prompt: Prompt,
        *lines: str,
        width: int = 80,
        height: int = 0,
        edited: str | None = None,
    ) -> None:
        scene = PromptBase(prompt, width, height)
        dialog = plain_dialog(scene)
        saying = next(dialog)
        self.said: list[str] = []
        self.given: list[Edit] = []
        self.reply: Reply | None = None
        waiting = list(lines)
        try:
            while True:
                if isinstance(saying, Say):
                    self.said += [*saying.rows, saying.ask]
                    if not waiting:
                        return
                    saying = dialog.send(waiting.pop(0))
                else:
                    self.given.append(saying)
                    saying = dialog.send(saying.text if edited is None else edited)
        except StopIteration as stop:
            self.reply = stop.value
            assert not waiting, f"the prompt was answered before {waiting}"
            self.said.append(scene.transcript(stop.value))

    @property
    def text(self) -> str:
        """The whole output, row by row."""
        return "\n".join(self.said)
