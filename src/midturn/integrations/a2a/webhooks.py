"""Webhooks: addresses to which the server sends the changes of a client's tasks.

Webhooks are kept in the store, next to the conversations, so that any server that uses the store
can send notifications. Their addresses and credentials are encrypted with a key that is not in the
store.
"""

from __future__ import annotations

import base64
import ipaddress
import os
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

import msgspec
from a2a.types.a2a_pb2 import AuthenticationInfo, TaskPushNotificationConfig
from a2a.utils.errors import InvalidParamsError
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from msgspec import Struct

from midturn.errors import ConfigError
from midturn.events.types import AnsweredBy
from midturn.integrations.a2a.messages import MAX_ID
from midturn.integrations.a2a.questions import Client
from midturn.question.text import sha256
from midturn.security.public_address import is_public
from midturn.stores.port import StorePort

MAX_FOR_TASK: Final = 10
MAX_FOR_PRINCIPAL: Final = 1000
MAX_URL: Final = 2000
"""Maximum length of a webhook's address in characters."""
MAX_CREDENTIALS: Final = 8192
"""Maximum length of a token, a scheme or credentials in characters."""
MIN_KEY_LENGTH: Final = 16
BEGINNING: Final = "a2a-push/"
"""Prefix of the names under which webhooks are stored. The ID of the task follows."""
_LOCK: Final = "a2a-push"
_NONCE_BYTES: Final = 12


class PushSettings(Struct, frozen=True, kw_only=True):
    """Settings of push notifications.

    Args:
        key: Key that encrypts the addresses and credentials in the store. At least 16 random
            characters. All servers that share a store need the same key.
        private_addresses: Whether to allow addresses on this machine and in private networks, and
            addresses without TLS. Use it only if you trust all clients, because clients choose the
            addresses to which the server sends requests.
    """

    key: str
    private_addresses: bool = False

    def __post_init__(self) -> None:
        """Check the key.

        Raises:
            ConfigError: The key is too short.
        """
        if len(self.key) < MIN_KEY_LENGTH:
            raise ConfigError(
                f"The key of push notifications must have at least {MIN_KEY_LENGTH} characters, not"
                f" {len(self.key)}."
            )

    def __repr__(self) -> str:
        return f"PushSettings(key=…, private_addresses={self.private_addresses})"


