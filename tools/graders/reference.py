"""Writes pairs of texts with what the reference programs say of them, one JSON object
a line: {"measure", "answer", "right", "want"}. SQuAD's script is not a package; its
few lines are described in its paper and restated here."""
import collections
import json
import random
import re
import string
import sys

import sacrebleu
from rouge_score import rouge_scorer

random.seed(int(sys.argv[1]) if len(sys.argv) > 1 else 7)
ENGLISH = """The a an committee decided on Tuesday that new bridge costs 3.5 million 1,000 2-3 will be
opened in 2031 by the mayor of city. don't can't U.S. e.g. (see note) [1] "quoted" 50% $40 C++ x=y a/b
well-known state-of-the-art ... -- ; : ! ? end. A.B. &amp; &quot;x&quot; <skipped> 10-20 -5 .5 5.""".split()
FOREIGN = "Über Straße naïve ΟΔΟΣ οδός İstanbul ı 東京 都 привет мир، سلام \u00a0 \u3000 ½ ٣ e\u0301 𝒳 😀".split(" ")


def words(vocabulary, most):
    return " ".join(random.choice(vocabulary) for _ in range(random.randint(0, most)))


def mutate(text):
    parts = text.split(" ")
    for _ in range(random.randint(0, 4)):
        i = random.randrange(len(parts) + 1)
        match random.randint(0, 3):
            case 0:
                parts.insert(i, random.choice(ENGLISH))
            case 1:
                parts = parts[:i] + parts[i + 1:]
            case 2:
                random.shuffle(parts)
            case 3:
                parts = [p.upper() for p in parts]
    return " ".join(parts)


def normalise(s):
    s = "".join(c for c in s.lower() if c not in set(string.punctuation))
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", s).split())


def f1(answer, gold):
    a, g = normalise(answer).split(), normalise(gold).split()
    if not a or not g:
        return float(a == g)
    same = sum((collections.Counter(a) & collections.Counter(g)).values())
    return 2 * (same / len(a)) * (same / len(g)) / (same / len(a) + same / len(g)) if same else 0.0


rouge = rouge_scorer.RougeScorer(["rougeL"], use_stemmer=False)


def emit(measure, answer, right, want):
    print(json.dumps({"measure": measure, "answer": answer, "right": right, "want": want}))


for i in range(600):
    vocabulary = ENGLISH + FOREIGN if i % 2 else ENGLISH
    right = [words(vocabulary, 40) for _ in range(random.randint(1, 3))]
    answer = mutate(random.choice(right)) if random.random() < 0.8 else words(vocabulary, 40)
    emit("exact_match", answer, right, max(float(normalise(answer) == normalise(r)) for r in right))
    emit("token_f1", answer, right, max(f1(answer, r) for r in right))
    emit("bleu", answer, right, sacrebleu.sentence_bleu(answer, right).score / 100)
    if not i % 2:  # rouge-score reads a to z only
        emit("rouge_l", answer, right, max(rouge.score(r, answer)["rougeL"].fmeasure for r in right))
