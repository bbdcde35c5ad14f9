"""`python -m bytenet`: the command line where the package is not installed."""

from bytenet.cli import main

main()
