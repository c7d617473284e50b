package wire

import (
	"strings"
	"testing"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/refusal"
)

// chatBody is a small reply of openai.chat.
const chatBody = `{"id":"chatcmpl-abc","object":"chat.completion","created":1,"model":"gpt-4o-2024-08-06","choices":[{"index":0,"message":{"role":"assistant","content":"4","refusal":null},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":20,"completion_tokens":3,"total_tokens":23,"prompt_tokens_details":{"cached_tokens":8}}}`

// requireRefusal wants an error of that name that says want.
func requireRefusal(t testing.TB, err error, name refusal.Name, want string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want %s with %q", name, want)
	}
	if got := refusal.Of(err); got.Name != name || !strings.Contains(err.Error(), want) {
		t.Fatalf("got %s: %v\nwant %s with %q", got.Name, err, name, want)
	}
	if refusal.Of(err).Hint == "" {
		t.Errorf("%v: no hint", err)
	}
}

func canonicalText(t testing.TB, s string) string {
	t.Helper()
	b, err := canon.Canonicalize([]byte(s))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
