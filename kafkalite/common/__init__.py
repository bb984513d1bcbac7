"""Used by every room: errors, types, the clock, the purgatory, tasks, configuration."""
