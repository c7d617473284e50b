package audit

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A benchRun is a run of ordinary texts: 165 tasks with 12 tool results each, of
// 4 KiB as a recorder keeps them.
func benchRun(tasks, results, size int) (resultLines, trajectories []byte) {
	rng := rand.New(rand.NewPCG(1, 2))
	// 20,000 words, of which a few are frequent, as in a language.
	words := strings.Fields(`the of and a to in is was he for it with as his on be at by had not are but from or have an they which one you were`)
	var syllables []string
	for _, c := range strings.Fields(`b c d f g h k l m n p r s t v w br ch cl dr fl gr pl pr sh st th tr`) {
		for _, v := range strings.Fields(`a e i o u ea ou er an in on el ar ist ent`) {
			syllables = append(syllables, c+v)
		}
	}
	for len(words) < 20_000 {
		word := ""
		for range 2 + rng.IntN(3) {
			word += syllables[rng.IntN(len(syllables))]
		}
		words = append(words, word)
	}
	pick := func() string {
		if rng.IntN(2) == 0 {
			return words[rng.IntN(30)]
		}
		return words[rng.IntN(len(words))]
	}
	write := func(n int) string {
		var b strings.Builder
		for b.Len() < n {
			b.WriteString(pick())
			switch rng.IntN(14) {
			case 0:
				b.WriteString(".\n")
			case 1:
				b.WriteString(", ")
			default:
				b.WriteByte(' ')
			}
		}
		return b.String()[:n]
	}
	var r, t bytes.Buffer
	for i := range tasks {
		gold := fmt.Sprintf("the answer number %d", i*7919)
		if i%2 == 0 { // half of the answers are short
			gold = fmt.Sprintf("%.8s%d", words[1000+i], i%10)
		}
		fmt.Fprintf(&r, `{"task_id":"task-%06d","model":"m","question":%q,"correct":true,"answer":%q,"expected_output":%q,"turns":12,"outputTokens":100}`+"\n", i, write(180), gold, gold)
		fmt.Fprintf(&t, `{"task_id":"task-%06d","model":"m","turns":12,"steps":[{"type":"prompt","content":%q}`, i, write(1500))
		for range results {
			fmt.Fprintf(&t, `,{"type":"llm_call","output":%q},{"type":"tool_call","name":"web_search","input":{"query":%q}},{"type":"tool_result","name":"web_search","output":%q}`, write(300), write(60), write(size))
		}
		t.WriteString("]}\n")
	}
	return r.Bytes(), t.Bytes()
}

func bytesFile(name string, b []byte) Source {
	return Source{Name: name, Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil }}
}

// cpu reports what the work costs in time of the processors, which does not
// depend on who else uses them: megabytes for each second of one processor.
func cpu(b *testing.B, size int) func() {
	begin := cpuTime()
	return func() {
		b.ReportMetric(float64(size)*float64(b.N)/1e6/(cpuTime()-begin).Seconds(), "MB/cpu-s")
	}
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func BenchmarkFull(b *testing.B) {
	r, t := benchRun(500, 12, 4096)
	b.SetBytes(int64(len(t)))
	defer cpu(b, len(t))()
	for b.Loop() {
		if _, err := Run(context.Background(), Input{Results: bytesFile("r", r), Trajectories: bytesFile("t", t)}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPrefilter is the scan that every text goes through: folded, looked
// through for anything encoded, and for every question and answer.
func BenchmarkPrefilter(b *testing.B) {
	r, t := benchRun(500, 12, 4096)
	a := newAuditor(Input{Results: bytesFile("r", r)})
	if err := a.readResults(context.Background()); err != nil {
		b.Fatal(err)
	}
	a.index = newIndex(a.results)
	text := bytes.ReplaceAll(t, []byte(`\n`), []byte("\n"))
	text = bytes.ReplaceAll(text, []byte(`\"`), []byte(`"`))
	b.SetBytes(int64(len(text)))
	b.ResetTimer()
	defer cpu(b, len(text))()
	b.RunParallel(func(pb *testing.PB) {
		w := newWorker(a)
		for pb.Next() {
			for rest := text; len(rest) > 0; {
				n := min(4096, len(rest))
				w.see(rest[:n], 0)
				rest = rest[n:]
			}
		}
	})
}

// BenchmarkFloor is what reading and hashing alone take.
func BenchmarkFloor(b *testing.B) {
	_, t := benchRun(500, 12, 4096)
	b.SetBytes(int64(len(t)))
	defer cpu(b, len(t))()
	for b.Loop() {
		h := sha256.New()
		io.Copy(h, bytes.NewReader(t))
		h.Sum(nil)
	}
}

// BenchmarkContains is what looking for a single text takes.
func BenchmarkContains(b *testing.B) {
	_, t := benchRun(500, 12, 4096)
	b.SetBytes(int64(len(t)))
	defer cpu(b, len(t))()
	needle := []byte("cyclohexanecarboxylic acid")
	for b.Loop() {
		if bytes.Contains(t, needle) {
			b.Fatal("it is there")
		}
	}
}
