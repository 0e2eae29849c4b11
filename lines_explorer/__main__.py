"""``python -m lines_explorer VERB``: the command line."""

from lines_explorer.cli import run

if __name__ == "__main__":
    run()
