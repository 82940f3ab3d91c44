"""What a mail says: who wrote it, as far as a server vouches for that, about which card, and its first line above the quote. Pure.

A mail proves nothing by itself: its `From`, its `Date`, and every header that came with it are what its sender wrote. Only one server is
believed, the one that took the mail in: it writes `Authentication-Results` above what was there, under its own name, and takes headers
away that claim to be its own. So the topmost one with that name counts, and only if it says that DMARC passed for the domain in `From`, or
that a signature (DKIM) of exactly that domain did.
"""

from __future__ import annotations

import re
from email import message_from_bytes
from email.errors import HeaderParseError, MessageError
from email.header import decode_header
from email.message import Message
from email.utils import getaddresses
from typing import Any, Final, cast

from msgspec import Struct

_TOKEN: Final = re.compile(r"\[midturn ([A-Za-z0-9_-]{16,22})\]")
_RESULT: Final = re.compile(r"\s*(?P<method>[\w-]+)\s*(?:/\s*\d+\s*)?=\s*(?P<result>[\w-]+)(?P<rest>(?:\s.*)?)", re.DOTALL)
_PROPERTY: Final = re.compile(r"\s*(?P<name>[\w-]+(?:\s*\.\s*[\w-]+)?)\s*=\s*(?P<value>[^\s]+)(?=\s|$)")
_OF_DKIM: Final = frozenset({"header.d", "header.i", "header.s", "header.b", "header.a", "header.from", "reason"})
_OF_DMARC: Final = frozenset({"header.from", "reason", "action", "p", "sp", "dis", "pct"})
_TYPES: Final = frozenset({"header", "smtp", "body", "policy", "dns", "tls"})
_QUOTED: Final = re.compile(r'"(?:[^"\\]|\\.)*"')
_COMMENT: Final = re.compile(r"\([^()]*\)")
_ADDRESS: Final = re.compile(r"[^\s@<>,;:\"()\[\]\\]+@[A-Za-z0-9.-]+")
_BULK: Final = frozenset({"bulk", "list", "junk", "auto_reply", "auto-reply"})
_AUTOMATIC: Final = ("xautorepl", "xautoresp", "xautogen", "xautosubmitted", "xvacation", "xfailedrecipients")
"""Beginnings of the names of headers that only programs write, in small letters and without hyphens."""
HTML_ONLY: Final = "This mail has no plain text, and HTML can hide words. Send your answer as plain text."
_CUT: Final = re.compile(r"(?i)-{2,}\s?|_{10,}|[-_]{3,}\s*\S.*[-_]{3,}|(?:from|von|de|da|van)\s?:\s.*@.*")
_OF_A_DEVICE: Final = re.compile(
    r"(?i)(?:sent from|sent with|sent via|get) (?:my |outlook|proton|mail for|yahoo).{0,60}|von meinem \S+ gesendet"
)
_MAX_BELOW: Final = 200  # lines that are read below the first one
_ATTRIBUTION: Final = 3  # lines over which "On Monday, Bo wrote:" is broken


class Mail(Struct, frozen=True, kw_only=True):
    """What a mail says. `text` is its first line above the quote, `no_answer` why it answers nothing, whatever it says.

    `more` are the other lines above the quote and the signature: a yes or a no decides nothing if there are any.

    Args:
        sender: The one address in `From`, in small letters; empty where there is none, or several.
        token: Of the card, in the subject; empty where there is none, or several.
        text: The answer.
        more: The rest of what its writer wrote.
        vouched_for: Whether the server that took it in says that it comes from there.
        no_answer: That a program wrote it, or a list; empty where a person may have.
        problem: Why its words answer nothing, as its sender is told; empty where they may.
        subject: What it is about.
    """

    sender: str = ""
    token: str = ""
    text: str = ""
    more: str = ""
    vouched_for: bool = False
    no_answer: str = ""
    problem: str = ""
    subject: str = ""


def marked(token: str) -> str:
    """Return how a token stands in a subject."""
    return f"[midturn {token}]"


def read_mail(content: bytes, authserv_id: str) -> Mail:
    """Return what a mail says.

    Args:
        content: It, as it came, or its beginning.
        authserv_id: The name under which the server that took it in writes what it found out.
    """
    try:
        return _read(message_from_bytes(content), authserv_id)
    except RecursionError:
        return Mail(no_answer="it has mails within mails, hundreds deep")


