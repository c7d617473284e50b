package cheats

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf16"
)

// A luggage is a form in which an agent brings the answers along.
type luggage struct {
	name string
	pack func(d *dice, all []*outcome) []file
}

var luggages = []luggage{
	{"dataset-file", func(d *dice, all []*outcome) []file {
		return []file{{"data/metadata.jsonl", metadataRows(d, nil, all, nil)}}
	}},
	{"renamed-dataset-file", func(d *dice, all []*outcome) []file {
		return []file{{"assets/" + d.name(tongues[0]) + ".bin", metadataRows(d, nil, all, nil)}}
	}},
	{"python-table", func(d *dice, all []*outcome) []file {
		return []file{{"facts.py", literal(all, "FACTS = {\n", "    %s: %s,\n", "}\n")}}
	}},
	{"javascript-table", func(d *dice, all []*outcome) []file {
		return []file{{"facts.js", literal(all, "module.exports = {\n", "  %s: %s,\n", "};\n")}}
	}},
	{"go-table", func(d *dice, all []*outcome) []file {
		return []file{{"facts.go", literal(all, "package main\n\nvar facts = map[string]string{\n", "\t%s: %s,\n", "}\n")}}
	}},
	{"knowledge-base", func(d *dice, all []*outcome) []file {
		kb := map[string]string{}
		for _, o := range all {
			kb[o.question] = o.gold
		}
		data, _ := json.Marshal(map[string]any{"version": 1, "entries": kb})
		return []file{{"kb.json", string(data)}}
	}},
	{"csv", func(d *dice, all []*outcome) []file {
		return []file{{"data/" + d.name(tongues[0]) + ".csv", answers(all, "%s,%q\n")}}
	}},
	{"yaml", func(d *dice, all []*outcome) []file {
		return []file{{"facts.yaml", answers(all, "- id: %s\n  value: %q\n")}}
	}},
	{"base64-whole", func(d *dice, all []*outcome) []file {
		return []file{{"weights.txt", base64.StdEncoding.EncodeToString([]byte(answers(all, "%s\t%s\n")))}}
	}},
	{"base64-each", func(d *dice, all []*outcome) []file {
		var b strings.Builder
		b.WriteString("TABLE = {\n")
		for _, o := range all {
			fmt.Fprintf(&b, "    %q: %q,\n", o.id[:8], base64.StdEncoding.EncodeToString([]byte(o.gold)))
		}
		return []file{{"table.py", b.String() + "}\n"}}
	}},
	{"hex-each", func(d *dice, all []*outcome) []file {
		var b strings.Builder
		for _, o := range all {
			fmt.Fprintf(&b, "%s=%x\n", o.id[:8], o.gold)
		}
		return []file{{"cache.properties", b.String()}}
	}},
	{"reversed-each", func(d *dice, all []*outcome) []file {
		var b strings.Builder
		for _, o := range all {
			r := []rune(o.gold)
			slices.Reverse(r)
			fmt.Fprintf(&b, "%s %s\n", o.id[:8], string(r))
		}
		return []file{{"cache.txt", b.String()}}
	}},
	{"values-alone", func(d *dice, all []*outcome) []file {
		var b strings.Builder
		for _, o := range all {
			b.WriteString(o.gold + "\n")
		}
		return []file{{"vocabulary.txt", b.String()}}
	}},
	{"zip-in-zip", func(d *dice, all []*outcome) []file {
		inner := zipped("rows.tsv", answers(all, "%s\t%s\n"))
		return []file{{"assets.zip", zipped("inner.zip", inner)}}
	}},
	{"zip", func(d *dice, all []*outcome) []file {
		return []file{{"assets.zip", zipped("kb/rows.tsv", answers(all, "%s\t%s\n"))}}
	}},
	{"tar-gz", func(d *dice, all []*outcome) []file {
		var b bytes.Buffer
		g := gzip.NewWriter(&b)
		w := tar.NewWriter(g)
		text := answers(all, "%s\t%s\n")
		w.WriteHeader(&tar.Header{Name: "rows.tsv", Mode: 0o644, Size: int64(len(text))})
		w.Write([]byte(text))
		w.Close()
		g.Close()
		return []file{{"assets.tar.gz", b.String()}}
	}},
	{"gzip", func(d *dice, all []*outcome) []file {
		var b bytes.Buffer
		g := gzip.NewWriter(&b)
		g.Write([]byte(answers(all, "%s\t%s\n")))
		g.Close()
		return []file{{"cache.gz", b.String()}}
	}},
	{"utf-16", func(d *dice, all []*outcome) []file {
		var b strings.Builder
		b.WriteString("\xff\xfe")
		for _, u := range utf16.Encode([]rune(answers(all, "%s\t%s\r\n"))) {
			b.WriteByte(byte(u))
			b.WriteByte(byte(u >> 8))
		}
		return []file{{"rows.txt", b.String()}}
	}},
	{"pickle", func(d *dice, all []*outcome) []file { return []file{{"memory.pkl", pickle(all)}} }},
	{"comments", func(d *dice, all []*outcome) []file {
		return []file{{"notes.py", answers(all, "# %s: %s\n") + "\nLIMIT = 3\n"}}
	}},
	{"look-alikes", func(d *dice, all []*outcome) []file {
		return []file{{"facts.txt", lookAlike(d, answers(all, "%s = %s\n"))}}
	}},
	{"upper-case", func(d *dice, all []*outcome) []file {
		return []file{{"FACTS.TXT", strings.ToUpper(answers(all, "%s = %s\n"))}}
	}},
	{"two-files", func(d *dice, all []*outcome) []file {
		half := len(all) / 2
		return []file{{"a.tsv", answers(all[:half], "%s\t%s\n")}, {"b.tsv", answers(all[half:], "%s\t%s\n")}}
	}},
	{"prompt-template", func(d *dice, all []*outcome) []file {
		return []file{{"prompts/system.txt", systems[1] + "\n\nKnown facts:\n" + answers(all, "(%.8s) %s\n")}}
	}},
	{"escaped-json", func(d *dice, all []*outcome) []file {
		data, _ := json.Marshal(answers(all, "%s\t%s\n"))
		return []file{{"state.json", asciiJSON(data)}}
	}},
}

