"""An HTTPS server on the loopback for .ci/conformance.d/egress: it says how it was asked.

  python3 server.py CERTIFICATE KEY PORTFILE
"""
import http.server
import os
import ssl
import sys


class Server(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        said = ("%s %s %s key=%s" % (self.command, self.path, body, self.headers.get("X-Key"))).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    do_GET = do_POST = answer

    def log_message(self, *args):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1], sys.argv[2])
server.socket = context.wrap_socket(server.socket, server_side=True)
with open(sys.argv[3] + ".tmp", "w") as f:
    f.write(str(server.server_port))
os.rename(sys.argv[3] + ".tmp", sys.argv[3])
server.serve_forever()
