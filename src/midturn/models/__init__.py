"""Language models behind one protocol (spec 4b): providers, a script, a function; and how often to try again."""
