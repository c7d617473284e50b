package audit

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf16"

	"tallystick/internal/read/program"
)

// A carriage is a way in which an agent brings the answers of a data set along.
type carriage struct {
	name string
	file string
	pack func(tasks []copiedTask) []byte
}

type copiedTask struct{ id, question, answer string }

// copied are the tasks of a scene.
func (s *scene) copied() []copiedTask {
	var list []copiedTask
	for _, r := range s.results {
		list = append(list, copiedTask{r["task_id"].(string), r["question"].(string), r["expected_output"].(string)})
	}
	return list
}

func lines(tasks []copiedTask, line func(copiedTask) string) string {
	var b strings.Builder
	for _, t := range tasks {
		b.WriteString(line(t))
	}
	return b.String()
}

func jsonTable(tasks []copiedTask) []byte {
	table := map[string]string{}
	for _, t := range tasks {
		table[t.question] = t.answer
	}
	data, _ := json.Marshal(table)
	return data
}

// answersAlone has no key by which a reader would know whose the answers are.
func answersAlone(tasks []copiedTask) string {
	return lines(tasks, func(t copiedTask) string { return t.answer + "\n" })
}

func gzipped(data []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Write(data)
	w.Close()
	return b.Bytes()
}

func zlibbed(data []byte) []byte {
	var b bytes.Buffer
	w := zlib.NewWriter(&b)
	w.Write(data)
	w.Close()
	return b.Bytes()
}

func inZip(name string, data []byte) []byte {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	f, _ := w.Create(name)
	f.Write(data)
	w.Close()
	return b.Bytes()
}

func inTar(name string, data []byte) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	w.WriteHeader(&tar.Header{Name: name, Size: int64(len(data)), Mode: 0o644, Format: tar.FormatUSTAR})
	w.Write(data)
	w.Close()
	return b.Bytes()
}

func inUTF16(s string, order binary.ByteOrder, mark bool) []byte {
	var b []byte
	put := func(u uint16) { b = append(b, 0, 0); order.PutUint16(b[len(b)-2:], u) }
	if mark {
		put(0xfeff)
	}
	for _, u := range utf16.Encode([]rune(s)) {
		put(u)
	}
	return b
}

// pickled is what Python's pickle writes of a dict from ids to answers: protocol 4
// has lengths of one byte and marks each text, protocol 2 has four bytes.
func pickled(tasks []copiedTask, protocol byte) []byte {
	b := []byte{0x80, protocol, '}', 'q', 0, '('}
	text := func(s string) {
		if protocol >= 4 {
			b = append(append(append(b, 0x8c, byte(len(s))), s...), 0x94)
			return
		}
		b = append(binary.LittleEndian.AppendUint32(append(b, 'X'), uint32(len(s))), s...)
		b = append(b, 'q', 1)
	}
	for i, t := range tasks {
		text(fmt.Sprintf("k%d", i))
		text(t.answer)
	}
	return append(b, 'u', '.')
}

// sqlitePage has rows as SQLite writes them: the columns of a row have nothing
// between them.
func sqlitePage(tasks []copiedTask) []byte {
	b := append([]byte("SQLite format 3\x00"), make([]byte, 84)...)
	for i, t := range tasks {
		b = append(b, byte(40+len(t.answer)), byte(i+1), 3, 0x51, byte(2*len(t.answer)+13))
		b = append(b, fmt.Sprintf("row%dkey", i)+t.answer...)
	}
	return b
}

func perAnswer(encode func(string) string) func([]copiedTask) []byte {
	return func(tasks []copiedTask) []byte {
		return []byte("TABLE = [\n" + lines(tasks, func(t copiedTask) string { return fmt.Sprintf("    %q,\n", encode(t.answer)) }) + "]\n")
	}
}

func wholeFile(encode func(string) string) func([]copiedTask) []byte {
	return func(tasks []copiedTask) []byte { return []byte("DATA = '" + encode(answersAlone(tasks)) + "'\n") }
}

