package cli

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"tallystick/internal/read/bundle"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
)

// bundleReplay is the walk as one document. A text that is not UTF-8 is
// shown as nearly as JSON can.
type bundleReplay struct {
	Path     string   `json:"path"`
	Verified bool     `json:"verified"`
	SignedBy []string `json:"signed_by"`
	bundleAnswer
	Spec             *string     `json:"spec"`
	Plan             *string     `json:"plan"`
	Diff             *string     `json:"diff"`
	TestLog          *string     `json:"test_log"`
	Postmortem       *string     `json:"postmortem"`
	Tests            testSummary `json:"tests"`
	OutcomeSupported bool        `json:"outcome_supported"`
	Detail           string      `json:"detail"`
}

type testSummary struct {
	Found   bool     `json:"found"`
	Passed  uint64   `json:"passed"`
	Failed  uint64   `json:"failed"`
	Runners []string `json:"runners"`
}

// replayBundle verifies a bundle, walks through what it says, and checks that its test
// log supports its outcome. Without a good signature nothing is shown.
func replayBundle(ctx context.Context, env *Env, o bundleTrust, path string) error {
	p, v, err := o.read(path)
	if err != nil {
		return err
	}
	// Known before the walk, so that leaving it early changes no exit code.
	tests, mismatch := bundle.CheckOutcome(&p.Bundle)
	mismatch = inFile(path, mismatch)

	a := bundleReplay{Path: path, Verified: v != nil, SignedBy: []string{}, bundleAnswer: describeBundle(p),
		Spec: optional(p.Spec), Plan: optional(p.Plan), Diff: optional(p.Diff), TestLog: optional(p.TestLog), Postmortem: optional(p.Postmortem),
		Tests:            testSummary{tests.Found(), tests.Passed, tests.Failed, append([]string{}, tests.Runners...)},
		OutcomeSupported: mismatch == nil, Detail: tests.String()}
	if v != nil {
		a.SignedBy = signedBy(v)
	}
	if mismatch != nil {
		a.Detail = mismatch.Error()
	}
	if err := env.showPaged(ctx, a, func(out io.Writer) { a.walk(out) }); err != nil {
		return err
	}
	return mismatch
}

func optional(value []byte) *string {
	if value == nil {
		return nil
	}
	s := string(value)
	return &s
}

// walk prints the bundle in the order in which a task goes. What comes from the
// bundle stands behind a bar, so that it cannot pose as what we say of it.
func (a bundleReplay) walk(out io.Writer) {
	fmt.Fprintf(out, "bundle    %s\n", plain.Line(a.Path))
	if a.Verified {
		fmt.Fprintf(out, "verified  %s\n", strings.Join(a.SignedBy, " and "))
	} else {
		fmt.Fprintln(out, bad.of("NOT VERIFIED")+": no signature was checked, so any writer may have made this")
	}
	a.headerText(out)
	section := func(title string, text *string, diff bool) {
		if text == nil {
			fmt.Fprintf(out, "\n%s: none\n", title)
			return
		}
		fmt.Fprintf(out, "\n%s (%d bytes)\n", title, len(*text))
		quote(out, *text, diff)
	}
	section("SPECIFICATION", a.Spec, false)
	section("PLAN", a.Plan, false)
	fmt.Fprintf(out, "\nTOOL CALLS (%d)\n", len(a.Trace))
	for i, c := range a.Trace {
		fmt.Fprintf(out, "  | %4d  %s\n", i+1, c)
	}
	section("DIFF", a.Diff, true)
	section("TEST LOG", a.TestLog, false)
	if a.Postmortem != nil || a.Header.Outcome != uint8(bundle.Solved) {
		section("POSTMORTEM", a.Postmortem, false)
	}
	if a.OutcomeSupported {
		fmt.Fprintf(out, "\noutcome   %s; test log: %s\n", a.Header.OutcomeName, a.Detail)
	} else {
		fmt.Fprintf(out, "\noutcome   %s, NOT SUPPORTED: %s\n", a.Header.OutcomeName, plain.Line(a.Detail))
	}
	fmt.Fprintf(out, "evidence  %s\n", evidenceText(a.EvidenceComplete))
}

