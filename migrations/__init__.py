"""How the tables of the decision history came to be, step by step.

The tables themselves are defined with the history; a migration never imports today's code. There is no step yet.
"""
