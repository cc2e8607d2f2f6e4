"""A learner's folder without the repository, and how it, or a clone, gets a newer course: ``oplab init`` and ``oplab update``."""
