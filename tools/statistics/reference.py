"""Random p-values with Holm's correction by statsmodels, Wilson intervals, sample sizes
and minimum detectable differences of paired comparisons.

statsmodels has no sample size for McNemar's test. Of one pair, the difference of the two
outcomes is 1, -1 or 0: its mean is d and, with a share D of discordant pairs, its variance
is D if the rates are equal and D - d*d if they differ by d. That is what
normal_sample_size_one_tail takes: a mean, and a standard deviation under the null and one
under the alternative. One tail of alpha/2 is the two-sided test of Connor (1987) without
the other tail, which both leave out. power is by normal_power_het, of a whole number of
pairs.
"""
import json
import random
import sys

from statsmodels.stats.multitest import multipletests
from statsmodels.stats.power import normal_power_het, normal_sample_size_one_tail
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

for _ in range(400):
    discordant = random.uniform(0.02, 1)
    difference = discordant * random.uniform(0.05, 1)
    null, alternative = discordant ** 0.5, max(0.0, discordant - difference ** 2) ** 0.5
    pairs = normal_sample_size_one_tail(difference, 0.8, 0.025, std_null=null, std_alternative=alternative)
    print(json.dumps({"difference": difference, "discordant": discordant, "pairs": float(pairs)}))
# The least difference that a number of pairs shows: by bisection on the power. Where the
# largest difference, all of the discordant pairs, is not found, there is none: 1.
for _ in range(400):
    discordant, pairs = random.uniform(0.02, 1), random.randint(1, 5000)

    def power(d):
        alternative = max(1e-300, discordant - d * d) ** 0.5
        return normal_power_het(d, pairs, 0.025, std_null=discordant ** 0.5, std_alternative=alternative, alternative="larger")

    if power(discordant) < 0.8:
        print(json.dumps({"discordant": discordant, "of": pairs, "detectable": 1.0}))
        continue
    low, high = 0.0, discordant
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (low, middle) if power(middle) >= 0.8 else (middle, high)
    print(json.dumps({"discordant": discordant, "of": pairs, "detectable": high}))
