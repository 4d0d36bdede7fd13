"""Bookings on clusters before the hub shows them."""
