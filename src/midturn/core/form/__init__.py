"""Forms: several questions in one round, walked by a pure state machine (spec 3)."""

from midturn.core.form.form import Form

__all__ = ["Form"]
