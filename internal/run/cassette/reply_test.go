package cassette

import (
	"strings"
	"testing"

	"tallystick/internal/run/wire"
)

func TestReplyTakesTheFormThatTheClientAsksFor(t *testing.T) {
	stream := "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"4\"}}]}\n\ndata: [DONE]\n\n"
	streamed := &ModelCall{API: wire.OpenAIChat, Response: Response{Status: 200, Headers: map[string]string{"content-type": "text/event-stream"}, Stream: wire.SplitEvents(stream)}}
	plain := &ModelCall{API: wire.OpenAIChat, Response: Response{Status: 200, Body: []byte(canonicalText(t, chatBody))}}
	failed := &ModelCall{API: wire.OpenAIChat, Response: Response{Status: 429, Headers: map[string]string{"retry-after": "1"}, Body: []byte(`{"error":{}}`)}}
	text := &ModelCall{API: wire.OpenAIChat, Response: Response{Status: 502, Text: "<html>"}}

	r, err := streamed.Reply(wire.Delivery{Stream: true})
	if err != nil || strings.Join(r.Stream, "") != stream || r.Body != nil {
		t.Errorf("a recorded stream: %+v, %v", r, err)
	}
	r, err = streamed.Reply(wire.Delivery{})
	if err != nil || r.Stream != nil || r.Headers["content-type"] != "application/json" || !strings.Contains(string(r.Body), `"content":"4"`) {
		t.Errorf("a stream as a body: %+v, %v", r, err)
	}
	if streamed.Response.Headers["content-type"] != "text/event-stream" {
		t.Error("the recording was changed")
	}
	r, err = plain.Reply(wire.Delivery{Stream: true, IncludeUsage: true})
	if err != nil || r.Body != nil || len(r.Stream) != 4 || !strings.HasPrefix(r.Headers["content-type"], "text/event-stream") {
		t.Errorf("a body as a stream: %+v, %v", r, err)
	}
	r, err = plain.Reply(wire.Delivery{})
	if err != nil || string(r.Body) != canonicalText(t, chatBody) {
		t.Errorf("a body: %+v, %v", r, err)
	}
	r, err = failed.Reply(wire.Delivery{Stream: true})
	if err != nil || r.Status != 429 || r.Stream != nil || string(r.Body) != `{"error":{}}` || r.Headers["retry-after"] != "1" {
		t.Errorf("an error: %+v, %v", r, err)
	}
	r, err = text.Reply(wire.Delivery{Stream: true})
	if err != nil || string(r.Body) != "<html>" {
		t.Errorf("text: %+v, %v", r, err)
	}
}