class WebhookTarget(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The address and credentials of a webhook, as its client sent them.

    Args:
        id: ID of the configuration.
        url: The address.
        token: Value of the header `X-A2A-Notification-Token`; empty for none.
        scheme: Scheme of the header `Authorization`; empty for none.
        credentials: Credentials of the header `Authorization`.
    """

    id: str
    url: str
    token: str = ""
    scheme: str = ""
    credentials: str = ""

    def __repr__(self) -> str:
        return f"WebhookTarget({self.id!r}, …)"

    def headers(self) -> dict[str, str]:
        """Return the headers that authenticate a notification."""
        headers: dict[str, str] = {}
        if self.token:
            headers["X-A2A-Notification-Token"] = self.token
        if self.scheme and self.credentials:
            headers["Authorization"] = f"{self.scheme} {self.credentials}"
        return headers

    def config(self, task: str) -> TaskPushNotificationConfig:
        """Return the configuration to show to the client, without the credentials."""
        config = TaskPushNotificationConfig(
            id=self.id, task_id=task, url=self.url, token=self.token
        )
        if self.scheme:
            config.authentication.CopyFrom(AuthenticationInfo(scheme=self.scheme))
        return config


class Webhook(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A stored webhook.

    Args:
        task: ID of the task.
        principal: Name of the principal to whom the task belongs.
        by: Value of `answered_by.by` for the client's answers.
        user: User that is recorded with the client's answers.
        has_extension: Whether the client supports structured questions.
        sealed: The encrypted target.
        sent: Fingerprint of the last state that was sent.
        failures: Number of failed attempts since then.
        retry_at: Time of the next attempt in RFC 3339; empty to send immediately.
    """

    task: str
    principal: str
    by: str
    user: str | None
    has_extension: bool
    sealed: str
    sent: str = ""
    failures: int = 0
    retry_at: str = ""

    @property
    def client(self) -> Client:
        """The client that receives the notifications."""
        person = self.user if self.by == "user" else None
        return Client.of(self.principal, person, has_extension=self.has_extension)


class Webhooks:
    """The webhooks in a store.

    Args:
        port: The store.
        settings: Settings of push notifications.
    """

    def __init__(self, port: StorePort, settings: PushSettings) -> None:
        self._port = port
        self.settings = settings
        derived = HKDF(SHA256(), 32, None, b"midturn a2a webhooks").derive(settings.key.encode())
        self._cipher = AESGCM(derived)

    async def add(
        self, config: TaskPushNotificationConfig, task: str, client: Client
    ) -> TaskPushNotificationConfig:
        """Store a webhook for a task. It replaces a webhook with the same ID.

        Raises:
            InvalidParamsError: The address is not allowed, a value is not valid, or there are too
                many webhooks.
            StoreError: The store cannot be read or written.
        """
        target = self._target(config)
        name = _name(task, target.id)
        who: AnsweredBy = client.who
        webhook = Webhook(
            task=task,
            principal=client.name,
            by=who.by,
            user=who.user,
            has_extension=client.has_extension,
            sealed=self._seal(name, target),
        )
        async with self._port.alone(_LOCK):
            others = [one for key, one in (await self.all()).items() if key != name]
            of_task = sum(one.task == task for one in others)
            of_principal = sum(one.principal == client.name for one in others)
            if of_task >= MAX_FOR_TASK or of_principal >= MAX_FOR_PRINCIPAL:
                raise InvalidParamsError(
                    f"A task may have {MAX_FOR_TASK} push notification configurations, and a client"
                    f" {MAX_FOR_PRINCIPAL}. Delete one first."
                )
            await self._keep(name, webhook)
        return target.config(task)

    def check(self, config: TaskPushNotificationConfig) -> None:
        """Check a configuration before its task begins.

        Raises:
            InvalidParamsError: The address is not allowed, or a value is not valid.
        """
        self._target(config)

    async def of_task(self, task: str) -> list[TaskPushNotificationConfig]:
        """Return the configurations of a task.

        Raises:
            StoreError: The store cannot be read.
        """
        found = await self._load(f"{BEGINNING}{task}/")
        targets = [self.target(name, webhook) for name, webhook in found.items()]
        return [target.config(task) for target in targets if target is not None]

    async def get(self, task: str, id: str) -> TaskPushNotificationConfig | None:
        """Return the configuration with this ID, or None if the task has no such configuration.

        Raises:
            StoreError: The store cannot be read.
        """
        return next((config for config in await self.of_task(task) if config.id == id), None)

    async def remove(self, task: str, id: str) -> None:
        """Remove a configuration if it exists.

        Raises:
            StoreError: The store cannot be written.
        """
        async with self._port.alone(_LOCK):
            await self._port.beside.keep(_name(task, id), None)

    async def all(self) -> dict[str, Webhook]:
        """Return all webhooks by name.

        Raises:
            StoreError: The store cannot be read.
        """
        return await self._load(BEGINNING)

    async def replace(self, name: str, old: Webhook, new: Webhook | None) -> None:
        """Store a new state of a webhook, or remove it if `new` is None. Do nothing if the client
        changed or removed the webhook in the meantime.

        Raises:
            StoreError: The store cannot be read or written.
        """
        async with self._port.alone(_LOCK):
            stored = (await self._load(name)).get(name)
            if stored is not None and stored.sealed == old.sealed:
                await self._keep(name, new)

    def target(self, name: str, webhook: Webhook) -> WebhookTarget | None:
        """Decrypt the target of a webhook. Return None if it was encrypted with another key."""
        try:
            sealed = base64.b64decode(webhook.sealed, validate=True)
            nonce, content = sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:]
            opened = self._cipher.decrypt(nonce, content, name.encode())
            return msgspec.json.decode(opened, type=WebhookTarget)
        except (InvalidTag, ValueError, msgspec.MsgspecError):
            return None

    def _seal(self, name: str, target: WebhookTarget) -> str:
        nonce = os.urandom(_NONCE_BYTES)
        content = self._cipher.encrypt(nonce, msgspec.json.encode(target), name.encode())
        return base64.b64encode(nonce + content).decode()

    async def _load(self, beginning: str) -> dict[str, Webhook]:
        found: dict[str, Webhook] = {}
        kept: Mapping[str, bytes] = await self._port.beside.kept(beginning)
        for name, content in kept.items():
            try:
                found[name] = msgspec.json.decode(content, type=Webhook)
            except (msgspec.MsgspecError, UnicodeDecodeError):  # written by another version
                continue
        return found

    async def _keep(self, name: str, webhook: Webhook | None) -> None:
        content = None if webhook is None else msgspec.json.encode(webhook)
        await self._port.beside.keep(name, content)

    def _target(self, config: TaskPushNotificationConfig) -> WebhookTarget:
        """Check a configuration and return its target.

        Raises:
            InvalidParamsError: The address is not allowed, or a value is not valid.
        """
        check_address(config.url, private_addresses=self.settings.private_addresses)
        authentication = config.authentication
        given = {
            "id": config.id,
            "token": config.token,
            "authentication.scheme": authentication.scheme,
            "authentication.credentials": authentication.credentials,
        }
        for key, value in given.items():
            limit = MAX_ID if key == "id" else MAX_CREDENTIALS
            is_text = value.isprintable() and (key == "id" or value.isascii())
            if len(value) > limit or not is_text:
                raise InvalidParamsError(
                    f"{key} of a push notification configuration must have at most {limit}"
                    " characters, all of them printable."
                )
        return WebhookTarget(
            id=config.id or sha256(os.urandom(16))[:32],
            url=config.url,
            token=config.token,
            scheme=authentication.scheme,
            credentials=authentication.credentials,
        )


def check_address(url: str, *, private_addresses: bool) -> None:
    """Check the address of a webhook. A host name is checked again when a notification is sent.

    Args:
        url: The address.
        private_addresses: Whether private addresses and addresses without TLS are allowed.

    Raises:
        InvalidParamsError: The address is not allowed.
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        raise InvalidParamsError("url is not an address.") from None
    is_text = len(url) <= MAX_URL and url.isascii() and url.isprintable() and " " not in url
    if not is_text or not host or parts.username is not None or parts.password is not None:
        raise InvalidParamsError(
            f"url must be an address of at most {MAX_URL} characters with a host and without a user"
            " name."
        )
    allowed = ("https", "http") if private_addresses else ("https",)
    if parts.scheme not in allowed:
        raise InvalidParamsError("url must begin with https://.")
    if not private_addresses and _is_private(host):
        raise InvalidParamsError("url must not be an address in a private network.")


def _is_private(host: str) -> bool:
    """Return whether a host is a private IP address (in any notation), or a name that only exists
    in private networks.
    """
    name = host.rstrip(".").lower()
    if name == "localhost" or name.endswith((".localhost", ".local", ".internal")):
        return True
    try:
        ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        last = name.rpartition(".")[2]
        return "." not in name or last.isdecimal() or last.startswith("0x")
    return not is_public(name)


def _name(task: str, id: str) -> str:
    return f"{BEGINNING}{task}/{sha256(id.encode())[:32]}"
