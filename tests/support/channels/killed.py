"""`midturn channels run` in a process that kills itself (SIGKILL) at a given step.

A step is the point before or after a durable action: a write to the channel's memory, a recorded
answer or note, or a message that is sent or changed. Together the steps cover every place where a
process can die. Processes are forked from one that has loaded the libraries.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

_PROGRAM = """
import asyncio, json, os, signal, sys
import aiohttp, anyio.streams.tls, anyio._core._sockets, concurrent.futures.thread, httpcore, slack_sdk.web.async_client, telegram.request
from midturn.channels import card_reconciler, running
import imapclient, aiosmtplib, nio
from midturn.channels.discord import Discord
from midturn.channels.email import Email
from midturn.channels.matrix import Matrix
from midturn.channels.ntfy import Ntfy
from midturn.channels.slack import Slack
from midturn.channels.telegram import Telegram
from midturn.cli import channels, main
import midturn.cli.log, midturn.stores.file_conversations, midturn.stores.opening, midturn.inbox.store_access
from midturn.stores import lease
from midturn.stores.file_conversations import FileKeyValueStore
from midturn.stores.store import ConversationStore
from support.channels.phones import aim_discord
from support.warm_process import freeze_memory

freeze_memory()
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        break
    print(child, flush=True)
    os.waitpid(child, 0)
    print("gone", flush=True)
else:
    sys.exit()
told = json.loads(line)
os.environ.update(told["environment"])
left = told["step"]
if told["discord"]:
    aim_discord(told["discord"])

def step():
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)

def stepped(home, name):
    made = getattr(home, name)
    async def call(*args, **more):
        step()
        done = await made(*args, **more)
        step()
        return done
    setattr(home, name, call)

lease.LEASE_SECONDS, running.LEASE_RENEWAL_INTERVAL = 0.3, 0.1  # what a killed one holds, the next one waits for
stepped(FileKeyValueStore, "keep")
stepped(ConversationStore, "answer")
stepped(card_reconciler, "record_notice")
for channel in (Discord, Email, Matrix, Ntfy, Slack, Telegram):
    for name in ("send", "update"):
        stepped(channel, name)
os.chdir(told["directory"])
sys.argv = ["midturn", *told["words"]]
os._exit(main.run())
"""


class KilledChannel:
    """Runs of the command, one after the other."""

    def __init__(self) -> None:
        tests = Path(__file__).parents[2]
        path = {"PYTHONPATH": str(tests), "PATH": os.environ["PATH"]}
        self._said = Path(os.environ.get("MIDTURN_KILLED_SAID", os.devnull)).open("a")  # noqa: SIM115  as long as the process
        self._forks = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            text=True,
            env=path,
        )
        self.pid = 0

    def begin(
        self,
        step: int,
        words: list[str],
        directory: Path,
        environment: dict[str, str],
        discord: str = "",
    ) -> None:
        """Start a run that dies at `step`; 0: it does not die."""
        told = {
            "step": step,
            "words": words,
            "directory": str(directory),
            "environment": environment,
            "discord": discord,
        }
        assert self._forks.stdin
        self._forks.stdin.write(json.dumps(told) + "\n")
        self._forks.stdin.flush()
        self.pid = int(self._line())

    def gone(self) -> None:
        """Wait until the process has ended."""
        assert self._line() == "gone"

    def end(self) -> None:
        """End the process that forks the runs."""
        self._forks.communicate(timeout=120)
        self._said.close()

    def _line(self) -> str:
        assert self._forks.stdout
        return self._forks.stdout.readline().strip()
