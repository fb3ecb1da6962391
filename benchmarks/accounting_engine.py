"""Time the certified bracket on five settings of DP-SGD against dp-accounting (one thread)."""

import time

from noisette.accounting.numerical import Gaussian, PoissonSampled, epsilon_bracket, two_orders
from noisette.accounting.numerical.profile import profile

SETTINGS = [
    (0.01, 1.0, 1000, 1e-5),
    (0.004, 0.8, 15_000, 1e-5),
    (0.05, 2.0, 2000, 1e-6),
    (0.001, 0.5, 10_000, 1e-6),
    (0.001, 0.8, 100_000, 1e-6),
]


def median_ms(run, repeats):
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(1e3 * (time.perf_counter() - start))
    return sorted(times)[len(times) // 2]


def main():
    from dp_accounting.pld import privacy_loss_distribution as pld

    for rate, z, count, delta in SETTINGS:

        def ours(rate=rate, z=z, count=count, delta=delta):
            profile.cache_clear()
            return epsilon_bracket(
                two_orders((PoissonSampled(Gaussian(1 / z), rate), count)), delta
            )

        def theirs(rate=rate, z=z, count=count, delta=delta):
            step = pld.from_gaussian_mechanism(
                z, sampling_prob=rate, value_discretization_interval=1e-4
            )
            return step.self_compose(count).get_epsilon_for_delta(delta)

        a, b = median_ms(ours, 9), median_ms(theirs, 1)
        print(f"{rate} {z} {count} {delta}: {ours()} ours {a:.1f} ms, dp-accounting {b:.0f} ms")


if __name__ == "__main__":
    main()
