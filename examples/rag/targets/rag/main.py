"""An agent that looks things up before it answers: retrieval-augmented generation.

Models are asked through the gateway, at the addresses that the environment names. The
vector store and the web page are asked over HTTP, as anywhere else: the variables for
proxies and certificates are in the environment, and urllib reads them. Python's
standard library is all it needs.
"""

import html
import json
import os
import re
import sys
import urllib.request

STORE = os.environ["STORE"]


def post(url, body, headers=()):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json", **dict(headers)})
    with urllib.request.urlopen(request) as reply:
        return json.load(reply)


def model(path, body):
    return post(os.environ["OPENAI_BASE_URL"] + path, body, {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]})


question = sys.stdin.read().strip()
vector = model("/embeddings", {"model": "handbook-vectors", "input": [question]})["data"][0]["embedding"]

# The key is a placeholder: the proxy puts the real one in.
found = post(STORE + "/collections/handbook/search", {"vector": vector, "limit": 1}, {"Api-Key": os.environ["STORE_KEY"]})
with urllib.request.urlopen(found["hits"][0]["url"]) as reply:
    page = html.unescape(re.sub(r"<[^>]+>", " ", reply.read().decode()))

answer = model("/chat/completions", {"model": "handbook-answers", "max_tokens": 200, "messages": [
    {"role": "system", "content": "Answer from the page and nothing else.\n\n" + " ".join(page.split())},
    {"role": "user", "content": question}]})
print(answer["choices"][0]["message"]["content"])
