"""The files of the decision explorer, served under `/ui/`, and of the API page at `/docs`."""
