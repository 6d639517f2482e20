"""Tables of many questions about packed trees."""
