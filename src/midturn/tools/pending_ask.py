"""What `ctx.ask(…)` returns: a coroutine that cannot be taken for an answer."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Sequence
from types import TracebackType
from typing import Any, NoReturn, TypeVar

T_co = TypeVar("T_co", covariant=True)


class PendingAsk(Coroutine[Any, Any, T_co]):
    """An answer that is not there yet: `await` it, or make a task of it.

    The question is asked when it is first awaited or scheduled. `bool()` of it raises: `if ctx.ask(…)` without `await` would always be
    a yes.
    """

    def __init__(self, asked: str, begin: Callable[[], Coroutine[Any, Any, T_co]], begun: Callable[[PendingAsk[Any]], object]) -> None:
        self.asked = asked
        """The ids of what is asked, for messages."""
        self._begin = begin
        self._begun = begun
        self._coroutine: Coroutine[Any, Any, T_co] | None = None

    def __await__(self) -> Generator[Any, Any, T_co]:
        return self._started().__await__()

    def send(self, value: Any, /) -> Any:
        """Run on, as a task does."""
        return self._started().send(value)

    def throw(self, error: type[BaseException] | BaseException, value: object = None, traceback: TracebackType | None = None, /) -> Any:
        """Raise inside, as a task does that is cancelled."""
        raised = error if isinstance(error, BaseException) else error() if value is None else error(value)
        return self._started().throw(raised.with_traceback(traceback) if traceback else raised)

    def close(self) -> None:
        """Give the question up: it is not asked."""
        self._begun(self)
        if self._coroutine:
            self._coroutine.close()

    def __bool__(self) -> NoReturn:
        raise TypeError(f"Whether {self.asked} was answered with yes is not known yet: write `await` in front of the ask.")

    def __repr__(self) -> str:
        return f"<an ask of {self.asked}, to be awaited>"

    def _started(self) -> Coroutine[Any, Any, T_co]:
        if self._coroutine is None:
            self._begun(self)
            self._coroutine = self._begin()
        return self._coroutine


class UnaskedError(RuntimeError):
    """A call has ended, and questions of it were never asked."""

    def __init__(self, asks: Sequence[PendingAsk[Any]]) -> None:
        asked = ", ".join(ask.asked for ask in asks)
        super().__init__(f"{asked} was never asked: nobody awaited the ask. Write `await` in front of it.")
