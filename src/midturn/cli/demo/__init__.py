"""`midturn demo`: the whole thing with a scripted model, no key and no network."""
