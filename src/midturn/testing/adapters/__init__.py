"""A conformance suite for adapters of other frameworks: stories that each adapter has to play as midturn's own loop does."""
