"""Mail server as providers run it, on loopback and as root: Postfix receives, opendkim checks
signatures, Dovecot stores.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from support.channels.dovecot import AUTHSERV, MailServer, no_dovecot
from support.serving import free_port, wait_for_listener

DOMAINS: Final = ("ana.test", "bo.test", "evil.test")
_POSTFIX: Final = """
compatibility_level = 3.6
queue_directory = {path}/queue
data_directory = {path}/data
daemon_directory = /usr/lib/postfix/sbin
command_directory = /usr/sbin
maillog_file = {path}/maillog
maillog_file_prefixes = /tmp
myhostname = mx.bot.test
mydestination =
virtual_mailbox_domains = bot.test, ana.test
virtual_transport = lmtp:inet:127.0.0.1:{lmtp}
default_transport = error:no mail leaves this machine
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
mynetworks = 127.0.0.0/8
smtpd_relay_restrictions = reject_unauth_destination
smtpd_peername_lookup = no
smtpd_milters = inet:127.0.0.1:{milter}
milter_default_action = tempfail
smtp_dns_support_level = disabled
message_size_limit = 40000000
"""
_SERVICES: Final = """
127.0.0.1:{port} inet n - n - - smtpd
cleanup unix n - n - 0 cleanup
qmgr unix n - n 300 1 qmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
flush unix n - n 1000? 0 flush
proxymap unix - - n - - proxymap
error unix - - n - - error
retry unix - - n - - error
lmtp unix - - n - - lmtp
anvil unix - - n - 1 anvil
postlog unix-dgram n - n - 1 postlogd
"""
_OPENDKIM: Final = """
Mode v
Socket inet:{milter}@127.0.0.1
Background no
AuthservID {name}
AlwaysAddARHeader yes
RemoveARAll yes
RemoveARFrom {name}
TestPublicKeys {path}/keys
Syslog no
"""


def no_postfix() -> str:
    """Return why this machine has no such server, or an empty string if it has one."""
    if missing := [
        name for name in ("postfix", "opendkim") if not Path(f"/usr/sbin/{name}").exists()
    ]:
        return f"there is no {missing[0]}: tools/task test-postfix"
    return no_dovecot() or ("Postfix runs as root alone" if os.geteuid() else "")


class PostfixServer(MailServer):
    """Mail of a domain, received by Postfix. The verdict of opendkim about a signature counts."""

    def start(self) -> None:
        """Start Postfix and opendkim."""
        milter, queue = free_port(), self.path / "queue"
        for domain in DOMAINS:
            self.sign(b"From: a\r\n\r\n", domain)  # creates the key
        published = "".join(
            f"sel._domainkey.{domain} {record.decode()}\n"
            for domain, (_, record) in self.keys.items()
        )
        settings = {
            "path": self.path,
            "lmtp": self.lmtp,
            "milter": milter,
            "port": self.smtp,
            "name": AUTHSERV,
        }
        conf = self.path / "postfix"
        for folder in (conf, queue, self.path / "data"):
            folder.mkdir(exist_ok=True)
        shutil.chown(self.path / "data", "postfix")
        for name, text in (
            ("postfix/main.cf", _POSTFIX),
            ("postfix/master.cf", _SERVICES),
            ("opendkim.conf", _OPENDKIM),
        ):
            (self.path / name).write_text(text.format(**settings))
        (self.path / "keys").write_text(published)
        for folder in (self.path, conf):
            folder.chmod(0o755)
        checks = ["/usr/sbin/opendkim", "-f", "-x", str(self.path / "opendkim.conf")]
        self._opendkim = subprocess.Popen(
            checks, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        wait_for_listener(milter)
        subprocess.run(
            ["/usr/sbin/postfix", "-c", str(conf), "start"],
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_for_listener(self.smtp)

    def stop(self) -> None:
        """Stop Postfix and opendkim."""
        subprocess.run(
            ["/usr/sbin/postfix", "-c", str(self.path / "postfix"), "stop"],
            check=False,
            capture_output=True,
        )
        self._opendkim.terminate()
        self._opendkim.wait(20)
