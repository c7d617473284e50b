// Package desk is where one person works on a workspace in a browser: it shows what
// there is to review, and signs what the person confirms outside the browser.
//
// A browser is no place to sign: a page of another site, an extension or a text of an
// agent may press a button. So a form is only a wish. It is taken if this process made
// it, for exactly what it showed, once, and if what it showed is still what the disk
// has. Then the person is asked elsewhere (a [Confirm]), with what was read from the disk
// again and not with what the browser sent, and only a yes there signs.
//
// What is signed, by whose rules and how it is recorded is the work of package ceremony,
// as for "tally review" and "tally bench". A Desk has one person, for as long as it is
// open.
package desk

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"tallystick/internal/app/ceremony"
	"tallystick/internal/read/dossier"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
)

// The acts that a form may wish for.
const (
	Label   = "label"   // what a person thinks of a case
	Correct = "correct" // another score of a case
	Sign    = "sign"    // a draft
	Accept  = "accept"  // a draft that two people signed
)

// confirmWait is how long an act waits for the person.
const confirmWait = 5 * time.Minute

// maxJobs is how many acts are remembered, so that their pages can say what came of them.
const maxJobs = 200

// A Confirm asks the person outside the browser whether to sign, and shows them the act.
type Confirm func(ctx context.Context, act *Act) (bool, error)

// A Config says whose desk it is.
type Config struct {
	// Open reads the workspace, with the records of every attempt.
	Open    func() (*dossier.Corpus, error)
	Pen     ceremony.Pen
	Confirm Confirm
	// Told is told how each act ended; nil if nobody wants to know.
	Told func(*Job)
}

// A Desk is the work of one person. It is safe for use by several goroutines; one thing
// at a time is read or signed.
type Desk struct {
	config Config
	key    []byte // of the forms; it dies with the process

	mu     sync.Mutex
	corpus *dossier.Corpus
	person *ceremony.Reviewer

	jobs    sync.Mutex        // guards what is below
	opened  map[caseName]bool // that the person saw with what others think of them
	used    map[string]bool
	list    []*Job
	waiting *Job // for the person
	ctx     context.Context
	stop    context.CancelFunc
}

// Open finds out whose pen it is, and refuses a pen of nobody who may review.
func Open(c Config) (*Desk, error) {
	d := &Desk{config: c, key: make([]byte, 32), opened: map[caseName]bool{}, used: map[string]bool{}}
	rand.Read(d.key)
	d.ctx, d.stop = context.WithCancel(context.Background())
	if err := d.read(); err != nil {
		return nil, err
	}
	return d, nil
}

func (d *Desk) read() (err error) {
	corpus, err := d.config.Open()
	if err != nil {
		return err
	}
	person, err := ceremony.NewReviewer(corpus, d.config.Pen)
	if err != nil {
		corpus.Close()
		return err
	}
	if d.person != nil && person.Name != d.person.Name {
		corpus.Close()
		return refusal.Newf(refusal.SignatureInvalid, "the key was %s's when this desk was opened and is %s's now", d.person.Name, person.Name).
			WithHint("start the program again: a desk has one person")
	}
	if d.corpus != nil {
		d.corpus.Close()
	}
	d.corpus, d.person = corpus, person
	return nil
}

// fresh reads what the ledger has got since, and forgets what was read of benches: what
// is shown and signed is what the disk has now.
func (d *Desk) fresh() error {
	standing, err := d.corpus.Reading.Standing()
	if err != nil {
		return err
	}
	if standing == dossier.Rewritten {
		return d.read()
	}
	if standing == dossier.Grown {
		if err := d.corpus.Reading.Refresh(); err != nil {
			return err
		}
	}
	d.corpus.Reading.DropBenches()
	return nil
}

// Person is who signs.
func (d *Desk) Person() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.person.Name
}

// Close ends what waits for the person.
func (d *Desk) Close() {
	d.stop()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.corpus.Close()
}

// A caseName names a case for as long as a desk is open.
type caseName struct {
	attempt, id string
	repeat      int
}

// Saw says that a page showed the person a case with its score: a label of it is not
// blind from then on.
func (d *Desk) Saw(attempt, id string, repeat int) {
	d.jobs.Lock()
	defer d.jobs.Unlock()
	d.opened[caseName{attempt, id, repeat}] = true
}

func (d *Desk) hasSeen(attempt, id string, repeat int) bool {
	d.jobs.Lock()
	defer d.jobs.Unlock()
	return d.opened[caseName{attempt, id, repeat}]
}

// A Form is the part of a form that says what it is about. A browser sends it back; the
// code shows that this process made it.
type Form struct {
	Act     string    `json:"act"`
	Attempt string    `json:"attempt,omitempty"`
	Class   string    `json:"class,omitempty"`
	Case    string    `json:"case"`
	Repeat  int       `json:"repeat,omitempty"`
	Blind   bool      `json:"blind,omitempty"`
	Shown   digest.ID `json:"shown"` // what the page showed
	Nonce   string    `json:"nonce"` // each form is good for one wish
	Code    string    `json:"-"`
}

// form makes a form of this process for what was shown.
func (d *Desk) form(f Form) Form {
	var nonce [16]byte
	rand.Read(nonce[:])
	f.Nonce = hex.EncodeToString(nonce[:])
	f.Code = d.code(&f)
	return f
}

// code is over every member, so that none of them can be exchanged.
func (d *Desk) code(f *Form) string {
	mac := hmac.New(sha256.New, d.key)
	json.NewEncoder(mac).Encode(f)
	return hex.EncodeToString(mac.Sum(nil))
}

