"""``python -m oplab.cli`` is ``oplab``."""

from oplab.cli.main import main

main()
