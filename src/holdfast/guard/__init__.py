"""What an agent puts around its loop: budgets, a circuit breaker, and a check for fixation."""
