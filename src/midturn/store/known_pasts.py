"""What a program that goes on with the same conversations again and again knows of their turns that are over."""

from __future__ import annotations

from midturn.core.stream.log import NO_PAST, Past

_MOST = 16
_MOST_BYTES = 64 * 1024 * 1024


class KnownPasts:
    """The pasts of the conversations that were held last. Each is compared with the file, byte by byte, before it counts."""

    def __init__(self) -> None:
        self._pasts: dict[str, Past] = {}

    def of(self, id: str) -> Past:
        """Return what is known of a conversation."""
        return self._pasts.get(id, NO_PAST)

    def keep(self, id: str, past: Past) -> None:
        """Keep a past, and forget those that were not used for longest where they are many or large."""
        self._pasts.pop(id, None)
        self._pasts[id] = past
        sizes = {each: one.size for each, one in list(self._pasts.items())}  # a copy: other threads may hold conversations, too
        total = sum(sizes.values())
        for oldest in list(sizes)[:-1] if past.size <= _MOST_BYTES else list(sizes):
            if len(self._pasts) <= _MOST and total <= _MOST_BYTES:
                break
            total -= sizes[oldest]
            self._pasts.pop(oldest, None)
