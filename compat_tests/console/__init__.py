"""The console and the calls that it is made of, against what the official client did."""
