package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"tallystick/internal/read/dossier"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
)

// settingsFile marks the top folder of a workspace.
const settingsFile = "tally.yaml"

// An Env is everything a command may ask of the world around it. Tests give
// their own.
type Env struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Getenv         func(string) string
	Now            func() time.Time

	beyond *Beyond  // nil unless this is tally-fleet
	args   []string // of the command line, as given

	// inTests changes what the packages that do the work see of the world.
	inTests func(*dossier.World)
	// spoil damages what is about to be issued, in tests: see issue.go.
	spoil func(issued any)

	// The global flags.
	WorkspaceDir string // as given; commands call [workspaceDir]
	JSON         bool
	Quiet        bool
	NoColor      bool
}

func newEnv(stdin io.Reader, stdout, stderr io.Writer, getenv func(string) string) *Env {
	return &Env{
		Stdin:  stdin,
		Stdout: stdout,
		Stderr: stderr,
		Getenv: getenv,
		Now:    func() time.Time { return time.Now().UTC() },
	}
}

// workspaceDir returns the absolute path of the workspace: the folder given with
// --workspace, else the nearest parent with a tally.yaml, else the current
// folder. The folder exists; it need not be a workspace yet.
func workspaceDir(e *Env) (string, error) {
	if e.WorkspaceDir == "" {
		dir, err := os.Getwd()
		if err != nil {
			return "", refusal.Newf(refusal.Unreadable, "finding the current folder: %w", err).
				WithHint("change to a folder that exists, or name one with --workspace")
		}
		return nearestWorkspace(dir), nil
	}

	dir, err := filepath.Abs(e.WorkspaceDir)
	if err != nil {
		return "", refusal.Newf(refusal.Unreadable, "workspace %s: %w", e.WorkspaceDir, err)
	}
	st, err := os.Stat(dir)
	if err != nil {
		return "", refusal.Newf(refusal.Unreadable, "workspace %s: %w", e.WorkspaceDir, refusal.WithoutPath(err)).
			WithHint("--workspace names the folder that holds %s", settingsFile)
	}
	if !st.IsDir() {
		return "", refusal.Newf(refusal.Unreadable, "workspace %s: is a file, expected a folder", e.WorkspaceDir).
			WithHint("--workspace names the folder that holds %s", settingsFile)
	}
	return dir, nil
}

// openPlace finds the workspace and reads its settings.
func openPlace(e *Env) (*dossier.Place, error) {
	dir, err := workspaceDir(e)
	if err != nil {
		return nil, err
	}
	return openIn(e, dir)
}

// openRecorded reads the workspace's benches and its ledger, which must be there. The
// caller closes them.
func openRecorded(e *Env, ask dossier.Ask) (*dossier.Corpus, error) {
	p, err := openPlace(e)
	if err != nil {
		return nil, err
	}
	c, err := p.ReadCorpus("", ask)
	if err != nil || c.Reading != nil {
		return c, err
	}
	c.Close()
	if _, err = p.Read(dossier.Ask{}); err == nil {
		return openRecorded(e, ask) // it was begun in between
	}
	return nil, err // there is no ledger: said as every reader of it says it
}

// openIn reads the settings of the workspace in dir. A ledger in an object store is
// for tally-fleet.
func openIn(e *Env, dir string) (*dossier.Place, error) {
	p, err := dossier.Open(dir, worldOf(e))
	if err == nil && p.Settings.Ledger != "" && e.beyond == nil {
		err = handOver(context.Background(), e, "a ledger at "+p.Settings.Ledger)
	}
	return p, err
}

// openCorpus is openPlace for what needs the people who are trusted in it.
func openCorpus(e *Env) (*dossier.Corpus, error) { return openCorpusFor(e, "") }

// openCorpusFor is openCorpus for a caller who keeps the trust root elsewhere.
func openCorpusFor(e *Env, trustRoot string) (*dossier.Corpus, error) {
	p, err := openPlace(e)
	if err != nil {
		return nil, err
	}
	return p.OpenCorpusFor(trustRoot)
}

