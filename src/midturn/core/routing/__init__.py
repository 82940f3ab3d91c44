"""Who answers: one pure function, one table (spec 2.3)."""
