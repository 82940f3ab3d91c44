"""What a person is shown and what their keys mean: pure presenters, key in, rows out."""
