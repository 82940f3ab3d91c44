"""The events of a conversation, one small class a kind."""

from midturn.core.events.approval import Approval
from midturn.core.events.base import Event
from midturn.core.events.chat import ChatRequest, ChatResponse
from midturn.core.events.inquiry import (
    AnsweredBy,
    AskedForm,
    CancelReason,
    InquiryAnswered,
    InquiryCancelled,
    InquiryRedacted,
    InquiryRequest,
    InquiryResponse,
)
from midturn.core.events.opaque import OpaqueEvent
from midturn.core.events.tool_call import ToolCallRequest, ToolCallResponse
from midturn.core.events.turn import ConfigDelta, TurnEnd, TurnStart

__all__ = [
    "AnsweredBy",
    "Approval",
    "AskedForm",
    "CancelReason",
    "ChatRequest",
    "ChatResponse",
    "ConfigDelta",
    "Event",
    "InquiryAnswered",
    "InquiryCancelled",
    "InquiryRedacted",
    "InquiryRequest",
    "InquiryResponse",
    "OpaqueEvent",
    "ToolCallRequest",
    "ToolCallResponse",
    "TurnEnd",
    "TurnStart",
]
