package web

import (
	"encoding/json"
	"testing"
)

func TestOnlyAddressesOfTheRowItselfBecomeAbsolute(t *testing.T) {
	for _, tt := range []struct{ name, row, want string }{
		{"all three", `{"credential":"/c","decisionReceipt":"/d","receipt":"/r"}`, `{"credential":"https://a.example/c","decisionReceipt":"https://a.example/d","receipt":"https://a.example/r"}`},
		{"of proposed metrics", `{"metrics":{"receipt":"/x","list":[{"receipt":"/y"}]},"receipt":"/r"}`, `{"metrics":{"receipt":"/x","list":[{"receipt":"/y"}]},"receipt":"https://a.example/r"}`},
		{"a text that looks like a member", `{"note":"\",\"receipt\":\"/x","receipt":"/r"}`, `{"note":"\",\"receipt\":\"/x","receipt":"https://a.example/r"}`},
		{"a value that is the name", `{"note":"receipt","receipt":"/r"}`, `{"note":"receipt","receipt":"https://a.example/r"}`},
		{"braces in a text", `{"note":"{[}","receipt":"/r"}`, `{"note":"{[}","receipt":"https://a.example/r"}`},
		{"a backslash at the end of a text", `{"note":"a\\","receipt":"/r"}`, `{"note":"a\\","receipt":"https://a.example/r"}`},
		{"absolute already", `{"receipt":"https://b.example/r"}`, `{"receipt":"https://b.example/r"}`},
		{"cut off", `{"receipt":"/`, `{"receipt":"https://a.example/`},
		{"nothing", ``, ``},
	} {
		if got := string(appendAbsolute(nil, []byte(tt.row), "https://a.example")); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
	rows := absoluteRows([]json.RawMessage{[]byte(`{"receipt":"/1"}`), []byte(`{"receipt":"/2"}`)}, "https://a.example")
	if want := `[{"receipt":"https://a.example/1"},{"receipt":"https://a.example/2"}]` + "\n"; string(rows) != want {
		t.Errorf("got %s", rows)
	}
	if got := string(absoluteRows([]json.RawMessage{}, "x")); got != "[]\n" {
		t.Errorf("no rows: %q", got)
	}
}
