"""A secret that a tool echoes is replaced in its result."""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import quote, quote_plus

import msgspec

from midturn.core.json_value import Json
from midturn.core.secret import SecretValue

REDACTED = "[redacted]"
_ENCODED_FROM = 4  # encoded forms of shorter secrets would hit half of any text
_LINE_BREAK = r"(?:\\?\r?\n[ \t]*|\\n)"


def secrets_in(answers: Mapping[str, Json | SecretValue]) -> tuple[SecretValue, ...]:
    """Return the secrets among a call's answers."""
    return tuple(value for value in answers.values() if isinstance(value, SecretValue))


def scrub(text: str, secrets: Iterable[SecretValue]) -> str:
    """Replace every secret in `text` by `[redacted]`.

    Found are the plain form, also broken over lines, and the JSON, HTML, URL, hex and base64 forms (at every alignment). A secret of up
    to three characters is replaced where it stands alone, in its plain form only.
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
        _json(secret),
        secret.encode("ascii", "backslashreplace").decode(),
        _ascii_json(secret),
        html.escape(secret),
        html.escape(secret, quote=False),
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


def _json(text: str) -> str:
    try:
        return msgspec.json.encode(text).decode()[1:-1]
    except UnicodeEncodeError:  # half a surrogate pair has no JSON in UTF-8
        return text


def _ascii_json(text: str) -> str:
    """Write every character beyond ASCII as a `u` escape, as many JSON writers do."""
    units = _json(text).encode("utf-16-be", "surrogatepass")
    codes = (chr(int.from_bytes(units[at : at + 2], "big")) for at in range(0, len(units), 2))
    return "".join(code if code.isascii() else f"\\u{ord(code):04x}" for code in codes)


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
