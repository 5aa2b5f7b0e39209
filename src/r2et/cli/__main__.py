"""`python -m r2et.cli`."""

from r2et.cli import main

main()
