"""Answers for a conversation that another process holds: one file a question in `answers/`, and the first wins.

A vote or a note has a file of its own beside it: `<event id>.<note>.json`.

The holder of the conversation looks from time to time and records what is in there; with its record, or when its question is closed
otherwise, an answer goes away.
"""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import re
from contextlib import suppress

import msgspec

from midturn.clock import pause
from midturn.errors import AnswerError
from midturn.store.folder import Folder, telling
from midturn.store.submission import APART, HandedOver, oldest_first

ANSWERS = "answers"
_INTERVAL = 0.1  # seconds between two looks
_LOG = logging.getLogger(__name__)
_ASIDE = ".unreadable"
_PLAIN = r"[A-Za-z0-9_-]{1,64}"


class HandoverFolder:
    """The `answers/` of a conversation's directory."""

    def __init__(self, conversation: Folder) -> None:
        self._conversation = conversation

    def put(self, answer: HandedOver) -> bool:
        """Write, sync, and only then give it its name: a name that exists belongs to an earlier answer (False)."""
        name, temporary = _file_name(answer.key), f".{os.urandom(8).hex()}"
        with telling("hand an answer over in", self._conversation, ANSWERS):
            self._conversation.make_inside(ANSWERS)
            with self._conversation.inside(ANSWERS) as folder:
                folder.write_new(temporary, msgspec.json.encode(answer) + b"\n")
                try:
                    os.link(temporary, name, src_dir_fd=folder.fd, dst_dir_fd=folder.fd, follow_symlinks=False)
                    folder.sync()
                except FileExistsError:
                    return False
                finally:
                    folder.remove(temporary)
        return True

    def collect(self) -> tuple[HandedOver, ...]:
        """Read all of them; a file that is not an answer is put aside under another name."""
        if not self._conversation.has(ANSWERS):  # as usual: nothing was handed over
            return ()

        with telling("read the answers in", self._conversation, ANSWERS):
            try:
                folder = self._conversation.inside(ANSWERS)
            except FileNotFoundError:  # the conversation is being removed
                return ()
            with folder:
                names = [name for name in folder.names() if name.endswith(".json")]
                found = [answer for name in names if (answer := _read(folder, name))]
        return oldest_first(found)

    def remove(self, key: str) -> None:
        """Remove the file. Not synced: an answer that comes back after a loss of power finds its question closed."""
        telling_where = telling("remove an answer in", self._conversation, ANSWERS)
        with telling_where, suppress(FileNotFoundError), self._conversation.inside(ANSWERS) as folder:
            folder.remove(_file_name(key))


class FileFeed:
    """What is handed over to the holder of a conversation on disk, looked at ten times a second."""

    def __init__(self, answers: HandoverFolder) -> None:
        self._answers = answers

    async def collect(self) -> tuple[HandedOver, ...]:
        """Return all that are there, oldest first."""
        return self._answers.collect()

    async def changed(self) -> None:
        """Return when it is time to look again."""
        await pause(_INTERVAL)

    async def refuse(self, key: str) -> None:
        """Turn one down."""
        self._answers.remove(key)


def _decoded(text: bytes) -> HandedOver:
    answer = msgspec.json.decode(text, type=HandedOver)
    if answer.note is None:
        answer.submission.as_reply()
    return answer


def _read(folder: Folder, name: str) -> HandedOver | None:
    try:
        answer = _decoded(folder.read(name))
    except FileNotFoundError:  # taken meanwhile
        return None
    except OSError as error:
        if error.errno not in {errno.ELOOP, errno.EINVAL, errno.EFBIG}:  # it may be an answer; the system is in trouble
            raise
        return _put_aside(folder, name, error)
    except (ValueError, RecursionError, AnswerError) as error:
        return _put_aside(folder, name, error)
    return answer


def _put_aside(folder: Folder, name: str, error: Exception) -> None:
    """Make room for an answer where something else lies; nothing is thrown away."""
    _LOG.warning("%r in %r is not an answer (%r); it is kept as %r", name, str(folder.path), str(error), f"{name}{_ASIDE}")
    os.replace(name, f"{name}{_ASIDE}", src_dir_fd=folder.fd, dst_dir_fd=folder.fd)


def _file_name(key: str) -> str:
    """Return the file of an answer, or of a note: `<event id>.json`, `<event id>.<note>.json`.

    Ids that are not plain names (a stream may come from anywhere) are written as their hash.
    """
    event_id, _, note = key.partition(APART)
    plain = event_id if re.fullmatch(_PLAIN, event_id) else hashlib.sha256(event_id.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{plain}.{note}.json" if note else f"{plain}.json"
