"""`python -m holdfast` is the same as `holdfast`."""

from holdfast.cli.main import main

if __name__ == "__main__":
    main()
