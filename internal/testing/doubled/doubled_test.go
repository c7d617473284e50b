package doubled

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestEveryMemberIsThereTwice(t *testing.T) {
	const doc = `{"a":1,"b":[{"c":"x"},{"c":"y","d":{"e":null}}]}` + "\n" + `{"a":2}`
	files, err := Every([]byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, f := range files {
		paths = append(paths, f.Path)
		line, _, _ := strings.Cut(string(f.Data), "\n")
		if !json.Valid([]byte(line)) || len(f.Data) <= len(doc) {
			t.Errorf("%s: %s", f.Path, f.Data)
		}
	}
	if got := strings.Join(paths, " "); got != "a b[].c b[].d.e b[].d b" {
		t.Errorf("got %s", got)
	}
	if want := `{"a":1,"a":1,`; !strings.HasPrefix(string(files[0].Data), want) {
		t.Errorf("got %s", files[0].Data)
	}
	if want := `{"c":"x","\u0063":"x"}`; !strings.Contains(string(files[1].Data), want) {
		t.Errorf("got %s", files[1].Data)
	}
}
