# An agent with a tool in its own process, on the official SDK of Anthropic, streamed.
import sys
from anthropic import Anthropic

ORDERS = {"7": "shipped on Monday", "12": "lost"}
TOOLS = [{"name": "lookup_order", "description": "Status of an order",
          "input_schema": {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}}]

client = Anthropic()
messages = [{"role": "user", "content": sys.stdin.read()}]
while True:
    with client.messages.stream(model="claude-x", max_tokens=500, system="You are the help desk of a shop.", messages=messages, tools=TOOLS) as stream:
        said = stream.get_final_message()
    messages.append({"role": "assistant", "content": [b.to_dict() for b in said.content]})
    if said.stop_reason != "tool_use":
        break
    messages.append({"role": "user", "content": [{"type": "tool_result", "tool_use_id": b.id, "content": ORDERS.get(b.input["id"], "unknown")}
                                                 for b in said.content if b.type == "tool_use"]})
answer = said.content[0].text
print(answer)
