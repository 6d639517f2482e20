"""What makes records, reference pages and validation; it is no part of the package."""
