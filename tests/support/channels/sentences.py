"""Replies to an approval, as people type them."""

from __future__ import annotations

from typing import Final

CONDITIONAL: Final = (
    "Yes but only after the backup has run",
    "yes?",
    "Yes, if Bo agrees",
    "y not?",
    "no problem, go ahead",
    "No objections from me",
    "No access to mail until 3 Dec.",
    "Yes please do NOT deploy",
    "👍 once CI is green",
    "yes no wait",
)
"""They begin with a yes or a no but mean something else. Nothing is decided until the author
confirms.
"""

NOT_A_DECISION: Final = ("ok", "OK, I am out of office until Monday", "sure", "1", "approved")
"""They begin with neither a yes nor a no."""