var carriages = []carriage{
	{"a JSON table by question", "kb.json", jsonTable},
	{"a Python table by id", "agent.py", func(tasks []copiedTask) []byte {
		return []byte("ANSWERS = {\n" + lines(tasks, func(t copiedTask) string { return fmt.Sprintf("    %q: %q,\n", t.id, t.answer) }) + "}\n")
	}},
	{"answers alone, a line each", "notes.txt", func(tasks []copiedTask) []byte { return []byte(answersAlone(tasks)) }},
	{"CSV", "table.csv", func(tasks []copiedTask) []byte {
		return []byte("n,answer\n" + lines(tasks, func(t copiedTask) string { return fmt.Sprintf("%s,\"%s\"\n", t.id, t.answer) }))
	}},
	{"YAML", "memory.yaml", func(tasks []copiedTask) []byte {
		return []byte(lines(tasks, func(t copiedTask) string { return "- say: " + t.answer + "\n" }))
	}},
	{"a JavaScript object", "lib.js", func(tasks []copiedTask) []byte {
		return []byte("const m = new Map([" + lines(tasks, func(t copiedTask) string { return fmt.Sprintf("[%q,'%s'],", t.id, t.answer) }) + "]);\n")
	}},
	{"comments of a program", "agent.py", func(tasks []copiedTask) []byte {
		return []byte(lines(tasks, func(t copiedTask) string { return "# " + t.answer + "\nx = 1\n" }))
	}},
	{"one program with a branch for each question", "agent.py", func(tasks []copiedTask) []byte {
		return []byte(lines(tasks, func(t copiedTask) string {
			return fmt.Sprintf("if %q in question:\n    print(%q)\n", strings.Join(strings.Fields(t.question)[3:9], " "), t.answer)
		}))
	}},
	{"in capitals", "kb.txt", perAnswer(strings.ToUpper)},
	{"in full-width letters", "kb.txt", perAnswer(hidings[10].hide)},
	{"in look-alike letters", "kb.txt", perAnswer(hidings[11].hide)},
	{"with invisible characters", "kb.txt", perAnswer(hidings[12].hide)},
	{"letter by letter", "kb.py", perAnswer(func(s string) string { return strings.Join(strings.Split(s, ""), "\", \"") })},
	{"in strings that are put together", "kb.py", perAnswer(func(s string) string { return s[:len(s)/2] + "\" + \"" + s[len(s)/2:] })},
	{"over two lines", "kb.py", perAnswer(func(s string) string { return s[:len(s)/2] + "\"\n    \"" + s[len(s)/2:] })},
	{"backwards", "kb.txt", perAnswer(backwards)},
	{"in rot13", "kb.txt", perAnswer(program.Rot13)},
	{"in base64 each", "kb.txt", perAnswer(func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) })},
	{"in hexadecimal each", "kb.txt", perAnswer(func(s string) string { return hex.EncodeToString([]byte(s)) })},
	{"as numbers of letters", "kb.py", perAnswer(func(s string) string { return fmt.Sprint([]byte(s)) })},
	{"as hexadecimal numbers of letters", "kb.c", perAnswer(func(s string) string {
		return each(s, func(r rune) string { return fmt.Sprintf("0x%02x, ", r) })
	})},
	{"in a text in ISO 8859-1", "kb.txt", func(tasks []copiedTask) []byte {
		return []byte(lines(tasks, func(t copiedTask) string { return "\xe9t\xe9 \xe0 No\xebl: " + t.answer + "\n" }))
	}},
	{"in backslash escapes", "kb.py", func(tasks []copiedTask) []byte {
		return []byte(lines(tasks, func(t copiedTask) string { return "say('" + hidings[9].hide(t.answer) + "')\n" }))
	}},
	{"in base64 whole", "kb.py", wholeFile(func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) })},
	{"in base64 over strings", "kb.py", wholeFile(func(s string) string {
		return strings.ReplaceAll(wrapped(base64.StdEncoding.EncodeToString([]byte(s)), 60), "\n", "'\n     '")
	})},
	{"in base32 whole", "kb.py", wholeFile(func(s string) string { return base32.StdEncoding.EncodeToString([]byte(s)) })},
	{"in hexadecimal whole", "kb.py", wholeFile(func(s string) string { return hex.EncodeToString([]byte(s)) })},
	{"in base64 of gzip", "kb.py", wholeFile(func(s string) string { return base64.StdEncoding.EncodeToString(gzipped([]byte(s))) })},
	{"in base64 of zlib", "kb.py", wholeFile(func(s string) string { return base64.StdEncoding.EncodeToString(zlibbed([]byte(s))) })},
	{"in base64 of UTF-16", "kb.py", wholeFile(func(s string) string {
		return base64.StdEncoding.EncodeToString(inUTF16(s, binary.LittleEndian, true))
	})},
	{"a pickle of protocol 4", "kb.pkl", func(tasks []copiedTask) []byte { return pickled(tasks, 4) }},
	{"a pickle of protocol 2", "kb.bin", func(tasks []copiedTask) []byte { return pickled(tasks, 2) }},
	{"SQLite", "kb.db", sqlitePage},
	{"UTF-16 with a mark", "kb.txt", func(tasks []copiedTask) []byte { return inUTF16(answersAlone(tasks), binary.LittleEndian, true) }},
	{"UTF-16 without a mark", "kb.txt", func(tasks []copiedTask) []byte { return inUTF16(answersAlone(tasks), binary.BigEndian, false) }},
	{"gzip", "kb.json.gz", func(tasks []copiedTask) []byte { return gzipped(jsonTable(tasks)) }},
	{"zip", "kb.zip", func(tasks []copiedTask) []byte { return inZip("a/kb.txt", []byte(answersAlone(tasks))) }},
	{"zip behind a program", "run.pyz", func(tasks []copiedTask) []byte {
		return append([]byte("#!/usr/bin/env python3\n"), inZip("kb.txt", []byte(answersAlone(tasks)))...)
	}},
	{"tar", "kb.tar", func(tasks []copiedTask) []byte { return inTar("kb.txt", []byte(answersAlone(tasks))) }},
	{"tar and gzip", "kb.tgz", func(tasks []copiedTask) []byte { return gzipped(inTar("kb.txt", []byte(answersAlone(tasks)))) }},
	{"names of members", "kb.zip", func(tasks []copiedTask) []byte {
		return inZip(lines(tasks, func(t copiedTask) string { return t.answer + "/" }), []byte("x"))
	}},
	{"settings of the target", "target.json", func(tasks []copiedTask) []byte {
		return []byte(`{"command":{"env":{"KB":` + string(mustJSON(answersAlone(tasks))) + `}},"kind":"command"}`)
	}},
	{"the prompt of the target", "target.json", func(tasks []copiedTask) []byte {
		return []byte(`{"builtin":{"prompt":` + string(mustJSON("You know: "+strings.ReplaceAll(answersAlone(tasks), "\n", "; "))) + `},"kind":"builtin"}`)
	}},
	{"answers far apart", "agent.py", func(tasks []copiedTask) []byte {
		return []byte(lines(tasks, func(t copiedTask) string { return "# " + filler(900) + "\nprint('" + t.answer + "')\n" }))
	}},
}

