"""Stand-ins for what the agent asks: a model API, and a vector store with web pages.

  python3 servers.py [MODEL_PORT WEB_PORT]     # 8901 and 8902; prints a line when both listen

The vectors count words, the answers quote the page: the same question has the same
answer every time. The store wants its key, which the agent never has.
"""

import hashlib
import http.server
import json
import os
import re
import sys
import threading

PAGES = {"holidays": "Everybody has 30 days of holiday a year, and takes them.",
         "parking": "You park a bicycle behind the kitchen, a car nowhere."}


def vector(text):
    v = [0.0] * 64
    for word in re.findall(r"[a-z]{4,}", text.lower()):
        v[hashlib.sha256(word.encode()).digest()[0] % 64] += 1.0
    return v if any(v) else [1.0] + v[1:]


class Server(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def reply(self, status, kind, body):
        body = body.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def json(self, value, status=200):
        self.reply(status, "application/json", json.dumps(value))

    def asked(self):
        return json.loads(self.rfile.read(int(self.headers["Content-Length"])))

    def log_message(self, *args):
        pass


class Model(Server):
    def do_POST(self):
        request = self.asked()
        if self.path == "/v1/embeddings":
            texts = request["input"] if isinstance(request["input"], list) else [request["input"]]
            self.json({"object": "list", "model": request["model"], "usage": {"prompt_tokens": 8, "total_tokens": 8},
                       "data": [{"object": "embedding", "index": i, "embedding": vector(t)} for i, t in enumerate(texts)]})
            return
        page = request["messages"][0]["content"].split("\n\n", 1)[1]
        self.json({"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": request["model"],
                   "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "The handbook says: " + page}}],
                   "usage": {"prompt_tokens": 40, "completion_tokens": 12, "total_tokens": 52}})


class Web(Server):
    def do_POST(self):
        request = self.asked()
        if self.headers.get("Api-Key") != os.environ.get("STORE_KEY", ""):
            self.json({"error": "the key is wrong"}, 401)
            return
        likeness = {name: sum(a * b for a, b in zip(vector(text), request["vector"])) for name, text in PAGES.items()}
        best = max(sorted(likeness), key=likeness.get)
        self.json({"hits": [{"id": best, "score": likeness[best], "url": "http://127.0.0.1:%d/pages/%s.html" % (self.server.server_port, best)}]})

    def do_GET(self):
        name = self.path.removeprefix("/pages/").removesuffix(".html")
        if name not in PAGES:
            self.reply(404, "text/plain", "there is no such page")
            return
        self.reply(200, "text/html; charset=utf-8", "<html><h1>%s</h1><p>%s</p></html>" % (name, PAGES[name]))


model_port, web_port = (int(a) for a in sys.argv[1:3]) if len(sys.argv) > 2 else (8901, 8902)
model = http.server.ThreadingHTTPServer(("127.0.0.1", model_port), Model)
web = http.server.ThreadingHTTPServer(("127.0.0.1", web_port), Web)
threading.Thread(target=model.serve_forever, daemon=True).start()
print("model at http://127.0.0.1:%d/v1, store and pages at http://127.0.0.1:%d" % (model.server_port, web.server_port), flush=True)
web.serve_forever()
