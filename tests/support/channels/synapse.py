"""Matrix homeserver for tests: Synapse with SQLite on loopback, without federation."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import itertools
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import httpx
import msgspec

from support.serving import free_port, wait_for_listener

PYTHON: Final = Path(__file__).parents[3] / ".venv-homeserver/bin/python"
SERVER: Final = "bot.test"
_SECRET: Final = "only for tests"
_NUMBERS = itertools.count(1)
_PLENTY: Final = {"per_second": 10_000, "burst_count": 10_000}


def no_synapse() -> str:
    """Return why this machine has no homeserver, or an empty string if it has one."""
    return "" if PYTHON.exists() else "there is no Synapse: make test-channels"


class Homeserver:
    """A homeserver and its accounts."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="midturn-matrix-", dir="/tmp"))
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        settings: dict[str, Any] = {
            "server_name": SERVER,
            "pid_file": str(self.path / "pid"),
            "listeners": [
                {
                    "port": self.port,
                    "type": "http",
                    "bind_addresses": ["127.0.0.1"],
                    "resources": [{"names": ["client"], "compress": False}],
                }
            ],
            "database": {"name": "sqlite3", "args": {"database": str(self.path / "db")}},
            "media_store_path": str(self.path / "media"),
            "signing_key_path": str(self.path / "key"),
            "log_config": str(self.path / "log.json"),
            "registration_shared_secret": _SECRET,
            "report_stats": False,
            "trusted_key_servers": [],
            "federation_domain_whitelist": [],
            "bcrypt_rounds": 4,
            **{
                f"rc_{name}": _PLENTY
                for name in ("message", "registration", "joins_per_room", "room_creation")
            },
            "rc_login": dict.fromkeys(("address", "account", "failed_attempts"), _PLENTY),
            "rc_joins": {"local": _PLENTY, "remote": _PLENTY},
            "rc_invites": dict.fromkeys(("per_room", "per_user", "per_issuer"), _PLENTY),
        }
        (self.path / "log.json").write_text(
            '{"version": 1, "root": {"level": "ERROR", "handlers": []}}'
        )
        (self.path / "homeserver.json").write_bytes(msgspec.json.encode(settings))
        self._run("--generate-keys")
        self.start()

    def _run(self, *more: str) -> None:
        subprocess.run(self._command(*more), check=True, cwd=self.path, capture_output=True)

    def _command(self, *more: str) -> list[str]:
        return [
            str(PYTHON),
            "-m",
            "synapse.app.homeserver",
            "-c",
            str(self.path / "homeserver.json"),
            *more,
        ]

    def start(self) -> None:
        """Start the server and wait until it accepts connections."""
        self._process = subprocess.Popen(
            self._command(), cwd=self.path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        wait_for_listener(self.port)

    def stop(self) -> None:
        """Stop the server; keep its data."""
        self._process.terminate()
        self._process.wait(120)

    def remove(self) -> None:
        """Stop the server and delete its data."""
        self.stop()
        shutil.rmtree(self.path)

    def limit(self, account: Account, most: int) -> None:
        """Limit the messages of an account per second."""
        admin = self.account("admin", is_admin=True)
        where = f"{self.url}/_synapse/admin/v1/users/{quote(account.user)}/override_ratelimit"
        limits = {"messages_per_second": most, "burst_count": most}
        httpx.post(
            where, json=limits, headers={"Authorization": f"Bearer {admin.token}"}, timeout=120
        ).raise_for_status()

    def account(self, name: str = "", *, is_admin: bool = False) -> Account:
        """Return a new account."""
        name = f"{name}{next(_NUMBERS)}"
        with httpx.Client(base_url=self.url, timeout=120) as http:
            nonce = http.get("/_synapse/admin/v1/register").json()["nonce"]
            words = f"{nonce}\0{name}\0pw\0{'' if is_admin else 'not'}admin".encode()
            mac = hmac.new(_SECRET.encode(), words, hashlib.sha1).hexdigest()
            made = {
                "nonce": nonce,
                "username": name,
                "password": "pw",
                "admin": is_admin,
                "mac": mac,
            }
            answer = http.post("/_synapse/admin/v1/register", json=made).raise_for_status().json()
        return Account(self, answer["user_id"], answer["access_token"])


class Account:
    """A user with a client."""

    def __init__(self, server: Homeserver, user: str, token: str) -> None:
        self._server = server
        self.user = user
        self.token = token
        self._since = ""  # the server caches its answer to a first sync for minutes

    async def call(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        """Call the client API."""
        headers = {"Authorization": f"Bearer {self.token}"}
        async with httpx.AsyncClient(
            base_url=f"{self._server.url}/_matrix/client/v3", headers=headers, timeout=120
        ) as http:
            answer = await http.request(method, path, json=body)
        return answer.raise_for_status().json()

    async def room_with(self, *users: str, encrypted: bool = False) -> str:
        """Create a room and invite users."""
        state = (
            [
                {
                    "type": "m.room.encryption",
                    "state_key": "",
                    "content": {"algorithm": "m.megolm.v1.aes-sha2"},
                }
            ]
            if encrypted
            else []
        )
        made = {
            "invite": users,
            "is_direct": len(users) == 1,
            "preset": "private_chat",
            "initial_state": state,
        }
        return str((await self.call("POST", "/createRoom", made))["room_id"])

    async def join(self, room: str) -> None:
        await self.call("POST", f"/rooms/{quote(room)}/join", {})

    async def invited(self) -> str:
        """Wait for an invitation and accept it."""
        async with asyncio.timeout(120):
            while True:
                news = await self.call("GET", f"/sync?timeout=1000{self._since}")
                self._since = f"&since={news['next_batch']}"
                if rooms := news.get("rooms", {}).get("invite", {}):
                    break
        await self.join(room := next(iter(rooms)))
        return str(room)

    async def say(
        self, room: str, text: str, *, to: str = "", edits: str = "", **more: object
    ) -> str:
        """Write to a room, optionally as a reply or as an edit."""
        content: dict[str, Any] = {"msgtype": "m.text", "body": text, **more}
        if to:
            content["m.relates_to"] = {"m.in_reply_to": {"event_id": to}}
        if edits:
            content |= {
                "m.new_content": {"msgtype": "m.text", "body": text},
                "m.relates_to": {"rel_type": "m.replace", "event_id": edits},
            }
        return await self.send(room, "m.room.message", content)

    async def react(self, room: str, event: str, key: str) -> str:
        """React to a message."""
        return await self.send(
            room,
            "m.reaction",
            {"m.relates_to": {"rel_type": "m.annotation", "event_id": event, "key": key}},
        )

    async def send(self, room: str, kind: str, content: object) -> str:
        return str(
            (
                await self.call(
                    "PUT", f"/rooms/{quote(room)}/send/{kind}/t{next(_NUMBERS)}", content
                )
            )["event_id"]
        )

    async def seen(self, room: str) -> list[dict[str, Any]]:
        """Return the messages of a room, oldest first."""
        return list(
            reversed(
                (await self.call("GET", f"/rooms/{quote(room)}/messages?dir=b&limit=100"))["chunk"]
            )
        )

    async def message(self, room: str, holds: str) -> dict[str, Any]:
        """Wait for a message that contains `holds`."""
        async with asyncio.timeout(120):
            while True:
                for event in await self.seen(room):
                    if event["type"] == "m.room.message" and holds in event["content"].get(
                        "body", ""
                    ):
                        return event
                await asyncio.sleep(0.01)
