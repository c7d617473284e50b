package wire_test

import (
	"slices"
	"strings"
	"testing"

	"tallystick/internal/run/wire"
)

func TestEmbeddingsAreNoConversation(t *testing.T) {
	if !wire.Embeddings.Known() || wire.Embeddings.Converses() || slices.Contains(wire.APIs(), wire.Embeddings) {
		t.Error("an agent or a judge could be told to converse in vectors")
	}
	if route, ok := wire.RouteOf(wire.EmbeddingsPath); !ok || route.API != wire.Embeddings {
		t.Error("the gateway does not serve vectors to an agent")
	}
	if got, sent, err := wire.Embeddings.Outgoing("https://api.example/v1", []byte("{}")); err != nil || got != "https://api.example/v1/embeddings" || string(sent) != "{}" {
		t.Errorf("a call goes to %s as %s, %v", got, sent, err)
	}
}

// TestEmbeddingRequestKeepsTexts: a composed and a decomposed letter are two texts.
func TestEmbeddingRequestKeepsTexts(t *testing.T) {
	got := string(wire.EmbeddingRequest("m", []string{"e\u0301", "\u00e9", "\"\n"}))
	if want := "{\"encoding_format\":\"float\",\"input\":[\"e\u0301\",\"\u00e9\",\"\\\"\\n\"],\"model\":\"m\"}"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	b, err := wire.BoundsOf(wire.Embeddings, []byte(got))
	if err != nil || b.Model != "m" || b.MaxOutput != 0 || b.Elsewhere {
		t.Errorf("what bounds its cost is %+v, %v", b, err)
	}
}

func TestReadEmbeddings(t *testing.T) {
	one := func(vectors string) string { return `{"data":[` + vectors + `]}` }
	for _, tt := range []struct{ name, body, want string }{
		{"in another order", one(`{"index":1,"embedding":[3,4]},{"index":0,"embedding":[1,2]}`), ""},
		{"without indexes", one(`{"embedding":[1,2]},{"embedding":[3,4]}`), ""},
		{"one too few", one(`{"index":0,"embedding":[1,2]}`), "it has 1 vectors, expected 2"},
		{"one too many", one(`{"embedding":[1,2]},{"embedding":[3,4]},{"embedding":[3,4]}`), "it has 3 vectors"},
		{"one twice", one(`{"index":0,"embedding":[1,2]},{"index":0,"embedding":[3,4]}`), "two vectors are of text 1"},
		{"beyond the end", one(`{"index":0,"embedding":[1,2]},{"index":2,"embedding":[3,4]}`), "the index 2, expected 0 to 1"},
		{"before the beginning", one(`{"index":-1,"embedding":[1,2]},{"index":1,"embedding":[3,4]}`), "the index -1"},
		{"not finite", one(`{"index":0,"embedding":[1,1e999]},{"index":1,"embedding":[3,4]}`), "expected a finite number"},
		{"a text", one(`{"index":0,"embedding":[1,"2"]},{"index":1,"embedding":[3,4]}`), "expected a finite number"},
		{"in base64", one(`{"index":0,"embedding":"AAAA"},{"index":1,"embedding":"AAAA"}`), "not a list of numbers"},
		{"other lengths", one(`{"index":0,"embedding":[1,2]},{"index":1,"embedding":[3,4,5]}`), "expected one length"},
		{"empty", one(`{"index":0,"embedding":[]},{"index":1,"embedding":[]}`), "it has 0 numbers"},
		{"zero", one(`{"index":0,"embedding":[1,2]},{"index":1,"embedding":[0,-0.0]}`), "text 2: every number is 0"},
		{"null", one(`null,null`), "not a list of numbers"},
		{"an error", `{"error":{"message":"no"}}`, "it has 0 vectors"},
		{"no JSON", `[1`, ""},
	} {
		got, err := wire.ReadEmbeddings([]byte(tt.body), 2)
		if tt.name == "no JSON" {
			if err == nil {
				t.Error("it read what is not JSON")
			}
			continue
		}
		if tt.want == "" {
			if err != nil || !slices.Equal(got[0], []float64{1, 2}) || !slices.Equal(got[1], []float64{3, 4}) {
				t.Errorf("%s: %v, %v", tt.name, got, err)
			}
			continue
		}
		// A number beyond all floats may be refused as JSON already.
		if err == nil || !strings.Contains(err.Error(), tt.want) && tt.name != "not finite" {
			t.Errorf("%s: got %v, want %q", tt.name, err, tt.want)
		}
	}
}
