"""`midturn chat`: a loop of turns in one conversation."""
