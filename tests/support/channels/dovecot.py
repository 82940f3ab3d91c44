"""Mail server for tests. aiosmtpd receives mail, adds `Authentication-Results` and delivers to
Dovecot.

DKIM signatures are really checked. The tests publish the key of each domain instead of DNS. As a
mail server must, it removes `Authentication-Results` headers that claim to be its own.
"""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import smtplib
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from email import message_from_bytes
from email.message import EmailMessage
from pathlib import Path
from typing import Any, cast

import dkim
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, Envelope, Session
from imapclient import IMAPClient

from support.channels.limit import Limit
from support.serving import free_port, wait_for_listener

AUTHSERV = "mx.bot.test"
BOT = "bot@bot.test"
PASSWORD = "hunter2"
_SETTINGS = """
base_dir = {path}/run
state_dir = {path}/state
log_path = {path}/log
protocols = imap lmtp
listen = 127.0.0.1
ssl = no
disable_plaintext_auth = no
default_login_user = {owner}
default_internal_user = {owner}
default_internal_group = {group}
first_valid_uid = 1
mail_location = sdbox:{path}/mail/%u
mailbox_idle_check_interval = 1 secs
mail_uid = {owner}
mail_gid = {group}
auth_mechanisms = plain login
passdb {{
  driver = static
  args = password={password}
}}
userdb {{
  driver = static
  args = uid={owner} gid={group} home={path}/mail/%u
}}
service imap-login {{
  chroot =
  inet_listener imap {{
    port = {imap}
  }}
  inet_listener imaps {{
    port = 0
  }}
}}
service lmtp {{
  inet_listener lmtp {{
    address = 127.0.0.1
    port = {lmtp}
  }}
}}
service anvil {{
  chroot =
}}
service stats {{
  chroot =
}}
"""


def no_dovecot() -> str:
    """Return why this machine has no mail server, or an empty string if it has one."""
    return (
        ""
        if Path("/usr/sbin/dovecot").exists()
        else "there is no Dovecot: apt-get install dovecot-imapd dovecot-lmtpd"
    )