def _read(message: Message, authserv_id: str) -> Mail:
    sender, subject = _sender(message), _decoded(message, "Subject")
    tokens, text, is_html_only = set(_TOKEN.findall(subject)), *_text_of(message)
    return Mail(
        sender=sender,
        token=tokens.pop() if len(tokens) == 1 and len(message.get_all("Subject", [])) == 1 else "",
        text=first_line(text),
        more=lines_below(text),
        vouched_for=bool(sender) and _is_vouched_for(message, sender.rpartition("@")[2], authserv_id),
        no_answer=_by_a_program(message),
        problem=HTML_ONLY if is_html_only else "",
        subject=subject,
    )


def first_line(text: str) -> str:
    """Return the first line that its writer wrote: above a quote, a signature, or the mail that was replied to. Lines that flow are one."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    begins = next((number for number, line in enumerate(lines) if line.strip()), len(lines))
    return "" if _begins_quote(lines[begins:]) else _flowing(lines[begins:])


def lines_below(text: str) -> str:
    """Return what its writer wrote below the first line, between quoted lines, too: up to a signature or the mail that was replied to."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    begins = next((number for number, line in enumerate(lines) if line.strip()), len(lines))
    if _begins_quote(lines[begins:]):
        return ""
    below = lines[begins + _flowing_lines(lines[begins:]) :][:_MAX_BELOW]
    taken: list[str] = []
    is_attribution = False
    for number, line in enumerate(below):
        bare = line.strip()
        if _CUT.fullmatch(bare) or _OF_A_DEVICE.fullmatch(bare):
            break
        is_quote = line.lstrip().startswith((">", "|"))
        is_attribution = not is_quote and bool(bare) and (is_attribution or _is_attribution(below[number:]))
        if not is_quote and not is_attribution:
            taken.append(line)
    return "\n".join(taken).strip()


def _is_attribution(lines: list[str]) -> bool:
    """Whether a line such as "On Monday, Bo wrote:" stands above a quote."""
    below = next((line for line in lines[1:] if line.strip()), "")
    return _begins_quote(lines) or (lines[0].rstrip().endswith(":") and below.lstrip().startswith(">"))


def _begins_quote(lines: list[str]) -> bool:
    if not lines or lines[0].lstrip().startswith((">", "|")) or _CUT.fullmatch(lines[0].strip()):
        return True
    if not any(sign == "@" or sign.isdigit() for sign in lines[0]) and not lines[0].rstrip().endswith(":"):
        return False
    for number, line in enumerate(lines[:_ATTRIBUTION]):
        if not line.strip():
            return False
        below = next((line for line in lines[number + 1 :] if line.strip()), "")
        if line.rstrip().endswith(":") and below.lstrip().startswith(">"):
            return any(sign == "@" or sign.isdigit() for sign in "".join(lines[: number + 1]))
    return False


def _flowing(lines: list[str]) -> str:
    return "".join(lines[: _flowing_lines(lines)]).strip()


def _flowing_lines(lines: list[str]) -> int:
    """Return how many lines the first one flows over."""
    for number, line in enumerate(lines[1:], 1):
        before = lines[number - 1]
        if not before.endswith(" ") or before.endswith("-- ") or not line.strip() or line.startswith(">"):
            return number
    return len(lines)


# Who wrote it ------------------------------------------------------------------------------------------------------------------


def _sender(message: Message) -> str:
    """Return the address in `From`, as it stands between the brackets: one header with one address, or none counts."""
    headers = [str(value) for value in message.get_all("From", [])]
    if len(headers) != 1 or "=?" in headers[0].rpartition("<")[2]:
        return ""
    found = [address for _, address in getaddresses(headers) if address]
    if len(found) != 1 or not _ADDRESS.fullmatch(found[0]) or not found[0].isascii():
        return ""
    return found[0].lower()


def _is_vouched_for(message: Message, domain: str, authserv_id: str) -> bool:
    """Return whether our server vouches for the domain: one result that is not written as RFC 8601 says makes all of them void."""
    for header in message.get_all("Authentication-Results", []):
        name, _, results = _uncommented(str(header)).partition(";")
        if name.casefold().split()[:1] == [authserv_id.casefold()]:
            read = [_result(result) for result in results.removesuffix(";").rstrip().removesuffix(";").split(";")]
            return all(read) and any(result is not None and result.vouches_for(domain) for result in read)
    return False


