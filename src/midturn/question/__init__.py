"""A question and its answer: how it is written, checked, kept, and asked in a form. All pure."""
