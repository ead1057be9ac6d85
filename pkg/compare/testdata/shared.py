# The golden values of TestSharedProblemsOfNumPy: python3 shared.py, with numpy 2.4.6.
import numpy as np

differences = np.array([
    [.5, 0, .25, 1, -.25, 0, .75, .5, 0, -.5],
    [.25, 0, 0, .75, -.5, .25, .5, .25, .25, -.25],
    [.5, -.25, .5, 1, 0, .25, .5, .75, 0, 0],
])
seeds, problems = differences.shape
rng = np.random.default_rng(1)
means = np.array([
    differences[rng.integers(seeds, size=seeds)][:, rng.integers(problems, size=problems)].mean() for _ in range(200_000)
])
low, high = np.quantile(means, [.025, .975])
of_problems = differences.mean(axis=0)
print("mean ", differences.mean())
print("low  ", low)
print("high ", high)
print("p    ", 2 * min((means <= 0).mean(), (means >= 0).mean()))
print("d_z  ", of_problems.mean() / of_problems.std(ddof=1))
