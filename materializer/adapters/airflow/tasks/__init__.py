"""What runs when a task does: operators, sensors, triggers, and the process of a command."""
