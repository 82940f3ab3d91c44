"""The terminal: prompts on the controlling terminal, and the output of turns."""
