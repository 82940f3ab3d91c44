"""Calling a person who is elsewhere: the bell, the title, a desktop notification."""

from __future__ import annotations

from collections.abc import Mapping

from midturn.core.prompt import Prompt
from midturn.prompts.cells import clip
from midturn.prompts.content import asked_by, question_line
from midturn.terminal.settings import PrompterSettings

_LONGEST = 120
_SAVE_TITLE = "\x1b[22;2t"
_RESTORE_TITLE = "\x1b[23;2t"
_WITHOUT_TITLES = ("linux", "vt", "cons")
_NINE = frozenset({"iTerm.app", "WezTerm", "ghostty"})
_MULTIPLEXERS = ("screen", "tmux")
_SEVEN_SEVEN_SEVEN = ("rxvt", "foot", "contour")


def calling(prompt: Prompt, settings: PrompterSettings, environment: Mapping[str, str]) -> str:
    """Return what makes the terminal call its person; the title is put back by `called_off`."""
    text = _in_a_string(f"{asked_by(prompt)}: {question_line(prompt)}")
    bell = "\a" if settings.bell else ""
    if not settings.notify or not _has_title(environment):
        return bell
    return f"{bell}{_SAVE_TITLE}\x1b]2;{text}\x1b\\{_notification(text, environment)}"


def called_off(settings: PrompterSettings, environment: Mapping[str, str]) -> str:
    """Return what puts the title back."""
    return _RESTORE_TITLE if settings.notify and _has_title(environment) else ""


def _notification(text: str, environment: Mapping[str, str]) -> str:
    """Return the sequence that this terminal knows, or nothing: what is inside another terminal may inherit its name."""
    term = environment.get("TERM", "")
    if term.startswith(_MULTIPLEXERS):
        return ""
    if environment.get("TERM_PROGRAM") in _NINE or term in {"xterm-kitty", "xterm-ghostty"}:
        return f"\x1b]9;{text}\x1b\\"
    if term.startswith(_SEVEN_SEVEN_SEVEN):
        return f"\x1b]777;notify;midturn;{text}\x1b\\"
    return ""


def _in_a_string(text: str) -> str:
    """Keep text from ending or splitting the sequence that it stands in: it passed the sink, and loses its semicolons."""
    return clip(text.replace(";", ","), _LONGEST)


def _has_title(environment: Mapping[str, str]) -> bool:
    return not environment.get("TERM", "").startswith(_WITHOUT_TITLES)
