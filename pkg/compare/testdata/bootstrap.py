# The golden values of TestBootstrapOfSciPy: python3 bootstrap.py, with scipy 1.17.1.
import numpy as np
from scipy.stats import bootstrap

method = np.array([.75, 1, .5, .25, 1, .75, 0, .5, 1, 1, .25, .75, .5, 1, .75, .25, .5, 1, .75, .5])
baseline = np.array([.5, 1, .25, .5, .75, .75, 0, .25, 1, .5, .25, .5, .75, .75, .5, .25, .25, .75, 1, 0])
result = bootstrap(
    (method, baseline), lambda a, b, axis: np.mean(a - b, axis=axis), paired=True, vectorized=True,
    n_resamples=200_000, method="percentile", rng=np.random.default_rng(1),
)
means = result.bootstrap_distribution
difference = method - baseline
print("mean          ", difference.mean())
print("low           ", result.confidence_interval.low)
print("high          ", result.confidence_interval.high)
print("p             ", 2 * min((means <= 0).mean(), (means >= 0).mean()))
print("d_z           ", difference.mean() / difference.std(ddof=1))
print("Cliff's delta ", np.sign(method[:, None] - baseline[None, :]).mean())