// verifiedLedger verifies the workspace's ledger, showing every entry to visit.
func verifiedLedger(e *Env, visit func(ledger.Record) error) (*dossier.Place, *ledger.Verified, error) {
	p, err := openPlace(e)
	if err != nil {
		return nil, nil, err
	}
	v, err := p.Verify(visit)
	return p, v, err
}

// read verifies the ledger of the workspace and reads what is asked for.
func read(e *Env, ask dossier.Ask) (*dossier.Reading, error) {
	p, err := openPlace(e)
	if err != nil {
		return nil, err
	}
	return p.Read(ask)
}

// worldOf is what the packages that do the work may ask for.
func worldOf(e *Env) dossier.World {
	w := dossier.World{Getenv: e.Getenv, Now: e.Now, Note: e.Note}
	if e.beyond != nil {
		w.Store, w.Lease = e.beyond.Remote, e.beyond.Lease
	}
	if e.inTests != nil {
		e.inTests(&w)
	}
	return w
}

// nearestWorkspace walks up from dir to the first folder with a settings file.
// Only a regular file counts: a folder of that name says nothing.
func nearestWorkspace(dir string) string {
	for d := dir; ; d = filepath.Dir(d) {
		if st, err := os.Stat(filepath.Join(d, settingsFile)); err == nil && st.Mode().IsRegular() {
			return d
		}
		if d == filepath.Dir(d) {
			return dir
		}
	}
}

// Answer prints the command's answer on standard output: v as one line of JSON
// with --json, else what text writes. A command whose answer is a list that
// grows while it works calls it once for each element; with --json that makes
// JSON lines.
//
// text passes everything that is not its own words through [plain.Line].
func (e *Env) Answer(v any, text func(w io.Writer)) error {
	var out []byte
	if e.JSON {
		doc, err := encode(v)
		if err != nil {
			return fmt.Errorf("encoding the answer: %w", err)
		}
		out = doc
	} else {
		var b bytes.Buffer
		text(&b)
		out = paint(onTerminal(e.Stdout, b.Bytes()), e.Color(e.Stdout))
	}
	return e.write(out)
}

// Lines prints lines of JSON as they are, so that a script can hash them. On a
// terminal, what could act on it is escaped; the values stay the same.
func (e *Env) Lines(lines []byte) error {
	if isTerminal(e.Stdout) {
		lines = plain.JSON(lines)
	}
	return e.write(lines)
}

// write prints the answer in one write: a full disk or a closed pipe must not
// look like a short but complete answer.
func (e *Env) write(out []byte) error {
	if _, err := e.Stdout.Write(out); err != nil {
		name := refusal.WriteFailed
		if errors.Is(err, syscall.ENOSPC) {
			name = refusal.DiskFull
		}
		return refusal.Newf(name, "writing the answer to standard output: %w", refusal.WithoutPath(err)).
			WithHint("the work itself may be done; only its answer was not printed")
	}
	return nil
}

// encode gives v as one line of JSON that is safe on a terminal.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return plain.JSON(b.Bytes()), nil
}

// Note tells a person how the work is going, on standard error. It is silent
// with --quiet, and with --json, where standard error is for a script.
func (e *Env) Note(format string, args ...any) {
	if e.Quiet || e.JSON {
		return
	}
	e.Stderr.Write(onTerminal(e.Stderr, fmt.Appendf(nil, "tally: %s\n", plain.Lines(fmt.Sprintf(format, args...), said))))
}

// said is the margin of what a program said in several lines, such as a traceback.
const said = "       | "

// Color reports whether w may be given colours: it is a terminal, and neither
// --no-color, nor NO_COLOR (no-color.org: any value but the empty one), nor a
// terminal that calls itself dumb forbids it.
func (e *Env) Color(w io.Writer) bool {
	return !e.NoColor && e.Getenv("NO_COLOR") == "" && e.Getenv("TERM") != "dumb" && isTerminal(w)
}

// Interactive reports whether a person is there to answer a question.
func (e *Env) Interactive() bool {
	return !e.JSON && isTerminal(e.Stdin) && isTerminal(e.Stderr)
}

func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && isTerminalFile(f)
}
