"""The page of `examples/agui`, served by a process that tests can kill."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from midturn.events.types import ToolCallRequest, ToolCallResponse
from midturn.stores.opening import FileStore
from midturn.stores.store import ConversationStore
from support.documents import ROOT
from support.installed import installed
from support.serving import free_port, wait_for_listener

EXAMPLE = ROOT / "examples" / "agui"


def copy_of_example(to: Path) -> Path:
    """Copy the example, with its installed packages.

    Raises:
        Missing: npm is missing or cannot install the packages.
    """
    packages: dict[str, str] = json.loads((EXAMPLE / "package.json").read_text())["dependencies"]
    commands = installed(
        "agui-page", *(f"{name}@{version}" for name, version in packages.items()), scripts=False
    )
    folder = to / "example"
    ignored = shutil.ignore_patterns("node_modules", "__pycache__")
    shutil.copytree(EXAMPLE, folder, ignore=ignored)
    (folder / "node_modules").symlink_to(commands.parent)
    return folder


class PageServer:
    """A server of the page as a process on one port, which can be restarted.

    Args:
        folder: Directory of the example, and of the store.
        program: Name of the program in it.
        options: Further options of the program.
    """

    def __init__(self, folder: Path, program: str = "agent.py", *options: str) -> None:
        self.store = FileStore(folder / "data" / "conversations")
        self._folder = folder
        self._port = free_port()
        data = ["--folder", str(folder / "data"), "--port", str(self._port), "--user", "ada"]
        self._command = [sys.executable, str(folder / program), *data, *options]
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> str:
        """Start the server, and return the printed address."""
        homes = {name: str(self._folder) for name in ("HOME", "XDG_STATE_HOME")}
        path = os.pathsep.join(sys.path)
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": path, **homes}
        self._process = subprocess.Popen(
            self._command, stdout=subprocess.PIPE, text=True, env=environment, cwd=self._folder
        )
        assert self._process.stdout
        address = self._process.stdout.readline().strip()
        wait_for_listener(self._port)
        return address

    def kill(self) -> None:
        """Kill the server with SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


async def responses(store: ConversationStore) -> dict[str, str]:
    """Return the results of the tools by name."""
    (conversation,) = await store.ids()
    events = (await store.read(conversation)).events
    names = {event.event_id: event.name for event in events if isinstance(event, ToolCallRequest)}
    return {
        names[event.call]: event.content for event in events if isinstance(event, ToolCallResponse)
    }
