"""What was decided: recorded attempts, their replay, and the decisions of other schedulers."""
