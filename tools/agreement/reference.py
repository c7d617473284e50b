"""Kappa as scikit-learn computes it and its interval as statsmodels does, of random
tables, one JSON line each. The first argument is the seed."""
import json
import random
import sys

from sklearn.metrics import cohen_kappa_score
from statsmodels.stats.inter_rater import cohens_kappa

WEIGHTS = {"unweighted": None, "linear": "linear", "quadratic": "quadratic"}
rng = random.Random(int(sys.argv[1]))
tables = [[[88, 14, 18], [10, 40, 10], [2, 6, 12]], [[20, 5], [10, 15]]]
while len(tables) < 150:
    size = rng.randint(2, 6)
    tables.append([[rng.randint(0, 3) + (rng.randint(0, 30) if i == j else 0) for j in range(size)] for i in range(size)])
for counts in tables:
    pairs = [(i, j) for i, row in enumerate(counts) for j, n in enumerate(row) for _ in range(n)]
    if len({i for pair in pairs for i in pair}) < 2:
        continue
    first, second = zip(*pairs)
    for name, weights in WEIGHTS.items():
        value = cohen_kappa_score(first, second, labels=list(range(len(counts))), weights=weights)
        line = {"counts": counts, "weights": name, "value": value, "low": 0, "high": 0, "interval": False}
        # statsmodels calls other weights by the same names in some versions: no interval then.
        found = cohens_kappa(counts, wt=weights)
        if abs(found.kappa - value) < 1e-9 and found.std_kappa == found.std_kappa:
            line.update(low=found.kappa_low, high=found.kappa_upp, interval=True)
        print(json.dumps(line))
