"""Forms: several questions in one round, walked by a pure state machine."""

from midturn.core.form.form import Form
from midturn.core.form.misplaced import MisplacedReplyError
from midturn.core.form.steps import Ask, Cancelled, Completed, FormEnded, Review, Step
from midturn.core.form.walker import FormReply, FormWalker

__all__ = ["Ask", "Cancelled", "Completed", "Form", "FormEnded", "FormReply", "FormWalker", "MisplacedReplyError", "Review", "Step"]
