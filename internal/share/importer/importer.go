// Package importer reads what other evaluation harnesses wrote into the one
// form of package results, and recomputes what can be recomputed.
//
// [Read] takes files and folders. A file is recognised by what is in it, not by
// its name: its beginning is walked for the members it has, and the rows of
// [harnesses] say whose they are. Files that belong together (a HELM run
// folder, lm-eval results and their samples, a trial and its job) are read as
// one run. Each harness has a file of its own here with its row; its help text and
// the table in docs/formats/import.md are made of the rows.
//
// What it promises: a file may be hostile. It is read in one pass and in bounded
// memory; an archive that expands without end, a name or a link that leads out
// of where it lies, and a file that is cut off are refused with the place.
// Nothing is fetched, followed or run.
//
// Where it stops: nothing vouches for what was imported. A check that passes
// says that a file agrees with itself.
package importer

import (
	"context"
	"fmt"
	"io"

	"tallystick/internal/read/results"
	"tallystick/internal/record/refusal"
)

// Options say how to read. The zero value reads files and folders.
type Options struct {
	// Stdin is what the path "-" stands for.
	Stdin io.Reader
	// Each gets every sample as it is read; run is the index of its run in what
	// [Read] returns. Without it samples are counted and dropped.
	Each func(run int, s results.Sample) error
	// Setup also reads how each run was made: see [results.Setup].
	Setup bool

	harnesses []*harness // all of them; a test adds one

	MaxFiles      int   // in all folders together: 200,000
	MaxStdinBytes int64 // of an archive from standard input, which is kept in memory: 256 MiB
}

func (o Options) withDefaults() Options {
	if o.harnesses == nil {
		o.harnesses = harnesses
	}
	if o.MaxFiles == 0 {
		o.MaxFiles = 200_000
	}
	if o.MaxStdinBytes == 0 {
		o.MaxStdinBytes = 256 << 20
	}
	return o
}

// Read reads the results at paths. Each path is a file, a folder or "-". In a
// folder, files that are not results are left alone; a file that is named must
// be one.
func Read(ctx context.Context, paths []string, o Options) ([]results.Run, error) {
	s := &session{ctx: ctx, opt: o.withDefaults()}
	defer s.close()
	if len(paths) == 0 {
		return nil, refusal.Newf(refusal.Usage, "no path to import").WithHint("name a result file, a folder of them, or - for standard input")
	}
	for _, p := range paths {
		if err := s.gather(p); err != nil {
			return nil, err
		}
	}
	if err := s.companions(); err != nil {
		return nil, err
	}
	if len(s.files) == 0 {
		return nil, unrecognised("%s: no result file of a harness that is known here", paths[0])
	}
	for _, g := range s.group() {
		if err := s.read(g); err != nil {
			return nil, err
		}
	}
	if len(s.runs) == 0 {
		return nil, unrecognised("%s: parts of results, but not the file that the run is in", s.files[0].path)
	}
	return s.runs, nil
}

func unrecognised(format string, args ...any) error {
	return refusal.Newf(refusal.Malformed, format, args...).
		WithHint("docs/formats/import.md lists what is recognised, and by what")
}

// A session is one call of [Read].
type session struct {
	ctx     context.Context
	opt     Options
	files   []*file
	seen    int // entries of folders so far
	closers []io.Closer
	runs    []results.Run
}

func (s *session) close() {
	for _, c := range s.closers {
		c.Close()
	}
}

// begin starts a run, whose place among the runs is fixed from then on.
func (s *session) begin(harness string) *run {
	index := len(s.runs)
	s.runs = append(s.runs, results.Run{})
	var each func(results.Sample) error
	if s.opt.Each != nil {
		each = func(sample results.Sample) error { return s.opt.Each(index, sample) }
	}
	return &run{Builder: results.NewBuilder(harness, results.Source{}, each), session: s, index: index}
}

// A run is one that is being built.
type run struct {
	*results.Builder
	session *session
	index   int
}

// finish puts the run in its place. The first file is its source.
func (b *run) finish(files ...*file) {
	for i, f := range files {
		if i == 0 {
			b.Run.Source = f.source()
		} else {
			b.Run.Files = append(b.Run.Files, f.source())
		}
	}
	b.session.runs[b.index] = b.Finish()
}

// read reads one group of files that belong together.
func (s *session) read(g []*file) error {
	if err := s.ctx.Err(); err != nil {
		return refusal.Newf(refusal.Interrupted, "importing %s: %w", g[0].path, err)
	}
	if err := s.dispatch(g); err != nil {
		return fmt.Errorf("importing: %w", err)
	}
	return nil
}

func (s *session) dispatch(g []*file) error {
	h, _ := s.opt.partOf(g[0].kind)
	return h.read(s, g)
}
