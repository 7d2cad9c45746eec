"""The code that runs in a task: operators, sensors, triggers, and the process of a command."""
