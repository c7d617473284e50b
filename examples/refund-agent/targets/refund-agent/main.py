"""An agent with tools of its own: they run here, in this process.

It speaks to the model over the API of OpenAI, as an SDK would, at the address
that the environment names. Python's standard library is all it needs.
"""

import json
import os
import sys
import urllib.request

ORDERS = {3: {"bought": "last year", "paid": 90}, 7: {"bought": "yesterday", "paid": 20}}


def lookup_order(order):
    return ORDERS.get(order, {"error": "there is no such order"})


def issue_refund(order, amount):
    # A real agent would call the bank from here.
    with open("refunds.log", "a") as log:
        log.write("order %s: %s\n" % (order, amount))
    return {"refunded": amount}


TOOLS = {"lookup_order": lookup_order, "issue_refund": issue_refund}

NUMBER = {"type": "number"}
DEFINITIONS = [
    {"type": "function", "function": {"name": "lookup_order", "description": "Look an order up.",
        "parameters": {"type": "object", "properties": {"order": NUMBER}, "required": ["order"]}}},
    {"type": "function", "function": {"name": "issue_refund", "description": "Pay money back.",
        "parameters": {"type": "object", "properties": {"order": NUMBER, "amount": NUMBER}, "required": ["order", "amount"]}}},
]


def ask(messages):
    request = urllib.request.Request(
        os.environ["OPENAI_BASE_URL"] + "/chat/completions",
        json.dumps({"model": "example-model", "messages": messages, "tools": DEFINITIONS}).encode(),
        {"Content-Type": "application/json", "Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]})
    with urllib.request.urlopen(request) as reply:
        return json.load(reply)["choices"][0]["message"]


messages = [{"role": "system", "content": "You refund what was bought within 30 days."},
            {"role": "user", "content": sys.stdin.read()}]
while True:
    said = ask(messages)
    messages.append(said)
    if not said.get("tool_calls"):
        print(said["content"])
        break
    for call in said["tool_calls"]:
        arguments = json.loads(call["function"]["arguments"])
        result = TOOLS[call["function"]["name"]](**arguments)
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": json.dumps(result)})
