"""Pages about packed trees."""
