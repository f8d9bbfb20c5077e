"""`python -m teia` is the same as `teia`."""

from teia.cli.start import run

if __name__ == "__main__":
    run()
