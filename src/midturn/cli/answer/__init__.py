"""`midturn answer`: answers one open question, or a whole form."""
