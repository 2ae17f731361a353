"""``python -m tamis`` is the program ``tamis``."""

from tamis.cli.main import main

if __name__ == "__main__":
    main()
