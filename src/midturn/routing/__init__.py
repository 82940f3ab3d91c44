"""The choice of who answers: one pure function, one table (`table`), over the policies of the configuration (`policy`)."""
