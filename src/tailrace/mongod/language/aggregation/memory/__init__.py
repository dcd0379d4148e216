"""What stages that need all rows first may hold in memory, and where they store the rest.

A stage counts what it holds in a `Holding`. Above its limit, or while all stages of the server together hold
too much, it stores rows in a file (`Runs`, `HeldRows`), or fails if the command may not use the disk.
"""
