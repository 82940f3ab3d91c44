"""A secret that a tool echoes is replaced in its result."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator
from urllib.parse import quote, quote_plus

from midturn.core.secret import SecretValue

REDACTED = "[redacted]"
_ENCODED_FROM = 4  # encoded forms of shorter secrets would hit half of any text
_CONTROLS = dict(zip("\n\r\t\b\f", "nrtbf", strict=True))
_LINE_BREAK = r"(?:\\?\r?\n[ \t]*|\\n)"


def scrub(text: str, secrets: Iterable[SecretValue]) -> str:
    """Replace every secret in `text` by `[redacted]`.

    Found are the plain form, also broken over lines, and the JSON, `repr`, HTML, URL, hex and base64 forms (at every alignment). A
    secret of up to three characters is replaced where it stands alone, in its plain form only.
    """
    held = tuple(secrets)
    if not held:
        return text
    flat = re.sub(_LINE_BREAK, "", text) if "\n" in text or "\\n" in text else ""
    spans = sorted(span for secret in held for span in _spans(text, flat, secret.reveal()))
    if not spans:
        return text
    pieces: list[str] = []
    at = 0
    for start, end in _merged(spans):
        pieces += [text[at:start], REDACTED]
        at = end
    return "".join([*pieces, text[at:]])


def _merged(spans: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    start, end = spans[0]
    for next_start, next_end in spans[1:]:
        if next_start > end:
            yield start, end
            start, end = next_start, next_end
        else:
            end = max(end, next_end)
    yield start, end


def _spans(text: str, flat: str, secret: str) -> Iterator[tuple[int, int]]:
    if not secret.strip():
        return
    if len(secret) < _ENCODED_FROM:
        yield from (match.span() for match in re.finditer(rf"(?<!\w){re.escape(secret)}(?!\w)", text))
        return
    for form in _forms(secret):
        yield from _occurrences(text, form)
    for core, before, after in _base64_forms(secret.encode("utf-8", "surrogatepass")):
        for start, end in _occurrences(text, core):
            yield max(start - before, 0), min(end + after, len(text))
    if _plain_run(secret) in text:
        for form in (secret, *_html(secret)):
            yield from (match.span() for match in re.finditer(_escaped(form), text))
    for form in _breakable(secret):
        if re.sub(_LINE_BREAK, "", form) in flat:  # only then is the slow search worth its time
            pattern = f"{_LINE_BREAK}?".join(map(re.escape, form))
            yield from (match.span() for match in re.finditer(pattern, text))


def _occurrences(text: str, form: str) -> Iterator[tuple[int, int]]:
    """Find a form, overlapping itself too: a run of occurrences is one span."""
    start = text.find(form)
    while start >= 0:
        end = start + len(form)
        while (further := text.rfind(form, end - len(form) + 1, end + len(form) - 1)) >= 0:
            end = further + len(form)
        yield start, end
        start = text.find(form, end)


def _forms(secret: str) -> set[str]:
    raw = secret.encode("utf-8", "surrogatepass")
    spaced = raw.hex(" ")
    forms = {
        secret,
        secret.strip(),
        *_html(secret),
        secret.replace("'", "'\\''"),  # two ways of quoting for a shell
        secret.replace("'", "'\"'\"'"),
        raw.hex(),
        spaced,
        spaced.replace(" ", ":"),
    }
    for safe in ("", "/", "~()*!.'", "/:?#[]@!$&'()*+,;="):
        forms |= {quote(raw, safe=safe), quote_plus(raw, safe=safe)}
    forms |= {re.sub(r"%[0-9A-F]{2}", lambda found: found[0].lower(), form) for form in forms if "%" in form}
    forms |= {raw.hex().upper(), spaced.upper(), spaced.upper().replace(" ", ":"), quote(raw, safe="").replace("%", "%25")}
    return {form for form in forms if len(form) >= _ENCODED_FROM}


def _plain_run(secret: str) -> str:
    """Return the longest piece that every way of escaping leaves as it is: without it in a text there is nothing to look for."""
    return max(re.findall(r"[A-Za-z0-9]+", secret), key=len, default="")


def _html(secret: str) -> set[str]:
    import html  # only where there is a secret

    escaped = html.escape(secret)
    return {escaped, html.escape(secret, quote=False), escaped.replace("&quot;", "&#34;").replace("&#x27;", "&#39;")} - {secret}


def _escaped(secret: str) -> str:
    """Return a pattern for the secret as JSON, `repr` and the like write it, and write it again inside of another text.

    Backslashes in front of a character are one run, so that no text makes the search slow.
    """
    pieces: list[str] = []
    backslashes = 0
    for char in secret:
        if char == "\\":
            backslashes += 1
        else:
            pieces.append(_escaped_character(char, backslashes))
            backslashes = 0
    pattern = "".join(pieces) + _run(backslashes)
    return pattern if re.match(r"[A-Za-z0-9]", secret) else rf"(?<!\\){pattern}"


def _escaped_character(char: str, backslashes: int) -> str:
    if char.isalnum() and char.isascii():
        return _run(backslashes) + char
    itself = rf"\\{{{backslashes},}}{re.escape(char)}"
    if char.isascii() and char.isprintable():
        return itself
    utf16, utf8 = char.encode("utf-16-be", "surrogatepass"), char.encode("utf-8", "surrogatepass")
    more = rf"\\{{{backslashes + 1},}}"
    codes = [rf"U{ord(char):08x}", r"\\+".join(f"u{utf16[at : at + 2].hex()}" for at in range(0, len(utf16), 2))]
    codes += [r"\\+".join(f"x{byte:02x}" for byte in utf8), *([f"x{ord(char):02x}"] if ord(char) < 0x100 else [])]  # noqa: PLR2004
    codes += [_CONTROLS[char]] if char in _CONTROLS else []
    return f"(?:{itself}|{more}(?i:{'|'.join(codes)}))"


def _run(backslashes: int) -> str:
    return rf"\\{{{backslashes},}}" if backslashes else ""


def _base64_forms(raw: bytes) -> Iterator[tuple[str, int, int]]:
    """Yield the characters that the secret alone decides at each of three alignments, and how many beside them it decides in part."""
    for shift in range(3):
        bits = 8 * (shift + len(raw))
        first, last = -(-8 * shift // 6), bits // 6
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            core = encode(b"\0" * shift + raw)[first:last].decode()
            if len(core) >= _ENCODED_FROM:
                yield core, int(shift > 0), int(bits % 6 > 0)


def _breakable(secret: str) -> tuple[str, ...]:
    """Return the forms that are found with line breaks anywhere inside: the plain one, and the whole base64 and hex."""
    raw = secret.encode("utf-8", "surrogatepass")
    return secret, base64.b64encode(raw).decode().rstrip("="), raw.hex(), raw.hex().upper()
