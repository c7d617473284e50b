package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/spf13/cobra"

	"tallystick/internal/bench"
	"tallystick/internal/evidence"
	"tallystick/internal/ledger"
	"tallystick/internal/plain"
	"tallystick/internal/refusal"
	"tallystick/internal/store"
	"tallystick/internal/verify"
	"tallystick/internal/workspace"
)

func newDemo(env *Env) *cobra.Command {
	return &cobra.Command{
		Use:   "demo [DIR]",
		Short: "Offline, in seconds: keep a record, then try to forge it in several ways",
		Long: `Make a workspace in DIR (default: a temporary folder, removed afterwards), keep a
record in it, prove one entry to a stranger, and then forge the record in several
ways. Exit 0 only if every forgery is refused.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := ""
			if len(args) == 1 {
				dir = args[0]
			}
			return runDemo(cmd.Context(), env, dir)
		},
	}
}

// demoScores are the records of the demo: four cases, one of them failed.
var demoScores = []string{
	`{"case":"refund-within-30-days","score":1}`,
	`{"case":"refund-too-late","score":1}`,
	`{"case":"refund-by-injection","score":0}`,
	`{"case":"refund-twice","score":1}`,
}

// A demo is a workspace, an older copy of it, and what a stranger was given.
type demo struct {
	env     *Env // of the workspace itself
	dir     string
	old     string // copy of the workspace before the last records
	scratch string // for forged copies
	key     string // the ledger's verifier key
	receipt string
}

// demoAnswer is what a script gets.
type demoAnswer struct {
	Workspace string        `json:"workspace"`
	Entries   int64         `json:"entries"`
	Head      string        `json:"head"`
	Forgeries []demoForgery `json:"forgeries"`
	OK        bool          `json:"ok"`
}

type demoForgery struct {
	Forgery  string       `json:"forgery"`
	Refused  bool         `json:"refused"`
	Name     refusal.Name `json:"name"`
	Expected refusal.Name `json:"expected"`
	Detail   string       `json:"detail"`
}

func runDemo(ctx context.Context, env *Env, dir string) error {
	temp, remove, err := store.TempDir("tally-demo-")
	if err != nil {
		return err
	}
	defer remove()
	if dir == "" {
		dir = filepath.Join(temp, "workspace")
	}
	d := &demo{dir: dir, old: filepath.Join(temp, "old"), scratch: temp, receipt: filepath.Join(temp, "receipt.tlog-proof")}
	// The demo's memory of what it signed is its own, so that forging it leaves
	// nothing behind on this machine.
	d.env = env.inside(dir, filepath.Join(temp, "state"))
	a := demoAnswer{Workspace: dir}
	if err := d.record(ctx, env, &a); err != nil {
		return err
	}
	a.OK = true
	for _, f := range demoForgeries {
		got := d.try(f)
		a.Forgeries = append(a.Forgeries, got)
		a.OK = a.OK && got.Refused && got.Name == got.Expected
	}
	if err := env.Answer(a, a.text); err != nil {
		return err
	}
	if !a.OK {
		return refusal.Newf(refusal.ChainTamperDetected, "a forgery was not refused as it should be").WithHint("this is a bug in tally; please report it")
	}
	return nil
}

func (a demoAnswer) text(w io.Writer) {
	fmt.Fprintf(w, "\nA bench that two people signed, and a record of %d entries, sealed and anchored:\n  %s\n\nNow forge them:\n", a.Entries, a.Head)
	for _, f := range a.Forgeries {
		word := "refused"
		if !f.Refused {
			word = "ACCEPTED"
		}
		fmt.Fprintf(w, "  %-8s %-52s %s\n", word, f.Forgery, f.Name)
	}
	if a.OK {
		fmt.Fprintf(w, "\nAll %d forgeries were refused.\n", len(a.Forgeries))
	}
}

// inside returns an Env that works in dir, quietly, with a memory of its own.
func (e *Env) inside(dir, state string) *Env {
	return &Env{Stdin: bytes.NewReader(nil), Stdout: io.Discard, Stderr: io.Discard, Now: e.Now, Quiet: true, WorkspaceDir: dir,
		Getenv: func(name string) string {
			if name == "XDG_STATE_HOME" {
				return state
			}
			return ""
		}}
}

// record makes the workspace and the record that will be forged.
func (d *demo) record(ctx context.Context, env *Env, a *demoAnswer) error {
	env.Note("making a workspace in %s", d.dir)
	if err := runInit(ctx, d.env, initOptions{dir: d.dir, origin: "demo.local/tally", operator: "operator@local"}); err != nil {
		return err
	}
	for i, score := range demoScores {
		if i == len(demoScores)-1 {
			if err := copyFolder(d.dir, d.old); err != nil {
				return err
			}
		}
		env.Note("recording %s", score)
		d.env.Stdin = bytes.NewReader([]byte(score))
		if err := runLedgerAppend(ctx, d.env, ledgerAppendOptions{kind: string(evidence.NoteKind)}); err != nil {
			return err
		}
	}
	env.Note("publishing an anchor, and a receipt of the failed case for a stranger")
	if err := runAnchorPublish(ctx, d.env); err != nil {
		return err
	}
	if err := runLedgerProve(ctx, d.env, ledgerProveOptions{index: 3, out: d.receipt}); err != nil {
		return err
	}
	_, v, err := d.env.verifiedLedger()
	if err != nil {
		return err
	}
	keys := v.EveryKey()
	d.key = vkeyOf(keys[0])
	a.Entries, a.Head = v.Size, v.Head.String()
	return nil
}

// A forgery changes a copy of the workspace, and says how it must be refused.
type forgery struct {
	what    string
	refused refusal.Name
	forge   func(d *demo, copied string) error
	check   func(d *demo, copied string) error // verifyCopy unless set
}

var demoForgeries = []forgery{
	{"raise the failed score", refusal.ChainTamperDetected, editSegment(func(lines [][]byte) [][]byte {
		lines[6] = bytes.Replace(lines[6], []byte(`"score":0`), []byte(`"score":1`), 1)
		return lines
	}), nil},
	{"drop the failed case", refusal.ChainTamperDetected, editSegment(func(lines [][]byte) [][]byte {
		return append(lines[:6:6], lines[8:]...)
	}), nil},
	{"count a good case twice", refusal.ChainTamperDetected, editSegment(func(lines [][]byte) [][]byte {
		return append(lines, lines[2], lines[3])
	}), nil},
	{"cut off the last entries, seals intact", refusal.HistoryRolledBack, editSegment(func(lines [][]byte) [][]byte {
		return lines[:6]
	}), nil},
	{"put back yesterday's copy of the whole folder", refusal.HistoryRolledBack, func(d *demo, copied string) error {
		if err := store.RemoveTree(copied); err != nil {
			return err
		}
		return copyFolder(d.old, copied)
	}, nil},
	{"raise the score and redo every hash, without the key", refusal.HistoryForked, rehash, nil},
	{"edit the published anchor", refusal.AnchorMismatch, func(_ *demo, copied string) error {
		names, err := filepath.Glob(filepath.Join(copied, "audit", "anchors", "*.json"))
		if err != nil || len(names) == 0 {
			return fmt.Errorf("no anchor to edit: %v", err)
		}
		return replaceIn(names[0], `"size":5`, `"size":4`)
	}, nil},
	{"soften a case that two people signed", refusal.BenchCaseDigestMismatch, func(_ *demo, copied string) error {
		return replaceIn(filepath.Join(copied, bench.Dir, exampleClass, "cases", "greeting", "input", "prompt.txt"), "\n", " The answer is hello.\n")
	}, verifyBenches},
	{"let the rubric pass everything", refusal.RubricDigestMismatch, func(_ *demo, copied string) error {
		return replaceIn(filepath.Join(copied, bench.Dir, exampleClass, "rubric.star"), `return result(False, ["wrong_answer"])`, `return result(True, [])`)
	}, verifyBenches},
	{"show a stranger the receipt with another score", refusal.ReceiptInvalid, func(*demo, string) error { return nil }, forgedReceipt},
}

// try makes one forgery and reports how it was received.
func (d *demo) try(f forgery) demoForgery {
	out := demoForgery{Forgery: f.what, Expected: f.refused}
	copied := filepath.Join(d.scratch, "forged")
	err := store.RemoveTree(copied)
	if err == nil {
		err = copyFolder(d.dir, copied)
	}
	if err == nil {
		err = f.forge(d, copied)
	}
	if err != nil {
		out.Detail = "the forgery itself failed: " + err.Error()
		return out
	}
	check := f.check
	if check == nil {
		check = verifyCopy
	}
	if err = check(d, copied); err != nil {
		out.Refused, out.Name, out.Detail = true, refusal.Of(err).Name, plain.Line(err.Error())
	}
	return out
}

// verifyCopy verifies the forged workspace as its owner would, with the memory
// of the machine on which the honest one was written.
func verifyCopy(d *demo, copied string) error {
	forged := *d.env
	forged.WorkspaceDir = copied
	_, _, err := forged.verifiedLedger()
	return err
}

// verifyBenches verifies the benches of the forged workspace as CI would.
func verifyBenches(d *demo, copied string) error {
	forged := *d.env
	forged.WorkspaceDir = copied
	return runBenchVerify(context.Background(), &forged, benchVerifyOptions{all: true})
}

// editSegment edits the lines of the first segment.
func editSegment(edit func([][]byte) [][]byte) func(*demo, string) error {
	return func(_ *demo, copied string) error {
		w := workspace.Workspace{Dir: copied}
		name := filepath.Join(w.LedgerDir(), "segments", "0000000000000000.log")
		data, err := store.ReadFile(store.OS{}, name, 1<<20)
		if err != nil {
			return err
		}
		lines := edit(bytes.SplitAfter(bytes.TrimSuffix(data, []byte{'\n'}), []byte{'\n'}))
		out := bytes.Join(lines, nil)
		if !bytes.HasSuffix(out, []byte{'\n'}) {
			out = append(out, '\n')
		}
		return store.WriteFile(store.OS{}, name, out, 0o600)
	}
}

// rehash raises the score and recomputes every check that needs no key.
func rehash(d *demo, copied string) error {
	return editSegment(func(lines [][]byte) [][]byte {
		return ledger.Rehash("demo.local/tally", lines, func(entry []byte) []byte {
			return bytes.Replace(entry, []byte(`"score":0`), []byte(`"score":1`), 1)
		})
	})(d, copied)
}

// forgedReceipt changes the score inside the receipt and shows it to the
// stranger's verifier.
func forgedReceipt(d *demo, _ string) error {
	data, err := store.ReadFile(store.OS{}, d.receipt, 1<<20)
	if err != nil {
		return err
	}
	r, err := ledger.ParseReceipt(data)
	if err != nil {
		return err
	}
	r.Entry = bytes.Replace(r.Entry, []byte(`"score":0`), []byte(`"score":1`), 1)
	if data, err = r.Marshal(); err != nil {
		return err
	}
	forged := filepath.Join(d.scratch, "forged.tlog-proof")
	if err := store.WriteFile(store.OS{}, forged, data, 0o600); err != nil {
		return err
	}
	var trust verify.Trust
	if err := trust.AddLog(d.key); err != nil {
		return err
	}
	// The honest one must verify, or refusing the forged one proves nothing.
	if honest := verify.Path(d.receipt, trust); honest.Err() != nil {
		return refusal.Newf(refusal.Failed, "the honest receipt was refused: %w", honest.Err())
	}
	return verify.Path(forged, trust).Err()
}

func replaceIn(name, old, new string) error {
	data, err := store.ReadFile(store.OS{}, name, 1<<20)
	if err != nil {
		return err
	}
	if !bytes.Contains(data, []byte(old)) {
		return fmt.Errorf("%s does not contain %q", name, old)
	}
	return store.WriteFile(store.OS{}, name, bytes.Replace(data, []byte(old), []byte(new), 1), 0o600)
}

// copyFolder copies a workspace, keeping modes: keys must stay private.
func copyFolder(from, to string) error {
	return filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		info, err := e.Info()
		if err != nil {
			return err
		}
		if e.IsDir() {
			return store.MakeDir(store.OS{}, target, info.Mode().Perm())
		}
		data, err := store.ReadFile(store.OS{}, path, 64<<20)
		if err != nil {
			return err
		}
		return store.WriteFile(store.OS{}, target, data, info.Mode().Perm())
	})
}
