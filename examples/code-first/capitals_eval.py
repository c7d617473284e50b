"""An agent on the official OpenAI SDK, evaluated where it is written: python capitals_eval.py

The task runs in tally's sandbox: the SDK finds the gateway in OPENAI_BASE_URL, and what
the model says is recorded. Pass the flags of the first run, which asks the model:

    python capitals_eval.py --live --max-cost 0.10
"""

import sys

from tallystick import Eval


def answer(question):
    from openai import OpenAI

    reply = OpenAI().chat.completions.create(model="small-model", messages=[{"role": "user", "content": question}])
    return reply.choices[0].message.content


if __name__ == "__main__":
    Eval(
        "capitals",
        data=[
            {"id": "france", "input": "The capital of France?", "expected": "Paris"},
            {"id": "norway", "input": "The capital of Norway?", "expected": "Oslo"},
        ],
        task=answer,
        scorers=["squad", {"grader": "regex", "pattern": "[A-Z][a-z]+", "name": "one-word"}],
        sandbox=True,
        flags=sys.argv[1:],
    )
