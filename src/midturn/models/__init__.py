"""Language models behind one protocol: providers, a script, a function; and how often to try again."""
