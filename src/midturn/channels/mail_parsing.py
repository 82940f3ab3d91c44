"""Parses mails: sender, authentication, card token and the first line above the quote.

A mail proves nothing by itself, because the sender can write any header. Only the receiving server
is trusted. It adds an `Authentication-Results` header with its own name above the other headers,
and removes forged headers with that name. Therefore only the topmost header with that server's name
counts. It authenticates the sender if DMARC passed for the domain in `From`, or if a DKIM signature
of exactly that domain is valid.
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
_RESULT: Final = re.compile(
    r"\s*(?P<method>[\w-]+)\s*(?:/\s*\d+\s*)?=\s*(?P<result>[\w-]+)(?P<rest>(?:\s.*)?)", re.DOTALL
)
_PROPERTY: Final = re.compile(
    r"\s*(?P<name>[\w-]+(?:\s*\.\s*[\w-]+)?)\s*=\s*(?P<value>[^\s]+)(?=\s|$)"
)
_DKIM_PROPERTIES: Final = frozenset(
    {"header.d", "header.i", "header.s", "header.b", "header.a", "header.from", "reason"}
)
_DMARC_PROPERTIES: Final = frozenset({"header.from", "reason", "action", "p", "sp", "dis", "pct"})
_PROPERTY_TYPES: Final = frozenset({"header", "smtp", "body", "policy", "dns", "tls"})
_QUOTED: Final = re.compile(r'"(?:[^"\\]|\\.)*"')
_COMMENT: Final = re.compile(r"\([^()]*\)")
_ADDRESS: Final = re.compile(r"[^\s@<>,;:\"()\[\]\\]+@[A-Za-z0-9.-]+")
_BULK: Final = frozenset({"bulk", "list", "junk", "auto_reply", "auto-reply"})
_AUTOMATIC: Final = (
    "xautorepl",
    "xautoresp",
    "xautogen",
    "xautosubmitted",
    "xvacation",
    "xfailedrecipients",
)
"""Prefixes of header names that only automated mail contains, in lower case without hyphens."""
HTML_ONLY: Final = "This mail has only HTML, which can hide text. Send your answer as plain text."
_SEPARATOR: Final = re.compile(
    r"(?i)-{2,}\s?|_{10,}|[-_]{3,}\s*\S.*[-_]{3,}|(?:from|von|de|da|van)\s?:\s.*@.*"
)
_DEVICE_SIGNATURE: Final = re.compile(
    r"(?i)(?:sent from|sent with|sent via|get) (?:my |outlook|proton|mail for|yahoo).{0,60}|von"
    r" meinem \S+ gesendet"
)
MAX_LINES: Final = 200  # maximum number of lines to read below the first line
MAX_ATTRIBUTION_LINES: Final = 3  # maximum lines of an attribution such as "On Monday, Bo wrote:"


class Mail(Struct, frozen=True, kw_only=True):
    """The content of a mail.

    Args:
        sender: The only address in `From`, in lower case. Empty if there is none or several.
        token: Card token in the subject. Empty if there is none or several.
        text: First line above the quote, which can be the answer.
        more: Other lines above the quote and the signature. If there are any, a first line of "yes"
            or "no" does not count as an answer.
        is_authenticated: Whether the receiving server authenticated the sender.
        ignored_because: Reason why the mail cannot be an answer, for example because a program sent
            it. Empty if the mail may be an answer.
        problem: Reason why the text cannot be an answer, as a sentence for the sender. Empty if the
            text can be an answer.
        subject: The decoded subject.
    """

    sender: str = ""
    token: str = ""
    text: str = ""
    more: str = ""
    is_authenticated: bool = False
    ignored_because: str = ""
    problem: str = ""
    subject: str = ""


def subject_tag(token: str) -> str:
    """Return the tag in the subject that contains a token."""
    return f"[midturn {token}]"


def read_mail(content: bytes, authserv_id: str) -> Mail:
    """Parse a mail.

    Args:
        content: The mail as received, or the beginning of it.
        authserv_id: Name of the receiving server in `Authentication-Results`.
    """
    try:
        return _read(message_from_bytes(content), authserv_id)
    except RecursionError:
        return Mail(ignored_because="it contains hundreds of nested mails")


def _read(message: Message, authserv_id: str) -> Mail:
    sender, subject = _sender(message), _decoded(message, "Subject")
    tokens, text, is_html_only = set(_TOKEN.findall(subject)), *_text_of(message)
    return Mail(
        sender=sender,
        token=tokens.pop() if len(tokens) == 1 and len(message.get_all("Subject", [])) == 1 else "",
        text=first_line(text),
        more=lines_below(text),
        is_authenticated=bool(sender)
        and _is_authenticated(message, sender.rpartition("@")[2], authserv_id),
        ignored_because=_automatic_because(message),
        problem=HTML_ONLY if is_html_only else "",
        subject=subject,
    )


def first_line(text: str) -> str:
    """Return the first line above the quote, signature or original mail. Flowed lines are
    joined.
    """
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    begins = next((number for number, line in enumerate(lines) if line.strip()), len(lines))
    return "" if _begins_quote(lines[begins:]) else _flowing(lines[begins:])


def lines_below(text: str) -> str:
    """Return the sender's own text below the first line.

    It includes text between quoted lines, and ends at a signature or the original mail.
    """
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    begins = next((number for number, line in enumerate(lines) if line.strip()), len(lines))
    if _begins_quote(lines[begins:]):
        return ""
    below = lines[begins + _flowing_lines(lines[begins:]) :][:MAX_LINES]
    taken: list[str] = []
    is_attribution = False
    for number, line in enumerate(below):
        bare = line.strip()
        if _SEPARATOR.fullmatch(bare) or _DEVICE_SIGNATURE.fullmatch(bare):
            break
        is_quote = line.lstrip().startswith((">", "|"))
        is_attribution = (
            not is_quote and bool(bare) and (is_attribution or _is_attribution(below[number:]))
        )
        if not is_quote and not is_attribution:
            taken.append(line)
    return "\n".join(taken).strip()


def _is_attribution(lines: list[str]) -> bool:
    """Return whether the lines start with an attribution such as "On Monday, Bo wrote:"."""
    below = next((line for line in lines[1:] if line.strip()), "")
    return _begins_quote(lines) or (
        lines[0].rstrip().endswith(":") and below.lstrip().startswith(">")
    )


def _begins_quote(lines: list[str]) -> bool:
    if (
        not lines
        or lines[0].lstrip().startswith((">", "|"))
        or _SEPARATOR.fullmatch(lines[0].strip())
    ):
        return True
    if not any(sign == "@" or sign.isdigit() for sign in lines[0]) and not lines[
        0
    ].rstrip().endswith(":"):
        return False
    for number, line in enumerate(lines[:MAX_ATTRIBUTION_LINES]):
        if not line.strip():
            return False
        below = next((line for line in lines[number + 1 :] if line.strip()), "")
        if line.rstrip().endswith(":") and below.lstrip().startswith(">"):
            return any(sign == "@" or sign.isdigit() for sign in "".join(lines[: number + 1]))
    return False


def _flowing(lines: list[str]) -> str:
    return "".join(lines[: _flowing_lines(lines)]).strip()


def _flowing_lines(lines: list[str]) -> int:
    """Return the number of lines that belong to the first paragraph (format=flowed)."""
    for number, line in enumerate(lines[1:], 1):
        before = lines[number - 1]
        if (
            not before.endswith(" ")
            or before.endswith("-- ")
            or not line.strip()
            or line.startswith(">")
        ):
            return number
    return len(lines)


# Sender
# --------------------------------------------------------------------------------------------------


def _sender(message: Message) -> str:
    """Return the address in `From`.

    Return an empty string unless there is exactly one header with one unencoded address.
    """
    headers = [str(value) for value in message.get_all("From", [])]
    if len(headers) != 1 or "=?" in headers[0].rpartition("<")[2]:
        return ""
    found = [address for _, address in getaddresses(headers) if address]
    if len(found) != 1 or not _ADDRESS.fullmatch(found[0]) or not found[0].isascii():
        return ""
    return found[0].lower()


def _is_authenticated(message: Message, domain: str, authserv_id: str) -> bool:
    """Return whether the receiving server authenticated the domain.

    If any result (RFC 8601) is malformed, the domain counts as not authenticated.
    """
    for header in message.get_all("Authentication-Results", []):
        name, _, results = _uncommented(str(header)).partition(";")
        if name.casefold().split()[:1] == [authserv_id.casefold()]:
            read = [
                _result(result)
                for result in results.removesuffix(";").rstrip().removesuffix(";").split(";")
            ]
            return all(read) and any(
                result is not None and result.authenticates(domain) for result in read
            )
    return False


class _Result(Struct, frozen=True):
    """The result of one authentication method."""

    method: str
    result: str
    properties: dict[str, str] = {}

    @property
    def is_regular(self) -> bool:
        """Whether the method defines each property.

        An unknown property may come from a value that the sender wrote.
        """
        known = {"dkim": _DKIM_PROPERTIES, "dmarc": _DMARC_PROPERTIES}.get(self.method)
        return known is None or all(
            name in known or name.startswith(("policy.", "x-")) for name in self.properties
        )

    def authenticates(self, domain: str) -> bool:
        """Return whether DMARC passed for exactly this domain, or a DKIM signature of the domain is
        valid.
        """
        if self.result != "pass":
            return False
        if self.method == "dmarc":
            return self.properties.get("header.from") == domain
        signer, identity = self.properties.get("header.d"), self.properties.get("header.i", "@")
        _, is_address, signed_for = identity.rpartition("@")
        if (
            self.method != "dkim"
            or not is_address
            or (signer and signed_for and not f".{signed_for}".endswith(f".{signer}"))
        ):
            return False
        return (signer or signed_for) == domain


def _result(text: str) -> _Result | None:
    """Parse one result.

    Return None if it is malformed: it contains a property twice, or text that is not a property.
    """
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
        if name in properties or (dot and kind not in _PROPERTY_TYPES):
            return None
        properties[name] = entry["value"].casefold()
        rest = rest[entry.end() :].strip()
    read = _Result(found["method"].casefold(), found["result"].casefold(), properties)
    return read if read.is_regular else None


def _uncommented(header: str) -> str:
    """Return a header without quoted strings and comments. Comments can be nested."""
    bare, before = _QUOTED.sub('""', header), ""
    while bare != before:
        bare, before = _COMMENT.sub(" ", bare), bare
    return bare.partition("(")[0]


def _automatic_because(message: Message) -> str:
    if any(
        str(value).partition(";")[0].partition("(")[0].strip().casefold() != "no"
        for value in message.get_all("Auto-Submitted", [])
    ):
        return "a program sent it (Auto-Submitted)"
    automatic = next(
        (name for name in message if name.casefold().replace("-", "").startswith(_AUTOMATIC)), ""
    )
    if automatic:
        return f"a program sent it ({automatic})"
    if any(
        "autoresponder" in str(value).casefold() for value in message.get_all("Delivered-To", [])
    ):
        return "a program sent it (Delivered-To)"
    is_bulk = any(
        str(value).strip().casefold() in _BULK for value in message.get_all("Precedence", [])
    )
    if is_bulk or any(name.casefold().startswith("list-") for name in message):
        return "it was sent to a mailing list"
    has_no_sender = any(
        str(value).strip() in ("<>", "") for value in message.get_all("Return-Path", [])
    )
    if has_no_sender or message.get_content_type() == "multipart/report":
        return "it has no sender"
    return ""


# Text
# --------------------------------------------------------------------------------------------------


def _text_of(message: Message) -> tuple[str, bool]:
    """Return the plain text, and whether the mail has text only as HTML.

    HTML is not read, because it can hide text.
    """
    parts = [*_parts(message)]
    plain = "\n".join(_content(part) for part in parts if part.get_content_type() == "text/plain")
    return plain, not plain.strip() and any(
        part.get_content_type() == "text/html" for part in parts
    )


def _parts(message: Message) -> list[Message]:
    """Return the parts of the mail itself, without attachments and enclosed mails."""
    if "attachment" in str(
        message.get("Content-Disposition", "")
    ).casefold() or message.get_content_type().startswith("message/"):
        return []
    if not message.is_multipart():
        return [message]
    return [
        found for part in cast("list[Message]", message.get_payload()) for found in _parts(part)
    ]


def _content(part: Message) -> str:
    payload: Any = part.get_payload(decode=True)
    content = (
        payload
        if isinstance(payload, bytes)
        else str(part.get_payload()).encode("utf-8", "replace")
    )
    charset = str(part.get_content_charset() or "utf-8")
    try:
        return content.decode(charset, "replace")
    except (LookupError, ValueError):
        return content.decode("utf-8", "replace")


def _decoded(message: Message, name: str) -> str:
    """Return a header with its encoded words decoded."""
    value = str(message.get(name, ""))
    try:
        words = decode_header(value)
    except (HeaderParseError, MessageError, ValueError):
        return value
    return (
        "".join(_word(word, charset) for word, charset in words).replace("\r", "").replace("\n", "")
    )


def _word(word: bytes | str, charset: str | None) -> str:
    if isinstance(word, str):
        return word
    try:
        return word.decode(charset or "utf-8", "replace")
    except (LookupError, ValueError):
        return word.decode("utf-8", "replace")
