"""What becomes of what a tool returned or raised: an outcome without secrets, short enough for a model; the whole is kept in a file."""

from __future__ import annotations

import hashlib
import os
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import msgspec

from midturn.core.form import Form
from midturn.core.image import Image
from midturn.core.outcome import NeedsInput, Outcome, Success, ToolError
from midturn.core.question import Question
from midturn.core.secret import SecretValue
from midturn.errors import MidturnError
from midturn.ports import ToolRun
from midturn.tools.scrub import REDACTED

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
    if isinstance(error, Rejected):
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
    import tempfile  # only for an output that is too long

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
