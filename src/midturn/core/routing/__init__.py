"""Who answers: one pure function, one table."""

from midturn.core.routing.policy import DetachedPolicies, DetachedPolicy, QuestionPolicy, Target, TargetKind, ToolPolicy, Words
from midturn.core.routing.table import AskAssistant, AskUser, Fail, Route, Suspend, UseCached, UseConfigured, UseDefault, route

__all__ = [
    "AskAssistant",
    "AskUser",
    "DetachedPolicies",
    "DetachedPolicy",
    "Fail",
    "QuestionPolicy",
    "Route",
    "Suspend",
    "Target",
    "TargetKind",
    "ToolPolicy",
    "UseCached",
    "UseConfigured",
    "UseDefault",
    "Words",
    "route",
]
