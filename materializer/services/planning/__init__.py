"""From what is asked and what is dirty to the plan of a run: decided, never written."""
