"""`midturn demo`: a complete turn with a scripted model, without an API key or a network."""
