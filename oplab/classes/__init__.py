"""A whole class: reads its submissions, grades each different answer once, and keeps every verdict in a folder."""
