package desk

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"tallystick/internal/app/ceremony"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/bench"
)

// maxDraftText bounds what is shown of a file of a draft.
const maxDraftText = 64 << 10

// A DraftName names a draft that waits for people.
type DraftName struct {
	Class, Case, Title string
	Missing            []bench.Missing // that it is not yet a case
}

// A Draft is a case that waits for people, as the person sees it.
type Draft struct {
	DraftName
	YAML   string
	Files  []DraftFile
	Digest digest.Content // of the files
	Covers digest.ID      // what signatures of it cover
	Sign   Form
	Accept Form
}

// A DraftFile is a file of a draft; Text is empty where it is not text.
type DraftFile struct {
	Path  string
	Bytes int
	Text  string
	Cut   bool
}

// Drafts lists the drafts of signed classes. Those that are held out are left out: the
// terminal is for them.
func (d *Desk) Drafts() ([]DraftName, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.fresh(); err != nil {
		return nil, err
	}
	classes, err := bench.Classes(d.corpus.Root)
	if err != nil {
		return nil, err
	}
	var out []DraftName
	for _, class := range classes {
		loaded, err := bench.Load(d.corpus.Root, class)
		if err != nil {
			continue // the corpus says why it does not load
		}
		if loaded.Registration.Trust == bench.Scratch {
			continue
		}
		for _, id := range loaded.PendingIDs() {
			if c, err := loaded.Pending(id); err == nil && !isHeldOut(c) {
				out = append(out, DraftName{class, id, c.Title, c.Status(d.corpus.Options)})
			}
		}
	}
	return out, nil
}

func isHeldOut(c *bench.CaseFolder) bool { return c.HeldOut != nil && *c.HeldOut }

// Draft shows a draft.
func (d *Desk) Draft(class, id string) (*Draft, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.fresh(); err != nil {
		return nil, err
	}
	return d.draft(class, id)
}

// draft reads a draft from the disk.
func (d *Desk) draft(class, id string) (*Draft, error) {
	loaded, err := bench.Load(d.corpus.Root, class)
	if err != nil {
		return nil, err
	}
	c, err := loaded.Pending(id)
	if err != nil {
		return nil, err
	}
	if isHeldOut(c) {
		return nil, refusal.Newf(refusal.NotFound, "draft %s of class %s is held out, and is not shown in a browser", id, class).
			WithHint("sign it at the terminal: tally bench sign %s %s --key KEY", class, id)
	}
	message, err := c.Message()
	if err != nil {
		return nil, err
	}
	out := &Draft{DraftName: DraftName{class, id, c.Title, c.Status(d.corpus.Options)}, YAML: string(c.YAML), Digest: c.Digest, Covers: digest.IDOf(message)}
	for _, f := range c.Files {
		shown := DraftFile{Path: f.Path, Bytes: len(f.Data)}
		if utf8.Valid(f.Data) {
			shown.Text = string(f.Data[:min(len(f.Data), maxDraftText)])
			shown.Cut = len(f.Data) > maxDraftText
		}
		out.Files = append(out.Files, shown)
	}
	data, err := json.Marshal([]any{class, id, out.YAML, out.Digest, out.Covers})
	if err != nil {
		return nil, err
	}
	form := Form{Act: Sign, Class: class, Case: id, Shown: digest.IDOf(data)}
	out.Sign = d.form(form)
	form.Act = Accept
	out.Accept = d.form(form)
	return out, nil
}

// actOnDraft reads the draft that a form is about, as it was for the page.
func (d *Desk) actOnDraft(f *Form) (*Act, error) {
	draft, err := d.draft(f.Class, f.Case)
	if err != nil {
		return nil, err
	}
	if draft.Sign.Shown != f.Shown {
		return nil, errChanged("draft " + f.Case)
	}
	return &Act{Kind: f.Act, Person: d.person.Name, Case: f.Case, Draft: draft}, nil
}

// sign signs a draft: exactly the bytes that were shown, or nothing.
func (a *Act) sign(d *Desk) (string, error) {
	done, err := ceremony.Sign(d.corpus, ceremony.SignOptions{Class: a.Draft.Class, CaseID: a.Case, Pen: d.config.Pen, Covers: a.Draft.Covers})
	if err != nil {
		return "", err
	}
	said := "signed"
	for _, what := range done.Signed {
		said += " " + what
	}
	for _, m := range done.Missing {
		said += fmt.Sprintf("; missing: %s: %s", m.What, m.Why)
	}
	return said, nil
}
