"""``python -m gatescore``: the command line."""

from gatescore.cli import main

if __name__ == "__main__":
    main()
