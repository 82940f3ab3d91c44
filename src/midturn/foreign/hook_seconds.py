"""How many seconds hooks may take, the same for every agent."""

from __future__ import annotations

from typing import Final

TIMEOUT: Final = 86_400
"""What an agent allows a hook that waits for a person: `midturn hook install` says so in its settings."""
WAIT: Final[float] = TIMEOUT - 60
"""How long such a hook waits: it ends by itself before its agent ends it."""
HIDDEN: Final = 20.0
"""How long an agent's own dialog stays away, where it opens only when our hook has ended."""
