"""What every room needs: errors, types, the clock, the purgatory, tasks, configuration."""
