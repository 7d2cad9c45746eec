"""The demo: a year of real flights, arriving in the order in which they became known."""
