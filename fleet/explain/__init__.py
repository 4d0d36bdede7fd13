"""Explanations of decisions, computed after the fact from what the plugins recorded.

Decisions are made by the one decision function only, without side effects: an answer, a fix, a simulation or a replay
is a value computed from values. Layers, from the bottom: `facts` about one decision, `whatif` (edits, scenarios,
comparisons), `fixes` (edits that help, verified), `replay` (recorded decisions, decided again) and `answer` (the
object that REST returns and the command line prints).
"""
