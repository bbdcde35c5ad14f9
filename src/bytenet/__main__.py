"""`python -m bytenet`: the command line where the package is not installed."""

from bytenet.cli import main

if __name__ == "__main__":  # processes that the command starts import this file too
    main()
