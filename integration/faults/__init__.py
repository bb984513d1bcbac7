"""What the fault tests share: a workload that remembers, a checker that judges, faults with a seed."""
