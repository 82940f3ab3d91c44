"""An address that somebody else's server wants opened, as the question whether a person opens it."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from midturn.core.form.form import Form
from midturn.core.json_value import Json
from midturn.core.question import Question

_OPEN = "open_address"


def web_address_form(message: str, url: str) -> Form:
    """Ask whether somebody opens an address: it is shown whole, with its host by itself, and nothing is fetched."""
    try:
        host = urlsplit(url).hostname or "(no host)"
    except ValueError:
        host = "(no host)"
    shown = f"Host: `{host}`" + _spelled(host)
    context = (
        f"{message}\n\n{shown}\n\nAddress: `{url}`\n\nOpen it yourself, in a browser, if you know the host. Nothing was fetched from it."
    )
    question = Question.boolean(_OPEN, "Do you want to open this address?", context=context, exclusive=True, persistence="none")
    return Form((question,))


def opens(answers: Mapping[str, Json]) -> bool:
    """Say whether the answer is a yes."""
    return answers.get(_OPEN) is True


def _spelled(host: str) -> str:
    """Say how a host is spelled that looks like another one."""
    if host.isascii() and "xn--" not in host:
        return ""
    try:
        decoded = host.encode("ascii").decode("idna") if host.isascii() else host
        return f" (international letters: `{decoded}` is `{decoded.encode('idna').decode()}`)"
    except UnicodeError:
        return " (international letters)"
