"""Convert a tool's return value or exception to an outcome. Secrets are removed, and long text is
shortened for the model.
"""

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
from midturn.tools.decoded_text import (
    DecodedText,
    unbroken,
    views,
    without_breaks,
)

# --------------------------------------------------------------------------------------------------
# Replacement of secrets in a tool's result


REDACTED = "[redacted]"
# minimum length of a secret whose encoded forms are replaced; the encoded forms of shorter secrets
# would match unrelated text too often
_MIN_ENCODED_LENGTH = 4
_CONTROLS = dict(zip("\n\r\t\b\f", "nrtbf", strict=True))


def scrub(text: str, secrets: Iterable[SecretValue]) -> str:
    """Replace every secret in `text` with `[redacted]`.

    Secrets are found as plain text and in JSON, `repr`, HTML, URL, hex and base64. Base64 may be
    URL-safe and have any alignment. A secret may be split over several lines, be in JSON within
    JSON, or have unnecessary escapes. A secret of up to three characters is replaced only as plain
    text and as a separate word.
    """
    secret_values = tuple(secrets)
    if not secret_values:
        return text
    decoded = views(text)
    unbroken = [view for each in decoded for view in without_breaks(each)]
    revealed = [secret.reveal() for secret in secret_values]
    in_views = (
        _spans_in(view, secret) for secret in revealed for view in (*decoded[1:], *unbroken)
    )
    spans = sorted(
        [
            *chain.from_iterable(_spans(text, secret) for secret in revealed),
            *chain.from_iterable(in_views),
        ]
    )
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
    if len(secret) < _MIN_ENCODED_LENGTH:
        yield from (
            match.span() for match in re.finditer(rf"(?<!\w){re.escape(secret)}(?!\w)", text)
        )
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
    """Yield the spans of a secret in a decoded view, as spans in the original text."""
    if len(secret.strip()) < _MIN_ENCODED_LENGTH:
        return
    raw = secret.encode("utf-8", "surrogatepass")
    forms = {
        secret,
        secret.strip(),
        secret.replace(" ", "+"),
        raw.decode("latin-1"),
        _surrogates(secret),
        raw.hex(),
        raw.hex().upper(),
    }
    forms |= {unbroken(form) for form in forms}
    for form in forms:
        if len(form) >= _MIN_ENCODED_LENGTH:
            yield from (view.span(*span) for span in _occurrences(view.text, form))
    for core, before, after in _base64_forms(raw):
        for start, end in _occurrences(view.text, core):
            yield view.span(max(start - before, 0), min(end + after, len(view.text)))
    if "\\" in view.text and _plain_run(secret) in view.text:
        yield from (
            view.span(*match.span())
            for match in re.finditer(_escaped(secret), view.text)
            if match[0]
        )


def _surrogates(text: str) -> str:
    """Return text in which each character beyond U+FFFF is replaced with a surrogate pair, as in
    JSON.
    """
    return re.sub(r"[^\u0000-\uffff]", lambda found: "".join(_halves(found[0])), text)


def _halves(character: str) -> Iterator[str]:
    pair = character.encode("utf-16-be")
    yield from (chr(int.from_bytes(pair[at : at + 2])) for at in (0, 2))


