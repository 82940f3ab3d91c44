"""The state table of a turn: the stages of a call, which the code uses, and a list of all
transitions.

`Call` changes its stage only through `STAGES`. `ROWS` describes every
transition of the machine with its condition, events and effects. ARCHITECTURE shows the rows, and
tests/turn/test_state_table.py checks that they are complete: every input, effect and next action
occurs in a row, and the rows of calls agree with `STAGES`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple


class Stage(StrEnum):  # strings have a fast hash: stages are looked up for every transition
    """Stages of a call."""

    PERMIT = "PERMIT"
    RUN = "RUN"
    RETURN = "RETURN"
    DELIVER = "DELIVER"
    DONE = "DONE"


class Move(StrEnum):
    """A transition of a call from one stage to another, or within a stage."""

    RUN = "RUN"
    ASK = "ASK"
    RETURN = "RETURN"
    FINISH = "FINISH"
    END = "END"


STAGE_MEANINGS: Final[Mapping[Stage, str]] = {
    Stage.PERMIT: "somebody decides whether it may run",
    Stage.RUN: "its tool runs, and coroutines of it may ask",
    Stage.RETURN: "its tool returned a form, and runs again with the answers",
    Stage.DELIVER: "somebody decides whether the model may read the result",
    Stage.DONE: "it has a response, or this process left it",
}

STAGES: Final[Mapping[Stage, Mapping[Move, Stage]]] = {
    Stage.PERMIT: {
        Move.RUN: Stage.RUN,
        # a `Visit` answers a form that the tool returned, without running the tool
        Move.RETURN: Stage.RETURN,
        Move.FINISH: Stage.DELIVER,  # a resumed turn has a recorded result
        Move.END: Stage.DONE,
    },
    Stage.RUN: {
        Move.ASK: Stage.RUN,
        Move.RETURN: Stage.RETURN,
        Move.FINISH: Stage.DELIVER,
        Move.END: Stage.DONE,
    },
    Stage.RETURN: {
        Move.RUN: Stage.RUN,
        Move.END: Stage.DONE,
    },
    Stage.DELIVER: {
        Move.END: Stage.DONE,
    },
    Stage.DONE: {},
}


class Row(NamedTuple):
    """One transition. `→ D` in `then` opens a decision. Closing a decision also closes its prompt
    or stops its side request.
    """

    number: str
    state: str
    input: str
    condition: str
    then: str
    events: str = "-"
    effects: str = "-"


TURN: Final = (
    Row(
        "T1",
        "new",
        "`TurnRequested`",
        "no limit is reached",
        "model asked",
        "turn_start, config_delta, chat_request",
        "`CallModel`",
    ),
    Row("T2", "loaded", "`TurnResumed`", "open calls", "calls begin (C1 to C6)"),
    Row(
        "T3",
        "loaded",
        "`TurnResumed`",
        "no open calls, the model is next",
        "model asked",
        "-",
        "`CallModel`",
    ),
    Row(
        "T4",
        "loaded",
        "`TurnResumed`",
        "no open calls, complete",
        "over",
        "superseded…, turn_end",
        "`EndTurn`",
    ),
    Row("T5", "loaded", "`TurnResumed`", "no readable start", "over", "closing batch", "`EndTurn`"),
    Row(
        "T6", "model asked", "`ModelAnswered`", "with calls", "calls begin (C1 to C6)", "each part"
    ),
    Row(
        "T7",
        "model asked",
        "`ModelAnswered`",
        "without calls",
        "over",
        "each part, turn_end",
        "`EndTurn`",
    ),
    Row("T8", "model asked", "`ModelFailed`", "-", "over; the turn stays open", "-", "`LeaveOpen`"),
    Row(
        "T9",
        "any",
        "`TurnFailed`, `TimeIsUp`",
        "-",
        "over",
        "closing batch",
        "`StopModel`, `StopTool`…, `EndTurn`",
    ),
    Row(
        "T10",
        "any",
        "`Interrupted`",
        "the user may decide all open questions",
        "over",
        "the model's output, closing batch",
        "as T9",
    ),
    Row(
        "T11",
        "any",
        "`Interrupted`",
        "some are for others",
        "over; suspended",
        "suspended, child…",
        "`Warn`, `StopModel`, `SuspendTurn`",
    ),
    Row(
        "T12",
        "any",
        "`CallBegun`",
        "another program's agent loop makes a call",
        "call begins",
        "turn_start and tool_call_request if new",
    ),
    Row("T13", "any", "`CallLeft`", "-", "call DONE (C24)"),
    Row(
        "T14",
        "any",
        "`LoopEnded`",
        "unfinished calls",
        "over; suspended",
        "suspended, child…",
        "`SuspendTurn`",
    ),
    Row("T15", "any", "`LoopEnded`", "no unfinished calls", "over", "turn_end", "`EndTurn`"),
    Row("T16", "any", "`TimeRead`", "-", "same: new deadlines count from this time"),
    Row("T17", "any", "`TimePassed`", "-", "as T16; passed deadlines expire (D21)"),
    Row(
        "T18",
        "all calls DONE",
        "settle",
        "the model is next, no limit is reached",
        "model asked",
        "-",
        "`CallModel`",
    ),
    Row(
        "T19",
        "all calls DONE",
        "settle",
        "a limit is reached",
        "over",
        "turn_end (failed)",
        "`EndTurn`",
    ),
    Row(
        "T20",
        "any",
        "`rest`",
        "every call waits for an absent person",
        "over; suspended",
        "suspended if `is_ready`, child…",
        "`SuspendTurn`",
    ),
)

CALL: Final = (
    Row(
        "C1",
        "PERMIT",
        "begins",
        "switched off, unreadable or unsafe arguments, permission expired",
        "DONE",
        "tool_call_response (error)",
    ),
    Row("C2", "PERMIT", "begins", "a delivery is recorded as open", "DELIVER → D"),
    Row(
        "C3",
        "PERMIT",
        "begins",
        "a rule or a recorded permission lets it run",
        "RUN",
        "-",
        "`RunTool`",
    ),
    Row(
        "C4",
        "PERMIT",
        "begins",
        "the tool previews its first question, no approval is open",
        "PERMIT",
        "-",
        "`PreviewQuestion`",
    ),
    Row(
        "C5",
        "PERMIT",
        "begins",
        "an unchecked edit is recorded, a rule is a function",
        "PERMIT",
        "-",
        "`PreviewQuestion`",
    ),
    Row("C6", "PERMIT", "begins", "otherwise", "PERMIT → D"),
    Row(
        "C7",
        "PERMIT",
        "`QuestionPreviewed`",
        "the permission is not open yet, or an edit is checked",
        "PERMIT → D",
        "proposal, vote",
    ),
    Row("C8", "PERMIT", "`StartTool`", "-", "RUN", "-", "`RunTool`"),
    Row(
        "C9",
        "PERMIT",
        "`CheckEdit`",
        "-",
        "PERMIT → D",
        "proposal, vote",
        "`PreviewQuestion` if a rule is a function",
    ),
    Row(
        "C10",
        "PERMIT",
        "`Respond`",
        "no, expired, or the prompter failed",
        "DONE",
        "superseded…, tool_call_response",
    ),
    Row(
        "C11",
        "PERMIT, RUN",
        "`ToolReturned`",
        "PERMIT only in a visit",
        "RETURN: a form run begins (row F1)",
    ),
    Row("C12", "RUN", "`ToolAwaits`", "-", "RUN: a form run begins (row F1)"),
    Row("C13", "any", "`FormDropped`", "-", "same; its decision closes", "superseded"),
    Row("C14", "RUN", "form run done", "of a coroutine", "RUN", "-", "`GiveAnswers`"),
    Row("C15", "RETURN", "form run done", "of a returned form", "RUN", "-", "`RunTool`"),
    Row(
        "C16",
        "RUN",
        "`ToolDone`",
        "result policy `unattended` or `skip`",
        "DONE",
        "superseded…, tool_call_response",
    ),
    Row(
        "C17",
        "PERMIT, RUN",
        "`ToolDone`",
        "result policy `ask` or `edit`; PERMIT: see C2",
        "DELIVER → D",
        "superseded…",
    ),
    Row("C18", "DELIVER", "`Respond`", "-", "DONE", "tool_call_response"),
    Row(
        "C19",
        "RUN, RETURN",
        "`Respond`",
        "a reply to the model, or a failed question",
        "DONE",
        "superseded…, tool_call_response",
        "`StopTool`",
    ),
    Row("C20", "RUN", "`ToolQueued`", "-", "same; can change whether the turn may rest"),
    Row(
        "C21",
        "RUN",
        "`ChildTurnRequested`",
        "-",
        "same",
        "child, unless already recorded",
        "`RunChild`",
    ),
    Row(
        "C22",
        "RUN",
        "`ChildTurnChanged`",
        "moving, resting, over",
        "same; can change whether the turn may rest",
    ),
    Row(
        "C23",
        "any",
        "`ChildTurnChanged`",
        "ended by a person",
        "the turn ends (T9)",
        "closing batch",
        "`StopTool`, `EndTurn`",
    ),
    Row(
        "C24",
        "PERMIT, RUN, RETURN, DELIVER",
        "left, or the turn ends",
        "-",
        "DONE; its decisions close",
        "-",
        "`StopTool` if RUN",
    ),
    Row(
        "C25",
        "RUN",
        "`ValueKept`",
        "-",
        "same",
        "call_value, unless already recorded",
        "`ConfirmValue`",
    ),
)

FORM: Final = (
    Row("F1", "question", "reached", "recorded answer, valid", "next position"),
    Row(
        "F2",
        "question",
        "reached",
        "recorded answer, invalid",
        "same; the answer is skipped",
        "-",
        "`Warn`",
    ),
    Row("F3", "question", "reached", "recorded Back", "previous question that a person answered"),
    Row(
        "F4",
        "question",
        "reached",
        "recorded refusal or deadline, the tool handles missing answers",
        "done with `NoAnswer`",
        "-",
        "C14 or C15",
    ),
    Row(
        "F5",
        "question",
        "reached",
        "recorded deadline, the tool does not handle missing answers",
        "call responds (C19)",
    ),
    Row("F6", "question", "reached", "recorded and open", "waits → D"),
    Row(
        "F7",
        "question",
        "reached",
        "recorded and open for a model, now for a person",
        "waits → D",
        "superseded, inquiry_request",
    ),
    Row(
        "F8",
        "question",
        "reached",
        "not recorded",
        "waits → D",
        "inquiry_request (the first one with the form)",
    ),
    Row("F9", "waits", "`UseAnswer`", "-", "next position"),
    Row(
        "F10",
        "waits",
        "`StepBack`",
        "-",
        "previous question that a person answered; the next request has `revises`",
    ),
    Row(
        "F11",
        "waits",
        "`LeaveForm`",
        "the tool handles replies",
        "done with `NoAnswer`",
        "-",
        "C14",
    ),
    Row(
        "F12",
        "waits",
        "`LeaveForm`",
        "the tool does not handle replies",
        "call responds with the marker (C19)",
    ),
    Row(
        "F13",
        "waits",
        "`FailQuestion`",
        "the tool handles missing answers",
        "done with `NoAnswer`",
        "-",
        "C14 or C15",
    ),
    Row(
        "F14",
        "waits",
        "`FailQuestion`",
        "the tool does not handle missing answers",
        "call responds (C19)",
    ),
    Row(
        "F15", "waits", "`Escalate`", "no default", "waits → D", "inquiry_request with `escalates`"
    ),
    Row(
        "F16",
        "waits",
        "`Escalate`",
        "default for absent people",
        "next position",
        "inquiry_request, inquiry_response (default)",
    ),
    Row("F17", "review", "reached", "recorded as approved", "complete"),
    Row(
        "F18",
        "review",
        "reached",
        "recorded Back: an unmatched question repeats a question of this run",
        "previous question",
    ),
    Row("F19", "review", "reached", "recorded reply or deadline", "as F4, F5 and F12"),
    Row("F20", "review", "reached", "no recorded decision", "waits → D"),
    Row("F21", "waits at review", "`SubmitForm`", "-", "complete"),
    Row(
        "F22",
        "complete",
        "reached",
        "a secret was answered before the process died",
        "waits → D",
        "inquiry_request unless one is open",
    ),
    Row("F23", "complete", "reached", "otherwise", "done with the answers", "-", "C14 or C15"),
    Row(
        "F24",
        "waits",
        "`AnsweredElsewhere` with a map",
        "fits the whole form",
        "as F9 for each answer, then F21",
        "inquiry_response…",
    ),
)

DECISION: Final = (
    Row(
        "D1",
        "new",
        "route",
        "rule, remembered, configured or default answer; agreed in the preview",
        "closed",
        "response",
        "next action",
    ),
    Row(
        "D2",
        "new",
        "route",
        "limit, denied, invalid configured answer, too few people",
        "closed",
        "cancelled or skipped",
        "`Warn`",
    ),
    Row(
        "D3",
        "new",
        "route",
        "a person is attached and may decide",
        "line",
        "approval (waiting) if it is one",
    ),
    Row(
        "D4",
        "new",
        "route",
        "nobody is attached, or others have to decide",
        "inbox",
        "approval (waiting) if it is one",
    ),
    Row("D5", "new", "route", "a model decides", "model", "-", "`ConsultAssistant`"),
    Row(
        "D6",
        "line",
        "settle",
        "room on the screen; routed again first if something was written",
        "screen",
        "-",
        "`PromptUser`",
    ),
    Row(
        "D7",
        "screen",
        "`UserReplied`",
        "valid and decides",
        "closed",
        "last vote, response",
        "next action",
    ),
    Row("D8", "screen", "`UserReplied`", "valid yes, more are needed", "routed again", "vote"),
    Row(
        "D9",
        "screen",
        "`UserReplied`",
        "an edit that others decide",
        "routed again, or C9",
        "proposal, vote",
        "`Warn`",
    ),
    Row(
        "D10",
        "screen",
        "`UserReplied`",
        "invalid, first or second time",
        "screen",
        "-",
        "`PromptUser` with the error",
    ),
    Row(
        "D11",
        "screen",
        "`UserReplied`",
        "invalid, third time",
        "closed",
        "cancelled (`backend_error`)",
        "`FailQuestion` or `Respond`",
    ),
    Row(
        "D12",
        "screen",
        "`PromptFailed`",
        "-",
        "closed",
        "cancelled (`backend_error`)",
        "`FailQuestion` or `Respond`",
    ),
    Row(
        "D13",
        "screen",
        "`UserReplied`",
        "this person may not decide",
        "routed again as unattended",
        "-",
        "`Warn`",
    ),
    Row(
        "D14",
        "screen",
        "`UserReplied` with `Unavailable` or `Deferred`",
        "-",
        "routed again: unattended, or left open",
    ),
    Row(
        "D15",
        "line, screen, inbox, model",
        "End Turn",
        "the person may decide everything open",
        "the turn ends (T9)",
        "closing batch",
        "`EndTurn`",
    ),
    Row(
        "D16",
        "screen",
        "End Turn",
        "others have to decide",
        "the turn is left to them (T11)",
        "suspended",
        "`Warn`, `SuspendTurn`",
    ),
    Row(
        "D17",
        "line, screen, inbox, model",
        "`AnsweredElsewhere`",
        "valid",
        "as D7 to D9",
        "as there",
        "`ClosePrompt`, `StopAssistant`",
    ),
    Row(
        "D18",
        "line, screen, inbox, model",
        "`AnsweredElsewhere`",
        "invalid or not allowed",
        "same; the interface reports it",
    ),
    Row(
        "D19",
        "model",
        "`AssistantReplied`",
        "-",
        "closed",
        "answered (`assistant`)",
        "`UseAnswer`, or `Escalate` after a no",
    ),
    Row(
        "D20",
        "model",
        "`AssistantFailed`",
        "-",
        "closed",
        "cancelled (`backend_error`)",
        "`FailQuestion`, or `Escalate`",
    ),
    Row(
        "D21",
        "any",
        "`TimePassed`",
        "at or after its deadline",
        "closed",
        "cancelled (`deadline`), or expired",
        "`FailQuestion` or `Respond`",
    ),
    Row("D22", "line, screen, inbox", "`Noted`", "-", "routed again", "the note", "`ClosePrompt`"),
    Row("D23", "model", "`Noted`", "-", "model", "the note"),
    Row(
        "D24",
        "any",
        "its call or form run ends",
        "-",
        "closed",
        "- (the call writes superseded)",
        "`ClosePrompt` or `StopAssistant`",
    ),
)

ROWS: Final[tuple[tuple[str, tuple[Row, ...]], ...]] = (
    ("Turn", TURN),
    ("Call", CALL),
    ("Form run", FORM),
    ("Decision", DECISION),
)
