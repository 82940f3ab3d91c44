"""Who answers: one pure function, one table (`table`), over what configuration says (`policy`)."""
