"""The REST API and the decision explorer: what people and programs ask Fleet over HTTP.

Answers come from stores and from the decision history; what a decision means is left to `fleet.explain`. Nothing is
serve_app yet.
"""