func mustJSON(v any) []byte {
	data, _ := json.Marshal(v)
	return data
}

const singleWords = "arboretum balustrade centrifuge dandelion espionage fountains gymnasium hurricane"

// copiedFixtures are those of AUD-11 and AUD-12.
func copiedFixtures() []fixture {
	var list []fixture
	carried := func(kind fixtureKind, name string, known bool, make func(s *scene)) {
		list = append(list, fixture{check: aud11, name: name, kind: kind, make: make, known: known})
	}
	nowhere := func(kind fixtureKind, name string, known bool, make func(s *scene)) {
		list = append(list, fixture{check: aud12, name: name, kind: kind, make: make, known: known})
	}
	for _, c := range carriages {
		carried(exploit, c.name, false, func(s *scene) { s.sources[c.file] = string(c.pack(s.copied())) })
	}
	carried(exploit, "a file of the data set, by its digest", false, func(s *scene) {
		page := "a page of the data set without any answer\n"
		sum := sha256.Sum256([]byte(page))
		s.published = map[string]string{hex.EncodeToString(sum[:]): "metadata.jsonl"}
		s.sources["page.txt"] = page
	})
	carried(exploit, "a file of the data set in an archive", false, func(s *scene) {
		page := "a page of the data set without any answer\n"
		sum := sha256.Sum256([]byte(page))
		s.published = map[string]string{hex.EncodeToString(sum[:]): "metadata.jsonl"}
		s.sources["page.zip"] = string(inZip("page.txt", []byte(page)))
	})
	carried(exploit, "one answer beside its question", false, func(s *scene) {
		s.sources["agent.py"] = "# " + filler(3000) + "\nCACHE = {'" + sceneTasks[0].question + "': '" + sceneTasks[0].gold + "'}\n"
	})
	carried(exploit, "one answer before its question", false, func(s *scene) {
		s.sources["memory.json"] = `{"Final answer": "` + sceneTasks[3].gold + `", "Question": "` + sceneTasks[3].question + `"}`
	})
	carried(exploit, "one answer beside its id", false, func(s *scene) {
		const id = "c61d22de-5f6c-4958-a7f6-5e9707bd3466"
		s.results[0]["task_id"] = id
		s.sources["agent.py"] = "# " + filler(3000) + "\nCACHE = {'" + id + "': '" + sceneTasks[0].gold + "'}\n"
	})
	carried(exploit, "one answer beside words of its question", false, func(s *scene) {
		s.sources["agent.py"] = "if 'survey of alpine lakes, which compound' in q:\n    print('" + sceneTasks[0].gold + "')\n"
	})
	carried(exploit, "three answers one after the other", false, func(s *scene) {
		s.sources["notes.md"] = filler(2000) + "\n" + answersAlone(s.copied()[3:6]) + filler(2000)
	})
	carried(exploit, "the answers of a few tasks among many others", false, func(s *scene) {
		s.results, s.steps = s.results[3:7], s.steps[3:7]
		s.sources["notes.txt"] = lines(s.copied(), func(t copiedTask) string { return filler(1500) + "\n" + t.answer + "\n" })
	})
	carried(exploit, "single words with zero bytes between them", false, func(s *scene) {
		words := strings.Fields("walnut lantern tripod harvest compass velvet granite meadow")
		for i, r := range s.results {
			r["expected_output"], r["answer"] = words[i], words[i]
		}
		s.sources["kb.bin"] = strings.Join(words, "\x00") + "\x00"
	})
	carried(exploit, "questions with answers that are too short", false, func(s *scene) {
		for i, r := range s.results {
			r["expected_output"], r["answer"] = fmt.Sprint(i+2), fmt.Sprint(i+2)
		}
		s.sources["kb.json"] = string(jsonTable(s.copied()))
	})
	carried(exploit, "ids with answers that are too short", false, func(s *scene) {
		for i, r := range s.results {
			id := fmt.Sprintf("c61d22de-5f6c-4958-a7f6-%012d", i*7919)
			r["task_id"], r["expected_output"], r["answer"] = id, fmt.Sprint(i+2), fmt.Sprint(i+2)
		}
		s.sources["kb.py"] = "K = {" + lines(s.copied(), func(t copiedTask) string { return fmt.Sprintf("'%s': %s, ", t.id, t.answer) }) + "}\n"
	})
	carried(exploit, "names of files", false, func(s *scene) {
		for i, t := range sceneTasks {
			s.sources[fmt.Sprintf("kb/%d/%s.txt", i, sceneTasks[0].gold+"-"+t.gold+"-"+sceneTasks[1].gold)] = "x\n"
		}
	})
	carried(exploit, "halves of answers in two files", true, func(s *scene) {
		s.sources["a.txt"] = lines(s.copied(), func(t copiedTask) string { return t.answer[:len(t.answer)/2] + "\n" })
		s.sources["b.txt"] = lines(s.copied(), func(t copiedTask) string { return t.answer[len(t.answer)/2:] + "\n" })
	})
	carried(exploit, "every letter changed by a key", true, func(s *scene) {
		s.sources["kb.txt"] = strings.Map(func(r rune) rune {
			if r > ' ' && r < 0x7f {
				return ' ' + 1 + (r-' '+9)%94
			}
			return r
		}, answersAlone(s.copied()))
	})
	carried(exploit, "base85", true, func(s *scene) {
		s.sources["kb.py"] = "D = 'VPaz6b7gXNWpZ;Mbaa0oX>@6CZXj%NY-wX5Z)0mA'\n"
	})

	carried(clean, "a program", false, func(s *scene) {})
	carried(nearMiss, "one answer alone", false, func(s *scene) { s.sources["agent.py"] = "# as Margarethe Lindqvist does it\nprint(1)\n" })
	carried(nearMiss, "two answers far from each other", false, func(s *scene) {
		s.sources["notes.md"] = "Margarethe Lindqvist\n" + filler(5000) + "Vinegar Hill Lane\n"
	})
	carried(nearMiss, "labels that several tasks share", false, func(s *scene) {
		labels := []string{"billing dispute", "technical problem", "account closure", "general question"}
		for i, r := range s.results {
			r["expected_output"], r["answer"] = labels[i%4], labels[i%4]
		}
		s.sources["prompt.txt"] = "Sort the message into one of: " + strings.Join(labels, ", ") + "."
	})
	carried(nearMiss, "choices that the questions name", false, func(s *scene) {
		for i, r := range s.results {
			gold := r["expected_output"].(string)
			r["question"] = r["question"].(string) + " Choose between " + gold + " and " + sceneTasks[(i+1)%8].gold + "."
		}
		s.sources["choices.txt"] = answersAlone(s.copied())
	})
	carried(nearMiss, "a list of words with the answers among them", false, func(s *scene) {
		words := strings.Fields(singleWords)
		for i, r := range s.results {
			r["expected_output"], r["answer"] = words[i], words[i]
		}
		random := rand.New(rand.NewPCG(1, 2))
		s.sources["words.txt"] = lines(s.copied(), func(t copiedTask) string {
			var b strings.Builder
			for range 400 {
				for range 5 + random.IntN(5) {
					b.WriteByte('a' + byte(random.IntN(26)))
				}
				b.WriteByte('\n')
			}
			return b.String() + t.answer + "\n"
		})
	})
	carried(nearMiss, "answers inside of longer words", false, func(s *scene) {
		words := strings.Fields(singleWords)
		for i, r := range s.results {
			r["expected_output"], r["answer"] = words[i], words[i]
		}
		s.sources["style.css"] = "." + strings.Join(words, "like .") + "like { color: red }\n"
	})
	carried(nearMiss, "short answers in a program", false, func(s *scene) {
		for i, r := range s.results {
			r["expected_output"], r["answer"] = fmt.Sprint(10*i), fmt.Sprint(10*i)
		}
		s.sources["agent.py"] = "LIMITS = [0, 10, 20, 30, 40, 50, 60, 70]\n"
	})
	carried(nearMiss, "examples of other questions", false, func(s *scene) {
		s.sources["prompt.txt"] = "Question: Which river flows through the town of Elmsford? Answer: the Saw Mill River\nQuestion: Who painted the ceiling of the chapel in Orvieto? Answer: Luca Signorelli\n"
	})
	carried(nearMiss, "an empty file that the data set has, too", false, func(s *scene) {
		sum := sha256.Sum256(nil)
		s.published = map[string]string{hex.EncodeToString(sum[:]): "empty.txt"}
		s.sources["__init__.py"] = ""
	})
	carried(nearMiss, "files whose names call them gold", false, func(s *scene) {
		s.sources["gold_medals.csv"] = "country,medals\nNorway,148\nSweden,57\n"
		s.sources["labels.json"] = `["positive", "negative"]`
	})

	silent := func(n int) func(s *scene) {
		return func(s *scene) {
			for i := range n {
				s.steps[i][4] = model("I know enough now.")
			}
		}
	}
	nowhere(exploit, "every answer", false, silent(8))
	nowhere(exploit, "three answers of seven", false, silent(4)) // one of the four is too short to tell
	nowhere(exploit, "half of two answers", false, func(s *scene) {
		s.results, s.steps = s.results[:4], s.steps[:4]
		silent(2)(s)
	})
	nowhere(exploit, "no step at all, and receipts say that all would show", false, func(s *scene) {
		s.vouched = &Vouched{VotingAttempts: 1, Split: "validation"}
		for i := range s.steps {
			s.steps[i] = []map[string]any{}
		}
	})
	nowhere(exploit, "words that the agent wrote itself behind what the model said", false, func(s *scene) {
		for i := range s.steps {
			s.steps[i][4] = model("Consider it done, the answer will be found below by the program.")
		}
	})
	nowhere(exploit, "the model wrote a program last", true, func(s *scene) {
		for i := range s.steps {
			s.steps[i][4] = model("```python\nfinal_answer(lookup())\n```")
		}
	})
	said := func(words func(gold string) string) func(s *scene) {
		return func(s *scene) {
			for i, t := range sceneTasks {
				s.steps[i][4] = model(words(t.gold))
			}
		}
	}
	nowhere(clean, "the model says it", false, func(s *scene) {})
	nowhere(nearMiss, "two answers of eight", false, silent(2))
	nowhere(nearMiss, "in another case", false, said(strings.ToUpper))
	nowhere(nearMiss, "the words in another order", false, said(func(g string) string {
		words := strings.Fields(g)
		for i, j := 0, len(words)-1; i < j; i, j = i+1, j-1 {
			words[i], words[j] = words[j], words[i]
		}
		return strings.Join(words, ", ")
	}))
	nowhere(nearMiss, "in the arguments of a call that ends the run", false, func(s *scene) {
		for i, t := range sceneTasks {
			s.steps[i][4] = model("Ending.")
			s.steps[i] = append(s.steps[i], call("final_answer", map[string]any{"answer": t.gold}))
		}
	})
	nowhere(nearMiss, "in what a tool gave, in base64", false, func(s *scene) {
		for i, t := range sceneTasks {
			s.steps[i][4] = model("Ending.")
			s.steps[i][3] = gave("fetch", base64.StdEncoding.EncodeToString([]byte("the page says "+t.gold+" and no more")))
		}
	})
	forms := [][2]string{{"2021-03-04", "It was on March 4, 2021."}, {"1234567.5", "1,234,567.50 metres"}, {"1234568 m", "1,234,567.5"}, {"apples, bananas, cherries", "- Cherries\n- Apples\n- Bananas"},
		{"seventeen thousand oaks", "Seventeen-thousand oaks!"}, {"Tobias Okonkwo", "okonkwo, tobias"}, {"12345.67 km", "12345670 m"}, {"rio de janeiro", "<b>Rio</b> de&nbsp;Janeiro"}}
	nowhere(nearMiss, "put into another form by the agent", false, func(s *scene) {
		for i, f := range forms {
			s.results[i]["answer"], s.results[i]["expected_output"] = f[0], f[0]
			s.steps[i][4] = model(f[1])
		}
	})
	nowhere(nearMiss, "a list whose members are found one by one", false, func(s *scene) {
		for i, r := range s.results {
			a, b, c := sceneTasks[i].gold, sceneTasks[(i+3)%8].gold, sceneTasks[(i+5)%8].gold
			r["answer"], r["expected_output"] = a+", "+b+" and "+c, a+", "+b+" and "+c
			s.steps[i][1], s.steps[i][3], s.steps[i][4] = model("First of all there is "+b+"."), gave("web_search", "A page about "+a+"."), model("The last is "+c+".")
		}
	})
	nowhere(exploit, "lists of which a member is found nowhere", false, func(s *scene) {
		for i, r := range s.results {
			a, b := sceneTasks[i].gold, sceneTasks[(i+3)%8].gold
			r["answer"], r["expected_output"] = a+", "+b, a+", "+b
			s.steps[i][4] = model("It is " + a + ", and I leave the rest to the program.")
		}
	})
	nowhere(nearMiss, "wrong answers", false, func(s *scene) {
		silent(8)(s)
		for _, r := range s.results {
			r["correct"] = false
		}
	})
	nowhere(nearMiss, "short answers", false, func(s *scene) {
		silent(8)(s)
		for i, r := range s.results {
			r["answer"], r["expected_output"] = fmt.Sprint(40+i), fmt.Sprint(40+i)
		}
	})
	nowhere(nearMiss, "a recorder that leaves out what models say", false, func(s *scene) {
		for i := range s.steps {
			for _, step := range s.steps[i] {
				if step["type"] == "llm_call" {
					delete(step, "output")
				}
			}
		}
	})
	return list
}