def _occurrences(text: str, form: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of a form. Overlapping occurrences are merged."""
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
        secret.replace("'", "'\\''"),  # two ways of quoting in a shell
        secret.replace("'", "'\"'\"'"),
        secret.replace("'", "''"),  # quoting in SQL and YAML
        raw.hex(),
        spaced,
        spaced.replace(" ", ":"),
    }
    for safe in ("", "/", "~()*!.'", "/:?#[]@!$&'()*+,;="):
        forms |= {quote(raw, safe=safe), quote_plus(raw, safe=safe)}
    forms |= {
        re.sub(r"%[0-9A-F]{2}", lambda found: found[0].lower(), form)
        for form in forms
        if "%" in form
    }
    forms |= {
        raw.hex().upper(),
        spaced.upper(),
        spaced.upper().replace(" ", ":"),
        quote(raw, safe="").replace("%", "%25"),
    }
    return {form for form in forms if len(form) >= _MIN_ENCODED_LENGTH}


def _plain_run(secret: str) -> str:
    """Return the longest part of a secret that is the same in all escaped forms. Text without this
    part cannot contain the secret.
    """
    return max(re.findall(r"[A-Za-z0-9]+", secret), key=len, default="")


def _html(secret: str) -> set[str]:
    escaped = html.escape(secret)
    return {
        escaped,
        html.escape(secret, quote=False),
        escaped.replace("&quot;", "&#34;").replace("&#x27;", "&#39;"),
    } - {secret}


def _escaped(secret: str) -> str:
    """Return a pattern that matches the secret with escapes of JSON, `repr` and similar formats,
    even if the escaped text is itself inside escaped text.

    Backslashes before a character are matched as one run, so that the search is never slow.
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
    codes = [
        rf"U{ord(char):08x}",
        r"\\+".join(f"u{utf16[at : at + 2].hex()}" for at in range(0, len(utf16), 2)),
    ]
    codes += [
        r"\\+".join(f"x{byte:02x}" for byte in utf8),
        *([f"x{ord(char):02x}"] if ord(char) < 0x100 else []),  # noqa: PLR2004
    ]
    codes += [_CONTROLS[char]] if char in _CONTROLS else []
    return f"(?:{itself}|{more}(?i:{'|'.join(codes)}))"


def _run(backslashes: int) -> str:
    return rf"\\{{{backslashes},}}" if backslashes else ""


def _base64_forms(raw: bytes) -> Iterator[tuple[str, int, int]]:
    """For each of three alignments, yield the base64 characters that depend only on the secret.
    Also yield how many characters before and after them depend on it partly.
    """
    for shift in range(3):
        bits = 8 * (shift + len(raw))
        first, last = -(-8 * shift // 6), bits // 6
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            core = encode(b"\0" * shift + raw)[first:last].decode()
            if len(core) >= _MIN_ENCODED_LENGTH:
                yield core, int(shift > 0), int(bits % 6 > 0)


_TRACE_LINES = 60


class Rejected(MidturnError):  # noqa: N818 (a public name)
    """Raised by a tool to report a refusal. The model reads the message."""


def outcome_of(returned: object) -> Outcome:
    """Convert a return value: outcomes, forms and questions are used directly, a string is the
    result, and other values become JSON.
    """
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
    """Convert an exception. The model receives its type and message, and people receive the end of
    the traceback. `hide` removes secrets from both.
    """
    if isinstance(error, Rejected | NotAnswered):
        return ToolError(hide(str(error)))
    message = "".join(traceback.format_exception_only(error)).strip()
    # before splitting, because a secret can contain line breaks
    trace = hide("".join(traceback.format_exception(error)))
    return ToolError(hide(message), tuple(trace.splitlines()[-_TRACE_LINES:]))


def _as_json(value: object) -> Outcome:
    try:
        return Success(msgspec.json.encode(value, enc_hook=_simpler).decode())
    except (TypeError, ValueError, RecursionError) as error:
        kind = type(value).__name__
        return ToolError(
            f"The tool returned a `{kind}`, which has no JSON form ({error}). Return text or a"
            " value that can be written as JSON."
        )


def _simpler(value: object) -> object:
    if isinstance(value, SecretValue):
        return REDACTED
    dump = getattr(value, "model_dump", None)  # a Pydantic model
    if callable(dump):
        return dump(mode="json")
    raise TypeError(f"`{type(value).__name__}` is not JSON")


# a quarter of the kept text comes from the end, where programs report errors
_TAIL_FRACTION = 4
_NOTE_BYTES = 400  # bytes that are reserved for the note about omitted text
# maximum factor by which text grows in JSON. It limits the size of a result: a result that is too
# large to be recorded would make its tool run again
_MAX_JSON_EXPANSION = 8
_IMAGE_OVERHEAD = 100  # size of an image in an event without the image data, in bytes


def deliverable(outcome: Outcome, run: ToolRun) -> Outcome:
    """Prepare an outcome for the model and the log. Secrets are removed, the text is shortened to
    `limits.tool_output`, and images that do not fit are left out.
    """
    match outcome:
        case Success(content, images, warning):
            text = shortened(run.hide(content), run)
            kept = _fitting(text, images, run.limits.batch)
            left_out = (
                f"\n{_left_out(images[len(kept) :], run.limits.batch)}"
                if len(kept) < len(images)
                else ""
            )
            return Success(text + left_out, kept, warning)
        case ToolError(message, trace, transient):
            lines = tuple(run.hide("\n".join(trace)).splitlines())
            return ToolError(shortened(run.hide(message), run), lines, transient)
        case NeedsInput():
            return outcome


def _fitting(text: str, images: Sequence[Image], batch: int) -> tuple[Image, ...]:
    """Return the first images that can be recorded together with the text. If the event were too
    large, it could not be recorded and the tool would run again.
    """
    room = (
        batch - len(msgspec.json.encode(text.encode("utf-8", "replace").decode())) - _NOTE_BYTES
        if images
        else 0
    )
    kept: list[Image] = []
    for image in images:
        room -= len(image.data) + _IMAGE_OVERHEAD
        if room < 0:
            break
        kept.append(image)
    return tuple(kept)


def _left_out(images: Sequence[Image], batch: int) -> str:
    sizes = " and ".join(f"{image.size:,}" for image in images)
    what, are = ("A picture", "is") if len(images) == 1 else (f"{len(images)} pictures", "are")
    return (
        f"({what} of {sizes} bytes {are} left out here: a result may have {batch:,} bytes, pictures"
        " in base64.)"
    )


def shortened(text: str, run: ToolRun) -> str:
    """Return `text` unchanged if it has at most `limits.tool_output` bytes. Otherwise return its
    beginning, its end, and the path of the file with the whole text.
    """
    data = text.encode("utf-8", "replace")
    limit = min(run.limits.tool_output, run.limits.batch // _MAX_JSON_EXPANSION)
    if len(data) <= limit:
        return text
    room = max(limit - _NOTE_BYTES, 0)
    tail = room // _TAIL_FRACTION
    end = data[len(data) - tail :].decode(errors="ignore")
    mark = (
        f"\n[… {len(data) - room} of {len(data)} bytes are left out here;"
        f" {_kept(data, Path(run.root))} …]\n"
    )
    return data[: room - tail].decode(errors="ignore") + mark + end


def _kept(data: bytes, root: Path) -> str:
    try:
        return (
            "the whole output is in"
            f" {keep(data, root) or _write(data, Path(tempfile.mkdtemp(prefix='midturn-')))}"
        )
    except OSError as error:
        return f"the whole output could not be kept: {error.strerror}"


def keep(data: bytes, root: Path) -> Path | None:
    """Write a file to `.midturn/output` and return its path relative to the root. Return None if
    there is no workspace or no disk space.

    Links in the repository are not followed. The file name is derived from the content, so a
    repeated run uses the same file.
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
        descriptor = os.open(
            path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
        )
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
        except OSError:  # the disk may be full; remove the incomplete file
            path.unlink()
            raise
    return path
