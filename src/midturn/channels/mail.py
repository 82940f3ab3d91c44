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
from html.parser import HTMLParser
from typing import Any, Final, cast

from msgspec import Struct

_TOKEN: Final = re.compile(r"\[midturn ([A-Za-z0-9_-]{16,22})\]")
_RESULT: Final = re.compile(r"(?is)^\s*(?P<method>dkim|dmarc)\s*(?:/\s*\d+\s*)?=\s*pass\b(?P<rest>.*)$")
_PROPERTY: Final = re.compile(r"(?i)(?:^|\s)(?P<name>header\.(?:d|i|from))\s*=\s*(?P<value>[^\s;]+)")
_QUOTED: Final = re.compile(r'"(?:[^"\\]|\\.)*"')
_COMMENT: Final = re.compile(r"\([^()]*\)")
_ADDRESS: Final = re.compile(r"[^\s@<>,;:\"()\[\]\\]+@[A-Za-z0-9.-]+")
_BULK: Final = frozenset({"bulk", "list", "junk", "auto_reply"})
_CUT: Final = re.compile(r"(?i)-{2,}\s?|_{10,}|[-_]{3,}\s*\S.*[-_]{3,}|(?:from|von|de|da|van)\s?:\s.*@.*")
_OF_A_DEVICE: Final = re.compile(
    r"(?i)(?:sent from|sent with|sent via|get) (?:my |outlook|proton|mail for|yahoo).{0,60}|von meinem \S+ gesendet"
)
_MAX_BELOW: Final = 200  # lines that are read below the first one
_ATTRIBUTION: Final = 3  # lines over which "On Monday, Bo wrote:" is broken
_ENDS_QUOTE: Final = ("gmail_quote", "yahoo_quoted", "moz-cite-prefix", "protonmail_quote", "divrplyfwdmsg", "appendonsend")
_BLOCKS: Final = frozenset({"br", "p", "div", "tr", "li", "h1", "h2", "h3", "h4", "table", "ul", "ol", "pre", "blockquote", "body", "hr"})
_UNSHOWN: Final = frozenset({"script", "style", "head", "title", "template"})


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
        subject: What it is about.
    """

    sender: str = ""
    token: str = ""
    text: str = ""
    more: str = ""
    vouched_for: bool = False
    no_answer: str = ""
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
    tokens, text = set(_TOKEN.findall(subject)), _text_of(message)
    return Mail(
        sender=sender,
        token=tokens.pop() if len(tokens) == 1 else "",
        text=first_line(text),
        more=lines_below(text),
        vouched_for=bool(sender) and _is_vouched_for(message, sender.rpartition("@")[2], authserv_id),
        no_answer=_by_a_program(message),
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
    for header in message.get_all("Authentication-Results", []):
        name, _, results = _uncommented(str(header)).partition(";")
        if name.casefold().split()[:1] == [authserv_id.casefold()]:
            return any(_is_pass(result, domain) for result in results.split(";"))
    return False


def _uncommented(header: str) -> str:
    """Return a header without what is quoted or a comment in it, also one within another."""
    bare, before = _QUOTED.sub('""', header), ""
    while bare != before:
        bare, before = _COMMENT.sub(" ", bare), bare
    return bare.partition("(")[0]


def _is_pass(result: str, domain: str) -> bool:
    found = _RESULT.match(result)
    if found is None:
        return False
    properties = {entry["name"].lower(): entry["value"].strip('"').lower() for entry in _PROPERTY.finditer(found["rest"])}
    if found["method"].lower() == "dmarc":
        return properties.get("header.from") == domain
    signer = properties.get("header.d") or properties.get("header.i", "").rpartition("@")[2]
    return signer == domain


def _by_a_program(message: Message) -> str:
    automatic = str(message.get("Auto-Submitted", "no")).partition(";")[0].strip().casefold()
    if automatic != "no":
        return "a program sent it (Auto-Submitted)"
    if str(message.get("Precedence", "")).strip().casefold() in _BULK or message.get("List-Id") or message.get("List-Unsubscribe"):
        return "it went to many"
    if str(message.get("Return-Path", "x")).strip() in ("<>", "") or message.get_content_type() == "multipart/report":
        return "it has no sender"
    return ""


# What it says ------------------------------------------------------------------------------------------------------------------


def _text_of(message: Message) -> str:
    """Return its text: the plain one, or what the HTML shows."""
    parts = [part for part in _parts(message) if part.get_content_type() in ("text/plain", "text/html")]
    plain = next((part for part in parts if part.get_content_type() == "text/plain"), None)
    if plain is not None:
        return _content(plain)
    return shown_text(_content(parts[0])) if parts else ""


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


def shown_text(html: str) -> str:
    """Return what HTML shows, up to what it quotes, a line for each block."""
    reader = _Shown()
    reader.feed(html)
    reader.close()
    return "\n".join(" ".join(line.split()) for line in "".join(reader.taken).split("\n"))


class _Shown(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.taken: list[str] = []
        self._unshown = 0
        self._is_over = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begin a line with a block; end with a quote."""
        names = " ".join(value or "" for name, value in attrs if name in ("class", "id", "type")).casefold()
        if (tag == "blockquote" and "".join(self.taken).strip()) or any(end in names for end in _ENDS_QUOTE):
            self._is_over = True
        elif tag == "blockquote":
            self._take("\n> ")
        elif tag in _BLOCKS:
            self._take("\n")
        if tag in _UNSHOWN:
            self._unshown += 1

    def handle_endtag(self, tag: str) -> None:
        """End a line with a block."""
        if tag in _UNSHOWN:
            self._unshown = max(0, self._unshown - 1)
        elif tag in _BLOCKS and tag != "br":
            self._take("\n")

    def handle_data(self, data: str) -> None:
        """Take text."""
        if not self._unshown:
            self._take(data.replace("\n", " "))

    def _take(self, text: str) -> None:
        if not self._is_over:
            self.taken.append(text)
