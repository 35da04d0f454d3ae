"""Named experiments at the budgets smoke, laptop and paper."""
