"""Asks the model what it was asked, streamed, with the official SDK."""

import os
import sys

from openai import OpenAI

pieces = OpenAI().chat.completions.create(
    model="smollm2-135m-instruct",
    messages=[{"role": "user", "content": sys.stdin.read()}],
    max_tokens=24,
    temperature=float(os.environ.get("TEMPERATURE", "0")),
    stream=True,
    stream_options={"include_usage": True},
)
print("".join(p.choices[0].delta.content or "" for p in pieces if p.choices))
