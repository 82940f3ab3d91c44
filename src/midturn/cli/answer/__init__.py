"""`midturn answer`: answers one open question, or a whole form (spec 7.5)."""
