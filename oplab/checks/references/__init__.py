"""Right results that several chapters share, with known mistakes. Like the chapters' checks they are hidden from an isolated learner, and
``collect_NAME`` gets no import of them that it does not use."""
