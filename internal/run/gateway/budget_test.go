package gateway

import (
	"encoding/json"
	"strings"
	"testing"
)

// A body of empty lists takes seventy times its size when it is read.
func TestBodiesOfManyValuesAreRefused(t *testing.T) {
	many := "[" + strings.Repeat("[],", maxValues) + "[]]"
	c := newCase(t, caseOptions{})
	for name, r := range map[string][2]string{
		"a model call":       {"/v1/chat/completions", `{"model":"m","x":` + many + `}`},
		"a count of tokens":  {"/v1/messages/count_tokens", `{"model":"m","x":` + many + `}`},
		"a tool call":        {"/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"n","arguments":{"x":` + many + `}}}`},
		"objects":            {"/v1/messages", strings.Repeat(`{"a":`, maxValues) + "1"},
		"quotes and escapes": {"/v1/messages", `{"model":"m","` + `\"` + `":` + many + `}`},
	} {
		if got := c.send(t, "POST", r[0], r[1]); got.status != 413 || !strings.Contains(got.body, "JSON values") {
			t.Errorf("%s: %d %.200s", name, got.status, got.body)
		}
	}
	if c.session.Stopped() != nil {
		t.Error("the case was stopped")
	}
}

// countValues must never be below what a reader makes of the text.
func FuzzCountValues(f *testing.F) {
	for _, s := range []string{`{"a":[1,2,{"b":"x,y\"[{:"}],"c":null}`, `[[],[]]`, `"a,b"`, `{"\\":","}`, ` [ ] `} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var v any
		if json.Unmarshal([]byte(s), &v) != nil {
			return
		}
		if got, want := countValues([]byte(s)), valuesIn(v); got < want {
			t.Errorf("%q: counted %d of %d", s, got, want)
		}
	})
}

func valuesIn(v any) int {
	n := 1
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			n += valuesIn(e)
		}
	case map[string]any:
		for _, e := range v {
			n += valuesIn(e)
		}
	}
	return n
}

func TestLargeBodiesAreReadOneByOne(t *testing.T) {
	c := newCase(t, caseOptions{})
	large := `{"model":"m","messages":"` + strings.Repeat("x", smallBody) + `"}`
	c.large <- struct{}{} // another one is under way
	answered := make(chan int)
	go func() { answered <- c.send(t, "POST", "/v1/messages/count_tokens", large).status }()
	if got := c.send(t, "POST", "/v1/messages/count_tokens", `{"model":"m"}`); got.status != 200 {
		t.Errorf("a small one meanwhile: %d", got.status)
	}
	select {
	case status := <-answered:
		t.Errorf("answered beside another large one, with %d", status)
	default:
	}
	<-c.large
	if status := <-answered; status != 200 {
		t.Errorf("afterwards: %d", status)
	}
	if got := c.send(t, "POST", "/v1/messages/count_tokens", large); got.status != 200 {
		t.Errorf("the next one: %d", got.status)
	}
}
