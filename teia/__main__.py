"""`python -m teia` is the same as `teia`."""

from teia.cli.main import run

if __name__ == "__main__":
    run()
