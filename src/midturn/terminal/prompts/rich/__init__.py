"""Rich prompts: single keys and redrawn rows. This package does not access a terminal."""
