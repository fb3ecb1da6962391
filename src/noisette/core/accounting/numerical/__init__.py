"""Certified numerical privacy accounting: brackets that hold the true ε or δ.

Describe each step by a dominating pair (`pairs`, `noise_pairs`, `sampled_pairs`), list the
compositions of all neighbour orders, and ask for a bracket::

    step = PoissonSampled(GaussianPair(1 / 1.0), 0.01)
    orders = [[(step, step, 1000)], [(step.swapped(), step.swapped(), 1000)]]
    lower, upper = epsilon_bracket(orders, delta=1e-5)
"""
