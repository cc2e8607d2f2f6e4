"""The tests. A package only so that what they share is imported as ``tests.support``; pytest collects each module by its file."""
