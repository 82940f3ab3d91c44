"""A prompt in plain lines: no escape byte, no bell, nothing that moves."""

from __future__ import annotations

import asyncio
from contextlib import closing, suppress

from midturn.core.prompt import Prompt
from midturn.core.reply import EndedTurn, Reply
from midturn.core.visible import exact
from midturn.errors import TerminalGone
from midturn.prompts.content import about
from midturn.prompts.plain.dialog import Dialog, Edit, Say, Saying
from midturn.prompts.plain.prompt import plain_dialog
from midturn.prompts.plain.scene import Scene
from midturn.terminal.device import Device
from midturn.terminal.editor import NoEdit, edit
from midturn.terminal.lines import LineInterrupted, LineReader
from midturn.terminal.restore import Restored
from midturn.terminal.settings import PrompterSettings

TAKEN_AWAY = "(the question was taken away)"


async def ask_plain(prompt: Prompt, device: Device, settings: PrompterSettings) -> Reply:
    """Ask on `device` and return what the person did; the terminal is left as it was found."""
    scene = Scene(prompt, device.size.columns)
    with Restored(device) as restored, closing(plain_dialog(scene)) as dialog:
        reader = LineReader(device, restored, settings.settle)
        try:
            reply = await _converse(dialog, scene, reader, restored)
        except LineInterrupted:
            device.write("\n")
            reply = EndedTurn()
        except asyncio.CancelledError:
            with suppress(TerminalGone):
                device.write(f"\n{TAKEN_AWAY}\n" if settings.announces else "\n")
            raise
    device.write("".join(f"{row}\n" for row in (scene.transcript(reply), *scene.covered(reply))))
    return reply


async def _converse(dialog: Dialog, scene: Scene, reader: LineReader, restored: Restored) -> Reply:
    saying = next(dialog)
    while True:
        heard = await _carry_out(saying, scene, reader, restored)
        try:
            saying = dialog.send(heard)
        except StopIteration as stop:
            return stop.value


async def _carry_out(saying: Saying, scene: Scene, reader: LineReader, restored: Restored) -> str:
    match saying:
        case Say():
            return await reader.ask(saying)
        case Edit(text):
            try:
                return await edit(saying, about(scene.prompt), restored.device, restored)
            except NoEdit as error:
                restored.device.write(f"{exact(str(error))}\n")
                return text
