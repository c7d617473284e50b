package gateway

import (
	"os/exec"
	"strings"
	"testing"
)

// Programs without any package reach the gateway by its variables alone.
func TestPlainProgramsReachTheGateway(t *testing.T) {
	for _, tt := range []struct {
		program string
		locate  []string // prints the interpreter itself: what PATH has may be a wrapper that needs its environment
		code    []string
	}{
		{"python3", []string{"-c", "import sys; print(sys.executable)"}, []string{"-I", "-c", `
import json, os, urllib.request
def post(url, body, **headers):
    r = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json", **headers})
    return urllib.request.urlopen(r)
hello = [{"role": "user", "content": "Say hello."}]
r = post(os.environ["OPENAI_BASE_URL"] + "/chat/completions", {"model": "gpt-4o", "messages": hello}, Authorization="Bearer " + os.environ["OPENAI_API_KEY"])
print(json.load(r)["choices"][0]["message"]["content"])
text = ""
for line in post(os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages", {"model": "claude-sonnet-4-5", "max_tokens": 64, "messages": hello, "stream": True}, **{"x-api-key": os.environ["ANTHROPIC_API_KEY"]}):
    if line.startswith(b"data: "):
        text += json.loads(line[6:]).get("delta", {}).get("text", "")
print(text)
`}},
		{"node", []string{"-p", "process.execPath"}, []string{"-e", `
const hello = [{ role: "user", content: "Say hello." }];
const post = (url, key, body) => fetch(url, { method: "POST", headers: { "content-type": "application/json", ...key }, body: JSON.stringify(body) });
(async () => {
  const e = process.env;
  let r = await post(e.OPENAI_BASE_URL + "/chat/completions", { authorization: "Bearer " + e.OPENAI_API_KEY }, { model: "gpt-4o", messages: hello });
  console.log((await r.json()).choices[0].message.content);
  r = await post(e.ANTHROPIC_BASE_URL + "/v1/messages", { "x-api-key": e.ANTHROPIC_API_KEY }, { model: "claude-sonnet-4-5", max_tokens: 64, messages: hello, stream: true });
  const events = (await r.text()).split("\n").filter((l) => l.startsWith("data: ")).map((l) => JSON.parse(l.slice(6)));
  console.log(events.map((x) => x.delta?.text ?? "").join(""));
})();
`}},
	} {
		t.Run(tt.program, func(t *testing.T) {
			out, err := exec.Command(tt.program, tt.locate...).Output()
			if err != nil {
				t.Skipf("%s does not run here: %v", tt.program, err)
			}
			c := newCase(t, caseOptions{})
			got := runClient(t, c, append([]string{strings.TrimSpace(string(out))}, tt.code...))
			if got != "Hello from the tape.\nHello from the tape.\n" {
				t.Errorf("it prints %q", got)
			}
			if n := strings.Count(types(c.end(t)), "transport_request"); n != 2 {
				t.Errorf("%d requests are recorded, want 2", n)
			}
		})
	}
}
