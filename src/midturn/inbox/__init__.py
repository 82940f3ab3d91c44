"""Open questions, as every interface uses them: list, answer question by question, notify, and go on with turns that are answered."""
