"""What `python -m evertick` does: the same as `evertick`."""

from evertick.cli import main

if __name__ == "__main__":
    main()
