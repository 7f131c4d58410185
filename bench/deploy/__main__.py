"""`python -m bench.deploy`."""

import sys

from bench.deploy.command import main

if __name__ == "__main__":
    sys.exit(main())
