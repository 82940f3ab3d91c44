"""The outcome of a returned or raised value: without secrets, short enough for a model; the whole is kept in a file."""

from __future__ import annotations

import base64
import hashlib
import html
import os
import re
import tempfile
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote, quote_plus

import msgspec

from midturn.errors import MidturnError, NotAnswered
from midturn.events.outcome import NeedsInput, Outcome, Success, ToolError
from midturn.events.types import Image
from midturn.ports import ToolRun
from midturn.question.form import Form
from midturn.question.json_value import SecretValue
from midturn.question.question import Question
from midturn.tools.decoded_text import DecodedText, unbroken, views, without_breaks

# ----------------------------------------------------------------------------------------------------------------------
# A secret that a tool echoes is replaced in its result


REDACTED = "[redacted]"
_ENCODED_FROM = 4  # encoded forms of shorter secrets would hit half of any text
_CONTROLS = dict(zip("\n\r\t\b\f", "nrtbf", strict=True))


def scrub(text: str, secrets: Iterable[SecretValue]) -> str:
    """Replace every secret in `text` by `[redacted]`.

    Found are the plain form, and the JSON, `repr`, HTML, URL, hex and base64 forms (at every alignment, and URL-safe), also broken over
    lines, in JSON within JSON, and with more characters escaped than necessary. A secret of up to three characters is replaced where it
    stands alone, in its plain form only.
    """
    held = tuple(secrets)
    if not held:
        return text
    decoded = views(text)
    unbroken = [view for each in decoded if (view := without_breaks(each)) is not None]
    revealed = [secret.reveal() for secret in held]
    in_views = (_spans_in(view, secret) for secret in revealed for view in (*decoded[1:], *unbroken))
    spans = sorted([*chain.from_iterable(_spans(text, secret) for secret in revealed), *chain.from_iterable(in_views)])
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


def _spans(text: str, secret: str) -> Iterator[tuple[int, int]]:
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


def _spans_in(view: DecodedText, secret: str) -> Iterator[tuple[int, int]]:
    """Find a secret in a decoded view; yield where it is in the original text."""
    if len(secret.strip()) < _ENCODED_FROM:
        return
    raw = secret.encode("utf-8", "surrogatepass")
    forms = {secret, secret.strip(), secret.replace(" ", "+"), raw.decode("latin-1"), _surrogates(secret), raw.hex(), raw.hex().upper()}
    forms |= {unbroken(form) for form in forms}
    for form in forms:
        if len(form) >= _ENCODED_FROM:
            yield from (view.span(*span) for span in _occurrences(view.text, form))
    for core, before, after in _base64_forms(raw):
        for start, end in _occurrences(view.text, core):
            yield view.span(max(start - before, 0), min(end + after, len(view.text)))
    if "\\" in view.text and _plain_run(secret) in view.text:
        yield from (view.span(*match.span()) for match in re.finditer(_escaped(secret), view.text) if match[0])


def _surrogates(text: str) -> str:
    """Return a text in which each character beyond the first plane is the two that JSON writes."""
    return re.sub(r"[^\u0000-\uffff]", lambda found: "".join(_halves(found[0])), text)


def _halves(character: str) -> Iterator[str]:
    pair = character.encode("utf-16-be")
    yield from (chr(int.from_bytes(pair[at : at + 2])) for at in (0, 2))


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
        secret.replace("'", "''"),  # in SQL and YAML
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


_TRACE_LINES = 60


class Rejected(MidturnError):  # noqa: N818 (a public name)
    """Raised by a tool to report a "no"; the model reads the message."""


def outcome_of(returned: object) -> Outcome:
    """Read a return value: outcomes, forms and questions mean what they are, text is the result, anything else is sent as JSON."""
    match returned:
        case Success() | ToolError() | NeedsInput():
            return returned
        case Form():
            return NeedsInput(returned)
        case Question():
            return NeedsInput(Form((cast("Question[Any]", returned),)))
        case str():
            return Success(returned)
        case _:
            return _as_json(returned)


def failure(error: BaseException, hide: Callable[[str], str]) -> ToolError:
    """Report what a tool raised: type and message for the model, the end of the trace for people; `hide` takes secrets out of both."""
    if isinstance(error, Rejected | NotAnswered):
        return ToolError(hide(str(error)))
    message = "".join(traceback.format_exception_only(error)).strip()
    trace = hide("".join(traceback.format_exception(error)))  # whole: a secret may have several lines
    return ToolError(hide(message), tuple(trace.splitlines()[-_TRACE_LINES:]))


