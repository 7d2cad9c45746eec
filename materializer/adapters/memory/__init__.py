"""Our own ports in memory: the journal's store, and what a refresh or a switch touches; neither Spark nor Delta is loaded.

They work like what they stand for, only smaller: a commit is a compare-and-swap, a table carries numbers and plans, and a
bucket has one value. Tests run on them instead of on mocks.
"""
