"""A provider of models on the loopback that allows some calls at once and has bad moments.

    server.py PORT-FILE COUNTS-FILE AT-ONCE

It answers OpenAI's chat API with the last word of the question. To a call too many it says
429 with Retry-After; others it answers with 500, not at all for longer than a client waits,
or with a stream or body that breaks off. SIGTERM writes what it counted.
"""
import json, os, signal, sys, threading, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

lock = threading.Lock()
allowed = int(sys.argv[3])
counts = {"asked": 0, "full": 0, "under": 0, "most": 0, "whole": {}, "bad": 0}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with lock:
            counts["asked"] += 1
            nth = counts["asked"]
            busy = counts["under"] >= allowed
            if busy:
                counts["full"] += 1
            else:
                counts["under"] += 1
                counts["most"] = max(counts["most"], counts["under"])
        if busy:
            return self.say(429, {"error": {"message": "too many"}}, {"Retry-After-Ms": "200"})
        late = nth % 97 == 0
        try:
            if not late:
                self.answer(body, nth)
        finally:
            with lock:
                counts["under"] -= 1
        if late:  # longer than timeout_seconds; the client's place is free when it gives up
            self.bad(lambda: time.sleep(12))

    def answer(self, body, nth):
        time.sleep(0.05)
        if nth % 31 == 0:
            return self.bad(lambda: self.say(500, {"error": {"message": "oh"}}))
        text = body["messages"][-1]["content"].split()[-1].rstrip(".")
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        reply = {"id": "x", "object": "chat.completion", "model": body["model"], "created": 1, "usage": usage,
                 "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}]}
        if nth % 47 == 0:  # half a body
            def half():
                data = json.dumps(reply).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data[: len(data) // 2])
                self.wfile.flush()
            return self.bad(half)
        self.say(200, reply)
        with lock:
            counts["whole"][text] = counts["whole"].get(text, 0) + 1

    def bad(self, act):
        with lock:
            counts["bad"] += 1
        act()
        self.close_connection = True

    def say(self, status, document, headers={}):
        data = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)


class Server(ThreadingHTTPServer):
    request_queue_size = 2048
    daemon_threads = True

    def handle_error(self, request, client_address):
        pass


def write(*_):
    with lock:
        with open(sys.argv[2], "w") as f:
            json.dump(counts, f)
    os._exit(0)


server = Server(("127.0.0.1", 0), Handler)
signal.signal(signal.SIGTERM, write)
with open(sys.argv[1] + ".new", "w") as f:
    f.write(str(server.server_port))
os.replace(sys.argv[1] + ".new", sys.argv[1])
threading.Thread(target=server.serve_forever, daemon=True).start()
signal.pause()