// quote prints text from the bundle, each line behind a bar, made safe, and a
// diff in the colours that people know.
func quote(out io.Writer, text string, diff bool) {
	if text == "" {
		return
	}
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		safe := plain.Block(line)
		if diff {
			safe = diffLine(line, safe)
		}
		fmt.Fprintf(out, "  | %s\n", safe)
	}
}

// diffLine gives a line of a diff its style.
func diffLine(line, safe string) string {
	switch {
	case strings.HasPrefix(line, "+++"), strings.HasPrefix(line, "---"), strings.HasPrefix(line, "diff "):
		return heading.of(safe)
	case strings.HasPrefix(line, "@@"):
		return doubtful.of(safe)
	case strings.HasPrefix(line, "+"):
		return good.of(safe)
	case strings.HasPrefix(line, "-"):
		return bad.of(safe)
	}
	return safe
}

// nanoTime is a time of the format for a person.
func nanoTime(ns uint64) string {
	if ns > math.MaxInt64 {
		return fmt.Sprintf("%d ns after 1970", ns)
	}
	return time.Unix(0, int64(ns)).UTC().Format(time.RFC3339Nano)
}

// showPaged is [Env.Answer], a page at a time when a person sits at both ends.
func (e *Env) showPaged(ctx context.Context, v any, text func(io.Writer)) error {
	if e.JSON || !e.Interactive() || !isTerminal(e.Stdout) {
		return e.Answer(v, text)
	}
	var b bytes.Buffer
	text(&b)
	rows, columns := terminalSize(e.Stdout)
	p := pager{ctx: ctx, in: e.Stdin, prompts: e.Stderr, rows: rows, columns: columns}
	return p.show(string(onTerminal(e.Stdout, b.Bytes())), func(page string) error {
		return e.Answer(nil, func(w io.Writer) { io.WriteString(w, page) })
	})
}

// A pager shows text one screen at a time.
type pager struct {
	ctx           context.Context
	in            io.Reader
	prompts       io.Writer
	rows, columns int
}

const pagerPrompt = "-- more: Enter, or q to end --"

// show prints pages until the text or the person's patience ends. The end of
// the input ends it too: no reader is there.
func (p pager) show(text string, print func(page string) error) error {
	for first := true; text != ""; first = false {
		if !first {
			more, err := p.ask()
			if err != nil || !more {
				return err
			}
		}
		n := p.page(text)
		if err := print(text[:n]); err != nil {
			return err
		}
		text = text[n:]
	}
	return nil
}

// page is how many bytes of text fill the screen but for the line of the
// prompt. A line longer than the screen is wide takes several rows of it.
func (p pager) page(text string) int {
	n := 0
	for left := max(p.rows-1, 1); n < len(text); {
		line := len(text) - n
		if i := strings.IndexByte(text[n:], '\n'); i >= 0 {
			line = i + 1
		}
		left -= 1 + (line-2)/max(p.columns, 1)
		if left < 0 && n > 0 {
			break
		}
		n += line
	}
	return n
}

// ask waits for a line of the person.
func (p pager) ask() (bool, error) {
	io.WriteString(p.prompts, pagerPrompt)
	answer := make(chan string, 1)
	go func() { answer <- readLine(p.in) }()
	select {
	case <-p.ctx.Done():
		return false, refusal.Newf(refusal.Interrupted, "stopped by a signal").WithHint("run the same command again")
	case line := <-answer:
		return line == "\n" || strings.TrimSpace(line) != "" && !strings.HasPrefix(strings.TrimSpace(line), "q"), nil
	}
}

// readLine reads a byte at a time, so that nothing after the line is taken. It
// is empty at the end of the input.
func readLine(r io.Reader) string {
	var line []byte
	for one := make([]byte, 1); ; {
		n, err := r.Read(one)
		if n > 0 {
			if line = append(line, one[0]); one[0] == '\n' {
				return string(line)
			}
		}
		if err != nil {
			return string(line)
		}
	}
}

// signedBy lists whose signatures were verified.
func signedBy(v *bundle.Verified) []string {
	var out []string
	if v.HMACVerified {
		out = append(out, "HMAC-SHA256")
	}
	if v.VerifiedKey != nil {
		name := hex.EncodeToString(v.VerifiedKey)
		if key, err := seal.NewPublicKey(v.VerifiedKey); err == nil {
			name = key.Fingerprint()
		}
		out = append(out, "Ed25519 "+name)
	}
	return out
}
