"""`python -m privbandit` and the command `privbandit`."""

import sys

from privbandit.cli import main

if __name__ == "__main__":
    sys.exit(main())
