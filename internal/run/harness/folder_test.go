package harness

import (
	"context"
	"os"
	"strings"
	"testing"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/scenario"
)

const folderLine = `{"id":"w","input":"go","files":{"a.txt":"one","b.txt":"two"},"tools":[{"name":"fs_write","source":"folder"},{"name":"fs_delete","source":"folder"}],` +
	`"model":[{"tool_calls":[{"name":"fs_write","args":{"path":"new/x.txt","text":"three"}},{"name":"fs_delete","args":{"path":"b.txt"}}]},{"text":"done"}]`

// driven is what one case left behind.
func driven(t *testing.T, p *place) Stored {
	t.Helper()
	var s Stored
	err := p.rehearse(func(*setup) {}, func(h *Graded) error {
		s = Stored{CaseID: h.Case.ID, Repeat: 1, Files: h.Files, Read: func(d digest.Content) ([]byte, error) {
			if data := h.Piece(d); data != nil {
				return data, nil
			}
			return nil, refusal.Newf(refusal.NotFound, "no %s", d)
		}}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// regraded grades it again with the bench as it is now.
func regraded(t *testing.T, p *place, s Stored) (g Regraded, err error) {
	t.Helper()
	cfg, err := p.config()
	if err != nil {
		t.Fatal(err)
	}
	return g, Regrade(context.Background(), cfg.Config, []Stored{s}, func(_ Stored, r Regraded) error { g = r; return nil })
}

// TestRegradingHasTheFolderAgain: as the agent left it, and what it changed.
func TestRegradingHasTheFolderAgain(t *testing.T) {
	p := newPlace(t, folderLine+`,"grade":{"kind":"exact","expected":"done"}}`)
	s := driven(t, p)
	r := &run{c: &scenario.Task{Files: []digest.File{{Path: "a.txt", Data: []byte("one")}, {Path: "b.txt", Data: []byte("two")}}}}
	remove, ok, err := r.restoreFolder(s)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	changes, err := r.folder.Changes()
	if err != nil || len(changes) != 2 || changes[0].Path() != "b.txt" || changes[0].After != nil || changes[1].Path() != "new/x.txt" || string(changes[1].After.Data) != "three" {
		t.Errorf("the changes are %+v, %v", changes, err)
	}
	if data, ok, err := r.file("a.txt"); err != nil || !ok || string(data) != "one" {
		t.Errorf("a.txt is %q, %v", data, ok)
	}
	remove()
	if _, err := os.Stat(r.folder.Dir); !os.IsNotExist(err) {
		t.Errorf("the folder is still there: %v", err)
	}

	// A path of the evidence does not lead out.
	forged := s
	files := *s.Files.Folder
	files.Changed = append([]evidence.ChangedFile{}, files.Changed...)
	files.Changed[1].Path = "../x.txt"
	forged.Files.Folder = &files
	if _, ok, err := (&run{c: r.c}).restoreFolder(forged); ok || err == nil {
		t.Errorf("a path that leads out: %v, %v", ok, err)
	}
}

// TestRegradingWithoutTheFolderIsUnscored: a rubric that is not shown the files
// would judge an agent that wrote none.
func TestRegradingWithoutTheFolderIsUnscored(t *testing.T) {
	p := newPlace(t, folderLine+`,"extract":{"kind":"file","path":"new/x.txt"},"grade":{"kind":"exact","expected":"three"}}`)
	s := driven(t, p)
	if g, err := regraded(t, p, s); err != nil || g.Record.Score == nil || !g.Record.Score.Passed {
		t.Errorf("with the folder: %+v, %v", g.Record, err)
	}
	lost := s
	lost.Files.Folder = nil
	unscored := func(name, why string, s Stored) {
		t.Helper()
		if g, err := regraded(t, p, s); err != nil || g.Record.Score != nil || !strings.Contains(g.Record.Reason, why) {
			t.Errorf("%s: %+v, %v", name, g.Record, err)
		}
	}
	unscored("an extractor", "the working folder is not at hand", lost)
	gone := s
	gone.Read = func(digest.Content) ([]byte, error) { return nil, refusal.Newf(refusal.NotFound, "gone") }
	unscored("no evidence at all", "gone", gone)
	p.write("bench/sums/dataset.jsonl", folderLine+"}\n")
	p.write("bench/sums/rubric.star", "def score(harness_output, expected, case_metadata):\n    return None\n")
	unscored("a rubric", "the rubric needs the working folder", lost)
	p.write("bench/sums/dataset.jsonl", `{"id":"other","input":"hi"}`+"\n")
	unscored("a case that is gone", "no such case any more", s)
}
