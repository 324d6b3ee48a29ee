"""What an agent embeds around its loop: budgets, a circuit breaker, a look for fixation."""
