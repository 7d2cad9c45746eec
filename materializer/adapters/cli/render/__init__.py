"""What commands show: results as text for people and as JSON for programs."""
