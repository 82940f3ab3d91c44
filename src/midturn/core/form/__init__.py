"""Forms: several questions in one round, walked by a pure state machine. What walks them is loaded where one is asked."""

from midturn.core.form.form import Form

__all__ = ["Form"]
