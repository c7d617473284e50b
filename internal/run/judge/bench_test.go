package judge

import (
	"context"
	"strings"
	"testing"

	"tallystick/internal/record/canon"
	"tallystick/internal/testing/fakemodel"
)

// BenchmarkCachedVerdict is a question whose verdict is in the cache: file,
// signature, ledger's last draw.
func BenchmarkCachedVerdict(b *testing.B) {
	c := newCourt(b, fakemodel.New(b, says(reply(1, true, "right"))...))
	j := c.judge(Live)
	q := aQuestion("4")
	for b.Loop() {
		if o, err := j.Ask(context.Background(), q, c.models, FromLive); err != nil || o.Score != 1 {
			b.Fatal(o, err)
		}
	}
}

// BenchmarkSigns looks through the longest answer, made of what costs most.
func BenchmarkSigns(b *testing.B) {
	text := strings.Repeat(`{"a":[1,{"b":[2,`, maxAnswerBytes/16)
	answer, err := canon.Marshal(text)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if len(Signs(answer)) > 0 {
			b.Fatal("found something")
		}
	}
}
