"""`midturn query`: one turn, and everything that its flags say about it."""
