package trajectory

import (
	"bytes"
	"io"
	"testing"
)

// countingReader counts what is read of a trajectory.
type countingReader struct {
	io.ReaderAt
	bytes int
}

func (c *countingReader) ReadAt(p []byte, at int64) (int, error) {
	n, err := c.ReaderAt.ReadAt(p, at)
	c.bytes += n
	return n, err
}

func TestPeekGivesAnyWindow(t *testing.T) {
	for _, turns := range []int{1, 200, 5000} {
		data := manyTurns(t, turns).Bytes()
		all := bytes.Split(bytes.TrimSuffix(data, []byte("\n")), []byte("\n"))
		for _, w := range [][2]int{{-5, 3}, {1, 1}, {1, 200}, {2, 200}, {len(all) / 3, 200}, {len(all) / 2, 7}, {len(all) - 1, 200}, {len(all), 1}, {len(all) + 70, 5}} {
			from := min(max(w[0], 1), len(all))
			want := all[from-1 : min(from-1+w[1], len(all))]
			p, err := Peek(section(data), w[0], w[1])
			if err != nil {
				t.Fatalf("%d turns, %d from %d: %v", turns, w[1], w[0], err)
			}
			if p.From != from || p.Total != len(all) || len(p.Outline) != len(want) || !bytes.Equal(bytes.Join(p.Lines, []byte("\n")), bytes.Join(want, []byte("\n"))) {
				t.Errorf("%d turns, %d from %d: %d lines from %d of %d", turns, w[1], w[0], len(p.Lines), p.From, p.Total)
			}
		}
	}
}

// What is read does not grow with the trajectory.
func TestPeekReadsLittle(t *testing.T) {
	data := manyTurns(t, 20_000).Bytes()
	r := &countingReader{ReaderAt: bytes.NewReader(data)}
	if _, err := Peek(io.NewSectionReader(r, 0, int64(len(data))), 50_001, 200); err != nil {
		t.Fatal(err)
	}
	if most := 40 * peekBytes; r.bytes > most || len(data) < 4*most/2 {
		t.Errorf("%d of %d bytes were read, at most %d expected", r.bytes, len(data), most)
	}
}

func TestPeekRefusesAWindowThatDoesNotHangTogether(t *testing.T) {
	data := manyTurns(t, 200).Bytes()
	lines := bytes.SplitAfter(data, []byte("\n"))
	lines = lines[:len(lines)-1]
	without := bytes.Join(append(append([][]byte{}, lines[:9]...), lines[10:]...), nil)
	for name, forged := range map[string][]byte{
		"empty":                nil,
		"torn":                 data[:len(data)-1],
		"a line was changed":   bytes.Replace(data, []byte("Note 3\""), []byte("Note 4\""), 1),
		"a line was dropped":   without,
		"one line of rubbish":  []byte("rubbish\n"),
		"rubbish at its end":   append(bytes.Clone(data), "rubbish\n"...),
		"nothing but newlines": []byte("\n\n\n"),
	} {
		if p, err := Peek(section(forged), 1, 100); err == nil {
			t.Errorf("%s: %d lines were given", name, len(p.Lines))
		}
	}
}