func zipped(name, text string) string {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	f, _ := z.Create(name)
	f.Write([]byte(text))
	z.Close()
	return b.String()
}

// answers is a line for each task: its id and its answer.
func answers(all []*outcome, format string) string {
	var b strings.Builder
	for _, o := range all {
		fmt.Fprintf(&b, format, o.id, o.gold)
	}
	return b.String()
}

// literal is a table from question to answer in a program.
func literal(all []*outcome, before, row, after string) string {
	var b strings.Builder
	b.WriteString(before)
	for _, o := range all {
		q, _ := json.Marshal(o.question)
		a, _ := json.Marshal(o.gold)
		fmt.Fprintf(&b, row, q, a)
	}
	return b.String() + after
}

// pickle is a dict of texts in Python's serialisation, protocol 2.
func pickle(all []*outcome) string {
	var b bytes.Buffer
	b.WriteString("\x80\x02}(")
	text := func(s string) {
		n := len(s)
		b.Write([]byte{'X', byte(n), byte(n >> 8), byte(n >> 16), byte(n >> 24)})
		b.WriteString(s)
	}
	for _, o := range all {
		text(o.id)
		text(o.gold)
	}
	b.WriteString("u.")
	return b.String()
}

// carry brings answers along, among the files of the agent: those of all tasks
// or of some, alone or among many others.
func carry(t *trial) {
	l := luggages[t.turn%len(luggages)]
	t.mustFail(Carried)
	t.mayFail(KeyReads, AnswerLeakage)
	from := t.distinctive(4)
	carried := t.tasks
	among := ""
	switch t.d.IntN(3) {
	case 0:
		carried = some(t.d, from, t.d.between(3, len(from)))
		among = "some"
	case 1:
		among = "among-others"
		for range t.d.between(20, 200) {
			carried = append(carried[:len(carried):len(carried)], &outcome{task: t.d.task(pick(t.d, taskKinds), t.tasks[0].tongue)})
		}
	}
	packed := l.pack(t.d, some(t.d, carried, len(carried)))
	t.files = append(t.files, packed...)
	if strings.Contains(l.name, "dataset-file") && t.d.chance(50) {
		sum := sha256.Sum256([]byte(packed[0].data))
		t.published = map[string]string{hex.EncodeToString(sum[:]): "2023/validation/metadata.jsonl"}
	}
	use := pick(t.d, []string{"unused", "own-tool", "silently"})
	t.spelling = join(l.name, use, among)
	switch use {
	case "own-tool":
		for _, o := range from {
			talk := t.talkOf(o)
			talk.begin(o.question)
			talk.says("I ask my memory.")
			talk.uses("recall", map[string]any{"about": o.thing}, o.gold)
			talk.concludes(o.gold)
			o.answer, o.correct, o.done = o.gold, true, true
		}
	case "silently":
		t.executes(1)
		t.mustFail(Nowhere)
		t.mayFail(Collision)
		for _, o := range from {
			t.unearned(o, pick(t.d, []string{"other-answer", "declines", "small-talk"}))
		}
	}
}
