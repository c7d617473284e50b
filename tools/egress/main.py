"""Asks the server as the client that its input names would, with nothing set but what is
in the environment: a GET, a POST of JSON, and a page that is not listed."""
import asyncio
import json
import os
import subprocess
import sys

name = sys.stdin.read().strip()
BASE = os.environ["BASE"]
GET, POST, SECRET, SENT = BASE + "/page?a=1", BASE + "/post", "https://example.com/", {"n": 1}


def with_requests():
    import requests
    s = requests.Session()
    return s.get(GET).text, s.post(POST, json=SENT).text, s.get


def with_httpx():
    import httpx
    with httpx.Client() as c:
        return c.get(GET).text, c.post(POST, json=SENT).text, httpx.get


async def with_httpx_async():
    import httpx
    async with httpx.AsyncClient() as c:
        one, two = await asyncio.gather(c.get(GET), c.post(POST, json=SENT))
        return one.text, two.text, httpx.get


async def with_aiohttp():
    import aiohttp
    import ssl
    async with aiohttp.ClientSession(trust_env=True, connector=aiohttp.TCPConnector(ssl=ssl.create_default_context())) as s:
        async with s.get(GET) as r:
            one = await r.text()
        async with s.post(POST, json=SENT) as r:
            return one, await r.text(), None


def with_urllib3():
    import urllib3
    from urllib.parse import urlsplit
    proxy = urlsplit(os.environ["HTTPS_PROXY"])
    headers = urllib3.make_headers(proxy_basic_auth="%s:%s" % (proxy.username, proxy.password))
    p = urllib3.ProxyManager("http://%s:%d" % (proxy.hostname, proxy.port), proxy_headers=headers, ca_certs=os.environ["SSL_CERT_FILE"])
    return p.request("GET", GET).data.decode(), p.request("POST", POST, json=SENT).data.decode(), None


def with_urllib():
    import urllib.request
    ask = lambda *a: urllib.request.urlopen(urllib.request.Request(*a)).read().decode()
    return ask(GET), ask(POST, json.dumps(SENT).encode(), {"Content-Type": "application/json"}), urllib.request.urlopen


def program(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def with_curl():
    return program("curl", "-sS", GET), program("curl", "-sS", POST, "--json", json.dumps(SENT)), None


if name in ("fetch", "axios"):
    print(program("node", "/agent/main.mjs", name))
elif name == "go":
    print(program("/agent/goclient"))
else:
    one, two, further = globals()["with_" + name.replace("-", "_")]() if "async" not in name and name != "aiohttp" else asyncio.run(globals()["with_" + name.replace("-", "_")]())
    print(one, two, sep="\n")
    if further:
        try:
            print("not refused:", further(SECRET))
        except Exception as e:
            print("refused" if "403" in str(e) else "failed: %s" % e)
