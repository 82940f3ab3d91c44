"""`midturn acp`: our assistant for editors; and agents of others that speak the Agent Client Protocol."""
