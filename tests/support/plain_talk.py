"""A plain prompt without a terminal: lines in, what was said and the reply out."""

from __future__ import annotations

from midturn.events.prompt import Prompt
from midturn.question.reply import Reply
from midturn.terminal.prompts.plain_prompt import plain_dialog
from midturn.terminal.prompts.plain_scene import Edit, Say, Scene


class Talk:
    """What happened: the reply, everything that was said, and what the editor was given."""

    def __init__(self, prompt: Prompt, *lines: str, width: int = 80, height: int = 0, edited: str | None = None) -> None:
        scene = Scene(prompt, width, height)
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
        """Everything that was said, row by row."""
        return "\n".join(self.said)
