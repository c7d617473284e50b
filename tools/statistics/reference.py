"""Random p-values with Holm's correction by statsmodels, and Wilson intervals."""
import json
import random
import sys

from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint

random.seed(int(sys.argv[1]))
for _ in range(400):
    p = [random.choice([random.random(), random.random() ** 6, 0.01]) for _ in range(random.randint(1, 40))]
    print(json.dumps({"p": p, "holm": list(multipletests(p, method="holm")[1])}))
for _ in range(400):
    n = random.randint(1, 3000)
    k = random.randint(0, n)
    low, high = proportion_confint(k, n, alpha=0.05, method="wilson")
    print(json.dumps({"k": k, "n": n, "low": low, "high": high}))
