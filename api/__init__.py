"""The REST API: explanations, simulations, history and objects over HTTP.

Answers come from watched objects and from the decision history; `fleet.explain` explains the decisions.
"""
