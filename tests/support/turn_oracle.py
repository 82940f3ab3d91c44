"""Oracle: computes the expected outcome of a scripted turn, call by call. Imports nothing of
midturn.
"""

from __future__ import annotations

from support.turn_expected import REST, CallLog, Expected, Result
from support.turn_oracle_call import CallOracle
from support.turn_oracle_state import CallOver, TurnOver, TurnState
from support.turn_script import Called, Script

INPUT_CANCELLED = "Tool input cancelled by user."
TURN_ENDED = "Tool call cancelled: the user ended the turn."


def expected(script: Script) -> Expected:
    """Compute the outcome of a script, one call after the other: calls of a cycle do not depend
    on each other.
    """
    state = TurnState(script)
    found = Expected(seen=state.seen)
    for number, cycle in enumerate(script.cycles, 1):
        _note_cycle(state, script, number)
        state.begin_cycle()
        over = [_call(state, found, called) for called in cycle]
        if any(over):
            _cut(found, len(cycle), over)
            return found
        state.end_cycle()
        if state.stopped:
            return _failed(
                found,
                f"stopped after {script.limits.rejected_cycles} rejections in a row: nobody was"
                " attached to review them",
            )
        if number >= script.limits.cycles:
            state.seen["the limit of cycles"] += 1
            return _failed(
                found, f"stopped after {number} model calls; raise limits.cycles to allow more"
            )
    return _ended(found, script)


def _call(state: TurnState, found: Expected, called: Called) -> bool:
    """Add the events of a call; return whether it ends the turn."""
    log = CallLog()
    found.calls.append(log)
    try:
        log.result = _result(state, called, log)
    except TurnOver as over:
        log.result = Result(INPUT_CANCELLED if over.asked else TURN_ENDED, is_error=True)
        state.seen[over.how] += 1
        return True
    return False


def _result(state: TurnState, called: Called, log: CallLog) -> Result:
    if called.tool is None:
        state.seen["an unknown tool"] += 1
        return Result(f"There is no tool named {called_name(called)!r}.{REST}", is_error=True)
    try:
        return CallOracle(state, called, called.tool, log).play()
    except CallOver as over:
        return Result(over.content, over.is_error)


def called_name(called: Called) -> str:
    """Return the name that the model calls."""
    return called.tool.name if called.tool else "ghost"


def _cut(found: Expected, size: int, over: list[bool]) -> None:
    first = len(found.calls) - size
    found.enders = {first + place for place, ends in enumerate(over) if ends}
    if size > 1:
        found.cut = set(range(first, len(found.calls)))
    found.status = "ended_by_user"


def _failed(found: Expected, error: str) -> Expected:
    found.status, found.error = "failed", error
    return found


def _ended(found: Expected, script: Script) -> Expected:
    match script.ending:
        case "says":
            return found
        case "fails":
            found.seen["a turn that fails"] += 1
            return _failed(found, "the script is at its end")
        case "interrupted":
            found.seen["Ctrl-C while the model speaks"] += 1
            found.status = "ended_by_user"
            return found


def _note_cycle(state: TurnState, script: Script, number: int) -> None:
    """Count the features that a cycle covers."""
    cycle, seen = script.cycles[number - 1], state.seen
    seen["several cycles"] += number > 1
    seen["several calls at once"] += len(cycle) > 1
    ids = [called.id for called in cycle]
    seen["a tool_call_id twice in a cycle"] += len(set(ids)) < len(ids)
    earlier = {called.id for before in script.cycles[: number - 1] for called in before}
    seen["a tool_call_id of an earlier cycle"] += bool(earlier & set(ids))
    seen["a model that is down"] += number == 1 and script.model_is_down
