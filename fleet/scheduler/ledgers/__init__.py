"""What is booked on clusters before the hub shows it."""