class MailServer:
    """The mail server of one domain: an SMTP receiver and mailboxes."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="midturn-mail-", dir="/tmp"))
        self.imap, self.lmtp, self.smtp = free_port(), free_port(), free_port()
        self.keys: dict[
            str, tuple[bytes, bytes]
        ] = {}  # by domain: its private key and its DNS record
        self.code = ""  # reply of the server to every mail, such as "450 later"
        self.limit: Limit | None = None
        self.greeted = 0  # number of connections
        self.left = threading.Event()  # set when a client has sent QUIT
        self.most = 0  # maximum number of mails per connection; 0: no limit
        self.refuses: set[str] = set()  # addresses that do not exist
        self.refused = threading.Event()
        self._controller: Controller | None = None
        self._write_settings()
        self.start_mailboxes()
        self.start()

    def _write_settings(self) -> None:
        owner, group = _owner()
        for name in ("run", "state", "mail"):
            (self.path / name).mkdir()
        if os.geteuid() == 0:
            for path in (self.path, *self.path.iterdir()):
                shutil.chown(path, owner, group)
        settings = _SETTINGS.format(
            path=self.path,
            owner=owner,
            group=group,
            password=PASSWORD,
            imap=self.imap,
            lmtp=self.lmtp,
        )
        (self.path / "conf").write_text(settings)

    def start_mailboxes(self) -> None:
        """Start the IMAP server."""
        owner, group = _owner()
        user = owner if os.geteuid() == 0 else None
        self._dovecot = subprocess.Popen(
            ["/usr/sbin/dovecot", "-F", "-c", str(self.path / "conf")],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            user=user,
            group=group if user else None,
            extra_groups=[] if user else None,
        )
        wait_for_listener(self.imap)
        wait_for_listener(self.lmtp)

    def start(self) -> None:
        """Start the SMTP server."""
        self._controller = Controller(
            _SmtpHandler(self), hostname="127.0.0.1", port=self.smtp, data_size_limit=40_000_000
        )
        self._controller.start()

    def stop(self) -> None:
        """Stop the SMTP server."""
        if self._controller is not None:
            self._controller.stop()
            self._controller = None

    def stop_mailboxes(self) -> None:
        """Stop the IMAP server. The mails are kept."""
        self._dovecot.terminate()
        self._dovecot.wait(20)

    def remove(self) -> None:
        """Stop both servers and delete all files."""
        self.stop()
        self.stop_mailboxes()
        shutil.rmtree(self.path)

    def empty(self) -> None:
        """Delete all mails."""
        self.code, self.most, self.refuses = "", 0, set()
        self.refused.clear()
        self.left.clear()
        for mailbox in (self.path / "mail").iterdir():
            with IMAPClient("127.0.0.1", self.imap, ssl=False, timeout=120) as client:
                client.login(mailbox.name, PASSWORD)
                client.select_folder("INBOX")
                client.delete_messages(client.search("ALL") or [1])
                client.expunge()

    def sign(self, content: bytes, domain: str) -> bytes:
        """Sign a mail for a domain with DKIM."""
        private, _ = self.keys.setdefault(domain, _key())
        names = [b"from", b"to", b"subject", b"in-reply-to"]
        return (
            dkim.sign(
                content,
                b"sel",
                domain.encode(),
                private,
                include_headers=names,
                canonicalize=(b"relaxed", b"relaxed"),
            )
            + content
        )

    def dns(self, name: bytes, timeout: int = 5) -> bytes | None:
        """Return the DNS record of a domain."""
        del timeout
        published = self.keys.get(name.decode().removeprefix("sel._domainkey.").rstrip("."))
        return published[1] if published is not None else None

    def take_in(self, sender: str, to: Sequence[str], content: bytes) -> None:
        """Record the results of authentication in the mail and deliver it."""
        found = message_from_bytes(content)
        own = [
            value
            for value in found.get_all("Authentication-Results", [])
            if str(value).split(";")[0].strip().lower() == AUTHSERV
        ]
        if own:
            del found["Authentication-Results"]
            content = found.as_bytes()
        signature = message_from_bytes(content)["DKIM-Signature"]
        domain = str(signature).partition("d=")[2].partition(";")[0].strip() if signature else ""
        result = (
            "pass"
            if signature and dkim.verify(content, dnsfunc=self.dns)
            else "fail"
            if signature
            else "none"
        )
        stated = f"Authentication-Results: {AUTHSERV};\r\n dkim={result} header.d={domain or 'none'}\r\n".encode()
        with smtplib.LMTP("127.0.0.1", self.lmtp) as lmtp:
            lmtp.sendmail(sender, list(to), stated + content)

    def post(
        self, mail: EmailMessage | bytes, sender: str, *, signed_by: str = "", to: str = BOT
    ) -> None:
        """Send a mail to the server, as another server does."""
        content = (
            mail
            if isinstance(mail, bytes)
            else mail.as_bytes().replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
        )
        with smtplib.SMTP("127.0.0.1", self.smtp) as smtp:
            smtp.sendmail(sender, [to], self.sign(content, signed_by) if signed_by else content)

    def mails(self, user: str) -> list[EmailMessage]:
        """Return the mails in a mailbox, in order."""
        from email import policy

        with IMAPClient("127.0.0.1", self.imap, ssl=False, timeout=120) as client:
            client.login(user, PASSWORD)
            client.select_folder("INBOX", readonly=True)
            uids = client.search("ALL")
            found: dict[int, Any] = (
                cast("dict[int, Any]", client.fetch(uids, ["BODY.PEEK[]"])) if uids else {}
            )
        return [
            message_from_bytes(found[uid][b"BODY[]"], policy=policy.default)
            for uid in sorted(found)
        ]

    async def mail(self, user: str, number: int = 1) -> EmailMessage:
        """Wait for mail number `number`."""
        async with asyncio.timeout(120):
            while len(found := await asyncio.to_thread(self.mails, user)) < number:  # noqa: ASYNC110  mailboxes have no event
                await asyncio.sleep(0.02)
        return found[number - 1]


def _owner() -> tuple[str, str]:
    """Return the user and group that own the mailboxes: `nobody` if the tests run as root."""
    owner = "nobody" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
    return (
        owner,
        subprocess.run(
            ["id", "-gn", owner], capture_output=True, text=True, check=True
        ).stdout.strip(),
    )


class _SmtpHandler:
    def __init__(self, house: MailServer) -> None:
        self._house = house

    async def handle_EHLO(  # noqa: N802
        self,
        server: SMTP,
        session: Session,
        envelope: Envelope,
        hostname: str,
        responses: list[str],
    ) -> list[str]:
        del server, envelope
        self._house.greeted += 1
        session.host_name = hostname
        return responses

    async def handle_QUIT(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802
        del server, session, envelope
        self._house.left.set()
        return "221 Bye"

    async def handle_RCPT(  # noqa: N802
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        del server, options
        session.taken = getattr(session, "taken", 0) + 1  # type: ignore[attr-defined]
        if 0 < self._house.most < session.taken:  # type: ignore[attr-defined]
            return "421 4.7.0 too many mails over one connection"
        if address in self._house.refuses:
            return "550 no such user"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802  aiosmtpd's name
        del server, session
        if self._house.code:
            self._house.refused.set()
            return self._house.code
        if self._house.limit is not None and self._house.limit.wait():
            return "451 4.7.1 too many mails"
        content = envelope.content
        assert isinstance(content, bytes)
        await asyncio.to_thread(
            self._house.take_in, envelope.mail_from or "", envelope.rcpt_tos, content
        )
        return "250 taken"


def _key() -> tuple[bytes, bytes]:
    from cryptography.hazmat.primitives.asymmetric import rsa
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        PublicFormat,
    )

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return private, b"v=DKIM1; k=rsa; p=" + b"".join(public.splitlines()[1:-1])
