"""Rich prompts: single keys and redrawn rows. The presenters need no terminal."""
