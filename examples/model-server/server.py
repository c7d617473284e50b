"""A small model server for tutorials and tests: no key, no network, no model.

It speaks OpenAI's chat completions and Anthropic's messages, streamed and not,
with tool calls, and answers by rules, so that the same question has the same
answer every time:

  python3 server.py [PORT]          # 8123; prints its address when it listens

The rules, in their order:
  1. A request that ends in a tool's result is answered with a sentence about it.
  2. A request that offers a tool of which a word of the name is in the question
     ("order" of lookup_order) calls it, with numbers and words of the question as
     arguments.
  3. A question of FACTS is answered with the fact.
  4. A judge's question (docs/formats/judge.md) gets a verdict: whether the answer is polite.
  5. Anything else is answered with "I do not know."
"""

import itertools
import json
import re
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

FACTS = [("capital of norway", "Oslo"), ("capital of france", "Paris"), ("17 + 25", "42"), ("opposite of hot", "cold"),
         ("nothing else: tallystick", "tallystick"), ("pear or apple", "apple"), ("hello", "Hello! How can I help?")]

ids = itertools.count(1)


def text_of(content):
    """The words of a message: a text, or parts of which some are text."""
    if isinstance(content, str):
        return content
    return "\n".join(text_of(p.get("text", p.get("content", ""))) for p in content or [] if isinstance(p, dict))


def result_of(message):
    """What a tool answered, if the message is that; None if not."""
    if message.get("role") == "tool":
        return text_of(message.get("content"))
    parts = message.get("content")
    results = [text_of(p.get("content")) for p in parts if p.get("type") == "tool_result"] if isinstance(parts, list) else []
    return "\n".join(results) if results else None


def tools_of(request):
    """Names and schemas of the tools, in either API's form."""
    for tool in request.get("tools") or []:
        function = tool.get("function", tool)
        yield function["name"], function.get("parameters") or function.get("input_schema") or {}


def arguments_of(schema, question):
    numbers, words = iter(re.findall(r"\d+(?:\.\d+)?", question)), iter(re.findall(r"[A-Z]\w+", question)[1:] + ["unknown"])
    arguments = {}
    for name, value in (schema.get("properties") or {}).items():
        if value.get("type") in ("integer", "number"):
            number = next(numbers, "0")
            arguments[name] = int(number) if value["type"] == "integer" else float(number)
        else:
            arguments[name] = next(numbers, None) or next(words, "unknown")
    return arguments


def answer(request):
    """Returns a text and a list of calls, of which one is empty."""
    messages = [m for m in request.get("messages") or [] if m.get("role") != "system"]
    result = result_of(messages[-1]) if messages else None
    if result is not None:
        return "Here is what I found: " + result, []
    question = text_of(messages[-1].get("content")) if messages else ""
    if "ANSWER UNDER JUDGEMENT" in question:
        said = question.split("ANSWER UNDER JUDGEMENT", 1)[1].lower()
        polite = any(word in said for word in ("please", "sorry", "here is what i found"))
        return json.dumps({"score": int(polite), "passed": polite, "reason": "It is polite." if polite else "It is not polite."}), []
    for name, schema in tools_of(request):
        if any(word in question.lower() for word in name.lower().split("_") if len(word) > 3):
            return "", [(name, arguments_of(schema, question))]
    for key, fact in FACTS:
        if key in question.lower():
            return fact, []
    return "I do not know.", []


def tokens(value):
    return max(1, len(json.dumps(value)) // 4)


def openai_reply(request, text, calls):
    n = next(ids)
    message = {"role": "assistant", "content": text or None}
    if calls:
        message["tool_calls"] = [{"id": f"call_{n}_{i}", "type": "function", "function": {"name": name, "arguments": json.dumps(args)}}
                                 for i, (name, args) in enumerate(calls)]
    used = {"prompt_tokens": tokens(request["messages"]), "completion_tokens": tokens(message)}
    used["total_tokens"] = used["prompt_tokens"] + used["completion_tokens"]
    return {"id": f"chatcmpl-{n}", "object": "chat.completion", "created": 0, "model": request["model"], "usage": used,
            "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}]}


def openai_stream(reply, include_usage):
    message, head = reply["choices"][0]["message"], {k: reply[k] for k in ("id", "created", "model")} | {"object": "chat.completion.chunk"}

    def chunk(delta, finish=None):
        return None, head | {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    yield chunk({"role": "assistant", "content": ""})
    for word in re.findall(r"\S+\s*", message["content"] or ""):
        yield chunk({"content": word})
    for i, call in enumerate(message.get("tool_calls", [])):
        yield chunk({"tool_calls": [call | {"index": i}]})
    yield chunk({}, reply["choices"][0]["finish_reason"])
    if include_usage:
        yield None, head | {"choices": [], "usage": reply["usage"]}
    yield None, "[DONE]"


def anthropic_reply(request, text, calls):
    n = next(ids)
    content = [{"type": "text", "text": text}] if text else []
    content += [{"type": "tool_use", "id": f"toolu_{n}_{i}", "name": name, "input": args} for i, (name, args) in enumerate(calls)]
    return {"id": f"msg_{n}", "type": "message", "role": "assistant", "model": request["model"], "content": content,
            "stop_reason": "tool_use" if calls else "end_turn", "stop_sequence": None,
            "usage": {"input_tokens": tokens(request["messages"]), "output_tokens": tokens(content)}}


def anthropic_stream(reply):
    yield "message_start", {"type": "message_start", "message": reply | {"content": [], "stop_reason": None}}
    for i, block in enumerate(reply["content"]):
        empty = block | ({"text": ""} if block["type"] == "text" else {"input": {}})
        yield "content_block_start", {"type": "content_block_start", "index": i, "content_block": empty}
        delta = {"type": "text_delta", "text": block["text"]} if block["type"] == "text" else {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        yield "content_block_delta", {"type": "content_block_delta", "index": i, "delta": delta}
        yield "content_block_stop", {"type": "content_block_stop", "index": i}
    yield "message_delta", {"type": "message_delta", "delta": {"stop_reason": reply["stop_reason"], "stop_sequence": None}, "usage": {"output_tokens": reply["usage"]["output_tokens"]}}
    yield "message_stop", {"type": "message_stop"}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        try:
            request = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
            text, calls = answer(request)
        except (ValueError, KeyError, TypeError, AttributeError) as e:
            return self.send(400, {"error": {"type": "invalid_request_error", "message": str(e)}})
        path = self.path.rstrip("/")
        if path.endswith("/chat/completions"):
            reply = openai_reply(request, text, calls)
            events = openai_stream(reply, (request.get("stream_options") or {}).get("include_usage"))
        elif path.endswith("/messages"):
            reply = anthropic_reply(request, text, calls)
            events = anthropic_stream(reply)
        else:
            return self.send(404, {"error": {"type": "not_found_error", "message": self.path}})
        if not request.get("stream"):
            return self.send(200, reply)
        body = "".join((f"event: {name}\n" if name else "") + f"data: {data if isinstance(data, str) else json.dumps(data)}\n\n" for name, data in events)
        self.send(200, body, "text/event-stream")

    def send(self, status, body, kind="application/json"):
        data = (body if isinstance(body, str) else json.dumps(body)).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args):
        pass


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 8123), Handler)
    print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
    server.serve_forever()
