"""The command lines of docs/ and README.md: every one is understood by the program, and most of them run."""
