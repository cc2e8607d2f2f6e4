"""The course as data: its manifest, the stubs made from its solutions, and the learner's files."""
