"""How fast the decision core is, whether that is fast enough, and whether it became slower: `make bench`.

Nothing is measured before the picks are right. The suite runs the part that checks; timings are for this program only.
"""
