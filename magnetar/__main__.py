"""`python -m magnetar` is the same as the console script `magnetar`."""

from magnetar.launcher import main

if __name__ == "__main__":
    main()