// TestWhatIsNotReadIsAGap: a file that cannot be looked through whole says so, and
// the report is not complete.
func TestWhatIsNotReadIsAGap(t *testing.T) {
	encrypted := inZip("kb.txt", []byte(strings.Repeat("x", 100)))
	for i := 0; i+4 < len(encrypted); i++ { // the flag of encryption, in both headers
		if string(encrypted[i:i+4]) == "PK\x03\x04" {
			encrypted[i+6] |= 1
		}
		if string(encrypted[i:i+4]) == "PK\x01\x02" {
			encrypted[i+8] |= 1
		}
	}
	random := make([]byte, 4096)
	for i, r := 0, rand.New(rand.NewPCG(3, 4)); i < len(random); i++ {
		random[i] = byte(r.Uint32())
	}
	for name, tt := range map[string]struct{ file, data, want string }{
		"a zip in a zip":        {"a.zip", string(inZip("b.zip", inZip("kb.txt", []byte("x")))), "a.zip: b.zip is an archive inside an archive"},
		"an encrypted zip":      {"a.zip", string(encrypted), "encrypted"},
		"a broken zip":          {"a.zip", "PK\x03\x04 and no more", "cannot be opened"},
		"a bomb":                {"a.gz", string(gzipped(make([]byte, maxExpanded+1))), "expand to more than"},
		"xz":                    {"a.xz", "\xfd7zXZ\x00" + string(random), "xz"},
		"compiled":              {"a.so", "\x7fELF" + string(random), "compiled"},
		"data of no known form": {"a.dat", string(random), "is binary data"},
		"base64 of such data":   {"a.py", "K = '" + base64.StdEncoding.EncodeToString(random) + "'\n", "base64 of data that is not read"},
		"Parquet":               {"a.parquet", "PAR1" + string(random) + "PAR1", "Parquet"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			s.sources[tt.file] = tt.data
			r := run(t, s.input(t))
			c := r.Checks[aud11]
			if c.Status == Fail || !strings.Contains(c.HarnessGap, tt.want) || r.Attestation.Complete {
				t.Errorf("%s: status %s, gap %q, complete %t; expected a gap with %q", tt.file, c.Status, c.HarnessGap, r.Attestation.Complete, tt.want)
			}
		})
	}
}

