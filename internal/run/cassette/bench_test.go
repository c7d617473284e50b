package cassette

import (
	"fmt"
	"strings"
	"testing"

	"tallystick/internal/run/wire"
)

// smallRequest is what one turn of a small agent sends.
const smallRequest = `{"model":"gpt-4o","messages":[{"role":"system","content":"You are a helpful assistant."},{"role":"user","content":"How many files are in the working directory? Only output the number."},{"role":"assistant","content":null,"tool_calls":[{"id":"call_I1tmAsYKD7bveEpXORJwVFgs","type":"function","function":{"name":"list_directory","arguments":"{\"path\":\".\"}"}}]},{"role":"tool","tool_call_id":"call_I1tmAsYKD7bveEpXORJwVFgs","content":"FILE README.md\n"}],"temperature":0,"stream":true}`

func BenchmarkModelRequest(b *testing.B) {
	for name, body := range map[string]string{"question": chatRequest, "turn": smallRequest} {
		b.Run(name, func(b *testing.B) {
			body := []byte(body)
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := ModelRequest(wire.OpenAIChat, body, nil); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
		})
	}
}

func BenchmarkModelRequestLarge(b *testing.B) {
	turns := strings.Repeat(`{"role":"user","content":"`+strings.Repeat("Some text of a document that is long. ", 100)+`"},`, 50)
	body := []byte(`{"model":"gpt-4o","messages":[` + strings.TrimSuffix(turns, ",") + `]}`)
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		if _, err := ModelRequest(wire.OpenAIChat, body, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkReplayedCall is everything that a replayed call costs here: from
// the bytes of the request to the reply in the form that was asked for.
func BenchmarkReplayedCall(b *testing.B) {
	r := mustRecorder(b, RecorderOptions{})
	for i := range 1000 {
		q := strings.Replace(smallRequest, "the number", fmt.Sprintf("the number %d", i), 1)
		if _, err := r.Model(ModelTraffic{API: wire.OpenAIChat, Request: []byte(q), Status: 200, Body: []byte(chatBody)}); err != nil {
			b.Fatal(err)
		}
	}
	c := mustCassette(b, r)
	bodies := make([][]byte, 1000)
	for i := range bodies {
		bodies[i] = []byte(strings.Replace(smallRequest, "the number", fmt.Sprintf("the number %d", i), 1))
	}
	for _, stream := range []bool{false, true} {
		b.Run(fmt.Sprintf("stream=%v", stream), func(b *testing.B) {
			b.ReportAllocs()
			p := NewPlayer(c)
			for i := 0; b.Loop(); i++ {
				if i%1000 == 0 {
					p = NewPlayer(c)
				}
				q, err := ModelRequest(wire.OpenAIChat, bodies[i%1000], nil)
				if err != nil {
					b.Fatal(err)
				}
				it, err := p.Next(q)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := it.Model.Reply(wire.Delivery{Stream: stream, IncludeUsage: true}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkParse(b *testing.B) {
	file := mustMarshal(b, mustCassette(b, smallRecorder(b)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse(file, Limits{}); err != nil {
			b.Fatal(err)
		}
	}
}
