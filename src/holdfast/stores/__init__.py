"""Where things lie on disk: the operation log, the trash, saved plans, locks."""
