"""Where a secret may be typed: over a line that nobody else reads, into a process that goes on with the turn itself."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from starlette.requests import Request

from midturn.core.stream import OpenQuestion
from midturn.store.port import HeldBy
from midturn.web.port import Port
from midturn.web.site import Site


async def secret_elsewhere(request: Request, site: Site, question: OpenQuestion) -> str:
    """Say why a secret is not taken on this page, and where it is; empty where it is taken."""
    there = site.elsewhere.format(id=question.id)
    if site.secrets is False:
        return f"A secret is not taken in the browser here: web.secrets is off. {there}"
    if site.resumer is None:
        return f"A secret goes to a turn that runs, and this server leaves turns to others. {there}"
    if site.secrets is not True and not is_private(request):
        return f"A secret is typed over TLS or on this machine only, and this page cannot tell that it is. {there}"
    if not site.resumer.waits_for(question) and await _is_held(site.board.port, question):
        return "The turn runs in another process just now: the secret can be given where it runs, or here as soon as it waits."
    return ""


def is_private(request: Request) -> bool:
    """Say whether nobody between the browser and this process can read what is sent."""
    if request.url.scheme == "https":
        return True
    client = request.client.host if request.client else ""
    return is_loopback(client) and is_loopback(urlsplit(f"//{request.headers.get('host', '')}").hostname or "")


def is_loopback(name: str) -> bool:
    """Say whether a name is this machine's own."""
    if name.rpartition(".")[2] == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


async def _is_held(port: Port, question: OpenQuestion) -> bool:
    return isinstance(await port.look(question.conversation), HeldBy)
