import sys

from oplab.toolchain.headers import main

sys.exit(main())
