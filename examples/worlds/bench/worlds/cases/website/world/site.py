"""A web site, as the world of a case: pages in memory, and a tool that fetches them.

A command agent may reach the site itself as well, at port 8080 of its own loopback: the
case lists it as a service.
"""
import http.server
import json
import sys
import threading

pages, seen = {}, []

TOOLS = [{"name": "fetch", "description": "Fetch a page of the site by its path.",
          "inputSchema": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}}]


class Site(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        seen.append(self.path)
        text = pages.get(self.path)
        self.send_response(200 if text else 404)
        self.end_headers()
        self.wfile.write((text or "there is no such page").encode())

    def log_message(self, *words):
        pass


def fetch(path):
    seen.append(path)
    return pages.get(path, "there is no such page")


def answer(method, params):
    if method == "world/reset":
        pages.update(params["data"]["pages"])
        threading.Thread(target=http.server.ThreadingHTTPServer(("127.0.0.1", 8080), Site).serve_forever, daemon=True).start()
        return {}
    if method == "world/health":
        return {"ok": True}
    if method == "world/state":
        return {"state": {"seen": seen}}
    if method == "initialize":
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": "site", "version": "1"}}
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call":
        return {"content": [{"type": "text", "text": fetch(**params["arguments"])}]}
    raise NotImplementedError(method)


for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": answer(asked["method"], asked.get("params"))}), flush=True)