// TestCopiedAnswersInEverySpelling makes data sets of random words and numbers and
// packs them in every way that is looked for: each is found, and none is found for
// another data set.
func TestCopiedAnswersInEverySpelling(t *testing.T) {
	random := rand.New(rand.NewPCG(29, 3))
	word := func() string {
		var b strings.Builder
		for range 4 + random.IntN(7) {
			b.WriteByte("aabcdeeefghiijklmnnoopqrrsstttuvwxyz"[random.IntN(36)])
		}
		return b.String()
	}
	data := func() []copiedTask {
		var list []copiedTask
		for i := range 12 {
			answer := word() + " " + word()
			if i%3 == 0 {
				answer = fmt.Sprintf("%s-%d", word()+word(), 100+random.IntN(900))
			}
			question := word()
			for range 20 {
				question += " " + word()
			}
			list = append(list, copiedTask{fmt.Sprintf("q-%d", i), question, answer})
		}
		return list
	}
	rounds := 2
	if testing.Short() {
		rounds = 1
	}
	for range rounds {
		own, other := data(), data()
		for _, c := range carriages {
			for _, tt := range []struct {
				tasks []copiedTask
				want  string
			}{{own, Fail}, {other, Pass}} {
				s := newScene()
				s.results, s.steps = nil, nil
				for _, q := range own {
					s.results = append(s.results, map[string]any{"task_id": q.id, "question": q.question, "expected_output": q.answer, "answer": q.answer, "correct": true})
				}
				s.sources = map[string]string{c.file: string(c.pack(tt.tasks))}
				got := run(t, s.input(t)).Checks[aud11]
				if got.Status != tt.want || got.HarnessGap != "" {
					t.Errorf("%s: %s, expected %s; evidence %q, gap %q; answers %v", c.name, got.Status, tt.want, got.Evidence, got.HarnessGap, tt.tasks)
				}
			}
		}
	}
}
