"""The damage matrix: every kind of file × every kind of harm × a stopped, killed or running server, judged by receipts.

`scenery` makes the data folders with a real server and keeps the receipts of what it acknowledged. `harm` damages one
file. `exposure` says which receipts the harm may have touched, by reading the undamaged files independently of the
server. `judge` starts the server on what is left and compares. `cases` runs one cell of the matrix and says what was
wrong.

    make damage ROUNDS=20 ARGS="--seed 7"
"""