class _Result(Struct, frozen=True):
    """What a server found out by one method."""

    method: str
    result: str
    properties: dict[str, str] = {}

    @property
    def is_regular(self) -> bool:
        """Whether each property is one of the method: an unknown one may be a part of a value that its sender wrote."""
        known = {"dkim": _OF_DKIM, "dmarc": _OF_DMARC}.get(self.method)
        return known is None or all(name in known or name.startswith(("policy.", "x-")) for name in self.properties)

    def vouches_for(self, domain: str) -> bool:
        """Return whether a signature of exactly this domain passed, or DMARC did for it."""
        if self.result != "pass":
            return False
        if self.method == "dmarc":
            return self.properties.get("header.from") == domain
        signer, identity = self.properties.get("header.d"), self.properties.get("header.i", "@")
        _, is_address, signed_for = identity.rpartition("@")
        if self.method != "dkim" or not is_address or (signer and signed_for and not f".{signed_for}".endswith(f".{signer}")):
            return False
        return (signer or signed_for) == domain


def _result(text: str) -> _Result | None:
    """Read one result; None if it is irregular: a property twice, or words that are no property."""
    if text.strip().casefold() == "none":
        return _Result("none", "none")
    found = _RESULT.fullmatch(text)
    if found is None:
        return None
    properties: dict[str, str] = {}
    rest = found["rest"].strip()
    while rest:
        entry = _PROPERTY.match(rest)
        if entry is None:
            return None
        name = "".join(entry["name"].split()).casefold()
        kind, dot, _ = name.partition(".")
        if name in properties or (dot and kind not in _TYPES):
            return None
        properties[name] = entry["value"].casefold()
        rest = rest[entry.end() :].strip()
    read = _Result(found["method"].casefold(), found["result"].casefold(), properties)
    return read if read.is_regular else None


def _uncommented(header: str) -> str:
    """Return a header without what is quoted or a comment in it, also one within another."""
    bare, before = _QUOTED.sub('""', header), ""
    while bare != before:
        bare, before = _COMMENT.sub(" ", bare), bare
    return bare.partition("(")[0]


def _by_a_program(message: Message) -> str:
    if any(str(value).partition(";")[0].partition("(")[0].strip().casefold() != "no" for value in message.get_all("Auto-Submitted", [])):
        return "a program sent it (Auto-Submitted)"
    automatic = next((name for name in message if name.casefold().replace("-", "").startswith(_AUTOMATIC)), "")
    if automatic:
        return f"a program sent it ({automatic})"
    if any("autoresponder" in str(value).casefold() for value in message.get_all("Delivered-To", [])):
        return "a program sent it (Delivered-To)"
    is_bulk = any(str(value).strip().casefold() in _BULK for value in message.get_all("Precedence", []))
    if is_bulk or any(name.casefold().startswith("list-") for name in message):
        return "it went to many"
    has_no_sender = any(str(value).strip() in ("<>", "") for value in message.get_all("Return-Path", []))
    if has_no_sender or message.get_content_type() == "multipart/report":
        return "it has no sender"
    return ""


# What it says ------------------------------------------------------------------------------------------------------------------


def _text_of(message: Message) -> tuple[str, bool]:
    """Return its plain text, and whether only HTML has words: HTML can hide what it says, so it is not read."""
    parts = [*_parts(message)]
    plain = "\n".join(_content(part) for part in parts if part.get_content_type() == "text/plain")
    return plain, not plain.strip() and any(part.get_content_type() == "text/html" for part in parts)


def _parts(message: Message) -> list[Message]:
    """Return what the mail itself consists of: no attachments, no mails within it."""
    if "attachment" in str(message.get("Content-Disposition", "")).casefold() or message.get_content_type().startswith("message/"):
        return []
    if not message.is_multipart():
        return [message]
    return [found for part in cast("list[Message]", message.get_payload()) for found in _parts(part)]


def _content(part: Message) -> str:
    payload: Any = part.get_payload(decode=True)
    content = payload if isinstance(payload, bytes) else str(part.get_payload()).encode("utf-8", "replace")
    charset = str(part.get_content_charset() or "utf-8")
    try:
        return content.decode(charset, "replace")
    except (LookupError, ValueError):
        return content.decode("utf-8", "replace")


def _decoded(message: Message, name: str) -> str:
    """Return a header as it reads, whatever it is written in."""
    value = str(message.get(name, ""))
    try:
        words = decode_header(value)
    except (HeaderParseError, MessageError, ValueError):
        return value
    return "".join(_word(word, charset) for word, charset in words).replace("\r", "").replace("\n", "")


def _word(word: bytes | str, charset: str | None) -> str:
    if isinstance(word, str):
        return word
    try:
        return word.decode(charset or "utf-8", "replace")
    except (LookupError, ValueError):
        return word.decode("utf-8", "replace")