def _as_json(value: object) -> Outcome:
    try:
        return Success(msgspec.json.encode(value, enc_hook=_simpler).decode())
    except (TypeError, ValueError, RecursionError) as error:
        kind = type(value).__name__
        return ToolError(f"The tool returned a `{kind}`, which has no JSON form ({error}). Return text, or something that JSON can hold.")


def _simpler(value: object) -> object:
    if isinstance(value, SecretValue):
        return REDACTED
    dump = getattr(value, "model_dump", None)  # a Pydantic model
    if callable(dump):
        return dump(mode="json")
    raise TypeError(f"`{type(value).__name__}` is not JSON")


_TAIL = 4  # the last quarter of what is kept comes from the end, where programs say what went wrong
_MARK = 400  # room for the line that says what was left out
_LONGER = 8  # times as long as a text, and more, is its JSON at worst: what cannot be recorded would have its tool run again
_AROUND = 100  # bytes of a picture's event besides its data


def deliverable(outcome: Outcome, run: ToolRun) -> Outcome:
    """Make an outcome fit to be read and recorded: no secret of the call in it, a text of `limits.tool_output` bytes, what pictures fit."""
    match outcome:
        case Success(content, images, warning):
            text = shortened(run.hide(content), run)
            kept = _fitting(text, images, run.limits.batch)
            left_out = f"\n{_left_out(images[len(kept) :], run.limits.batch)}" if len(kept) < len(images) else ""
            return Success(text + left_out, kept, warning)
        case ToolError(message, trace, transient):
            lines = tuple(run.hide("\n".join(trace)).splitlines())
            return ToolError(shortened(run.hide(message), run), lines, transient)
        case NeedsInput():
            return outcome


def _fitting(text: str, images: Sequence[Image], batch: int) -> tuple[Image, ...]:
    """Return the first of the pictures, as many as can be recorded with the text: a result that cannot be would have its tool run again."""
    room = batch - len(msgspec.json.encode(text.encode("utf-8", "replace").decode())) - _MARK if images else 0
    kept: list[Image] = []
    for image in images:
        room -= len(image.data) + _AROUND
        if room < 0:
            break
        kept.append(image)
    return tuple(kept)


def _left_out(images: Sequence[Image], batch: int) -> str:
    sizes = " and ".join(f"{image.size:,}" for image in images)
    what, are = ("A picture", "is") if len(images) == 1 else (f"{len(images)} pictures", "are")
    return f"({what} of {sizes} bytes {are} left out here: a result may have {batch:,} bytes, pictures in base64.)"


def shortened(text: str, run: ToolRun) -> str:
    """Return `text` if it has at most `limits.tool_output` bytes, else its beginning and end, and where the whole of it is."""
    data = text.encode("utf-8", "replace")
    limit = min(run.limits.tool_output, run.limits.batch // _LONGER)
    if len(data) <= limit:
        return text
    room = max(limit - _MARK, 0)
    tail = room // _TAIL
    end = data[len(data) - tail :].decode(errors="ignore")
    mark = f"\n[… {len(data) - room} of {len(data)} bytes are left out here; {_kept(data, Path(run.root))} …]\n"
    return data[: room - tail].decode(errors="ignore") + mark + end


def _kept(data: bytes, root: Path) -> str:
    try:
        return f"the whole output is in {keep(data, root) or _write(data, Path(tempfile.mkdtemp(prefix='midturn-')))}"
    except OSError as error:
        return f"the whole output could not be kept: {error.strerror}"


def keep(data: bytes, root: Path) -> Path | None:
    """Write to `.midturn/output` and return the path relative to the root; None where there is no workspace, or no room.

    A link that a repository brought along is not followed. The name is made from the content: running again finds the same file.
    """
    ours = root / ".midturn"
    if ours.is_symlink() or not ours.is_dir() or (ours / "output").is_symlink():
        return None
    try:
        (ours / "output").mkdir(mode=0o700, exist_ok=True)
        return _write(data, ours / "output").relative_to(root)
    except OSError:
        return None


def _write(data: bytes, folder: Path) -> Path:
    path = folder / f"{hashlib.sha256(data).hexdigest()[:16]}.txt"
    with suppress(FileExistsError):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
        except OSError:  # the disk is full: half a file must not pass for the whole
            path.unlink()
            raise
    return path
