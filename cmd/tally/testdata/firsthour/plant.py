# Puts a stand-in of the OpenAI SDK into a virtual environment: the calls that the
# tutorial's agent makes, on the same wire. The SDK itself needs the network to
# install; .ci/conformance.d/firsthour does that.
import glob, os, sys

MODULE = '''
import json, os, urllib.request

class Thing:
    def __init__(self, value):
        self._value = value
    def __getattr__(self, name):
        return wrap(self._value.get(name))
    def to_dict(self):
        return {k: v for k, v in self._value.items() if v is not None}

def wrap(value):
    if isinstance(value, dict):
        return Thing(value)
    return [wrap(v) for v in value] if isinstance(value, list) else value

class OpenAI:
    def __init__(self):
        self.chat = self.completions = self
    def create(self, **body):
        call = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", json.dumps(body).encode(),
            {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "Content-Type": "application/json"})
        with urllib.request.urlopen(call) as reply:
            return wrap(json.load(reply))
'''

(site,) = glob.glob(os.path.join(sys.argv[1], "lib", "python*", "site-packages"))
os.makedirs(os.path.join(site, "openai"), exist_ok=True)
with open(os.path.join(site, "openai", "__init__.py"), "w") as f:
    f.write(MODULE)
