"""How large evidence may be. Without any import: the process that shows results need not load NumPy for it."""

MAX_ITEMS = 400
MAX_JSON = 2 << 20
MAX_ARRAYS = 256 << 20
MAX_FILE = 64 << 20
MAX_DRAWS = 1 << 17
MAX_DEPTH = 8  # of lists in lists