// Fields are the hidden fields of a form, as [Desk.Begin] reads them.
func (f Form) Fields() [][2]string {
	return [][2]string{{"act", f.Act}, {"attempt", f.Attempt}, {"class", f.Class}, {"case", f.Case}, {"repeat", strconv.Itoa(f.Repeat)},
		{"blind", strconv.FormatBool(f.Blind)}, {"shown", f.Shown.String()}, {"nonce", f.Nonce}, {"code", f.Code}}
}

// formOf reads the form that was sent and refuses one that this process did not make.
func (d *Desk) formOf(sent url.Values) (*Form, error) {
	for name, values := range sent {
		if len(values) != 1 {
			return nil, refusal.Newf(refusal.Malformed, "the form has %d values of %q, expected 1", len(values), name)
		}
	}
	f := &Form{Act: sent.Get("act"), Attempt: sent.Get("attempt"), Class: sent.Get("class"), Case: sent.Get("case"), Blind: sent.Get("blind") == "true", Nonce: sent.Get("nonce"), Code: sent.Get("code")}
	var err error
	if f.Repeat, err = strconv.Atoi(sent.Get("repeat")); err == nil {
		f.Shown, err = digest.ParseID(sent.Get("shown"))
	}
	if err != nil || !hmac.Equal([]byte(d.code(f)), []byte(f.Code)) {
		return nil, refusal.Newf(refusal.SignatureInvalid, "this program did not make the form, or not for this case").
			WithHint("load the page again, and send its form; a form of an earlier start of the program is not taken either")
	}
	return f, nil
}

// use uses a form up.
func (d *Desk) use(f *Form) error {
	d.jobs.Lock()
	defer d.jobs.Unlock()
	if d.used[f.Nonce] {
		return refusal.Newf(refusal.AlreadyExists, "this form was sent before").WithHint("load the page again: each form is good for one signature")
	}
	d.used[f.Nonce] = true
	return nil
}

// errChanged refuses a form whose page showed something else than the disk has now.
func errChanged(what string) error {
	return refusal.Newf(refusal.DigestMismatch, "%s: what the page showed is not what the disk and the ledger have now", what).
		WithHint("load the page again and look at it: nothing was signed")
}

// The states of a [Job].
const (
	Waiting  = "waiting" // for the person, outside the browser
	Done     = "done"
	Declined = "declined"
	Failed   = "failed"
)

// A Job is an act that a form wished for, and what came of it.
type Job struct {
	ID    string
	Act   *Act
	State string
	Said  string // what was done
	Err   error
}

// Begin takes a form and asks the person. It returns at once, with the name of the job.
func (d *Desk) Begin(sent url.Values) (string, error) {
	f, err := d.formOf(sent)
	if err != nil {
		return "", err
	}
	d.mu.Lock()
	act, err := d.act(f, sent)
	d.mu.Unlock()
	if err != nil {
		return "", err
	}
	if err := d.use(f); err != nil {
		return "", err
	}
	d.jobs.Lock()
	defer d.jobs.Unlock()
	if d.waiting != nil {
		return "", refusal.Newf(refusal.AlreadyExists, "another signature waits for a yes or a no: %s", d.waiting.Act.Short()).
			WithHint("answer it first; then load this page again")
	}
	job := &Job{ID: f.Nonce, Act: act, State: Waiting}
	act.Request = strings.ToUpper(f.Nonce[:4])
	d.waiting = job
	if d.list = append(d.list, job); len(d.list) > maxJobs {
		d.list = d.list[1:]
	}
	go d.finish(job, f, sent)
	return job.ID, nil
}

// Job is what became of a form; nil if there is none of that name.
func (d *Desk) Job(id string) *Job {
	d.jobs.Lock()
	defer d.jobs.Unlock()
	for _, j := range d.list {
		if j.ID == id {
			copied := *j
			return &copied
		}
	}
	return nil
}

// Wait waits until a job has ended.
func (d *Desk) Wait(ctx context.Context, id string) (*Job, error) {
	for {
		switch j := d.Job(id); {
		case j == nil:
			return nil, refusal.Newf(refusal.NotFound, "there is no such request")
		case j.State != Waiting:
			return j, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// finish asks the person and does what they said.
func (d *Desk) finish(job *Job, f *Form, sent url.Values) {
	ctx, cancel := context.WithTimeout(d.ctx, confirmWait)
	defer cancel()
	state, said := Declined, ""
	yes, err := d.config.Confirm(ctx, job.Act)
	if err == nil && yes {
		if said, err = d.do(f, sent); err == nil {
			state = Done
		}
	}
	if err != nil {
		state = Failed
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("nobody answered for %s: nothing was signed", confirmWait)
		}
	}
	d.jobs.Lock()
	job.State, job.Said, job.Err = state, said, err
	d.waiting = nil
	ended := *job
	d.jobs.Unlock()
	if d.config.Told != nil {
		d.config.Told(&ended)
	}
}

// do reads the act once more, refuses it if anything is another than what the person
// said yes to, and does it.
func (d *Desk) do(f *Form, sent url.Values) (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	act, err := d.act(f, sent)
	if err != nil {
		return "", err
	}
	return act.do(d.ctx, d)
}

// act reads what a form is about from the disk, and refuses the form if it showed
// something else.
func (d *Desk) act(f *Form, sent url.Values) (*Act, error) {
	if err := d.fresh(); err != nil {
		return nil, err
	}
	if !slices.Contains([]string{Label, Correct, Sign, Accept}, f.Act) {
		return nil, refusal.Newf(refusal.Malformed, "found the act %q", f.Act)
	}
	if f.Act == Sign || f.Act == Accept {
		return d.actOnDraft(f)
	}
	return d.actOnCase(f, sent)
}
