package spend

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/format"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
	"tallystick/internal/record/workspace"
)

// What a person is offered, and the most that is taken for a limit: beyond it, a limit is
// a typing mistake.
const (
	DefaultMicroUSD = 1_000_000
	DefaultCalls    = 1000
	MostMicroUSD    = 1_000_000_000
	MostCalls       = 1_000_000
)

// lockWait is how long a call waits for another that reserves at the same time.
const lockWait = 10 * time.Second

// maxBytes bounds the file of a permission, which has a line.
const maxBytes = 64 << 10

// A Subject is what a permission is for. Everything in it is compared: what has changed
// was not permitted.
type Subject struct {
	Endpoint string   `json:"endpoint"` // base URL
	Key      string   `json:"key"`      // the name of the variable or file with the key, never the key; "" for none
	MCP      []string `json:"mcp"`      // the servers that may be started, with all that settings say of them
	// Egress is what programs may ask of other servers, with which credential. It is a
	// matter of the target, so a permission may list more than a run needs.
	Egress []string `json:"egress,omitempty"`
	// Workspace is the real path of its folder, without links, and Folder the number of
	// that folder: another that was moved there is another workspace.
	Workspace string `json:"workspace"`
	Folder    uint64 `json:"folder"`
}

// mostExact is as much of a folder's number as JSON keeps exactly.
const mostExact = 1<<53 - 1

// maxEgress bounds what a permission lists of the servers of programs.
const maxEgress = 200

// SubjectOf is the subject of a workspace in a folder.
func SubjectOf(dir, endpoint, key string, mcp []string) (Subject, error) {
	abs, err := filepath.Abs(dir)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	if err != nil {
		return Subject{}, refusal.Newf(refusal.Unreadable, "the folder of the workspace: %w", err).WithHint("give the folder with --workspace")
	}
	id, err := store.FolderID(abs)
	return Subject{Endpoint: endpoint, Key: key, MCP: append([]string{}, mcp...), Workspace: abs, Folder: id & mostExact}, err
}

// file is where the permission of a subject lies, below the state folder.
func (s *Subject) file() (string, error) {
	text, err := canon.Marshal(struct {
		Endpoint  string `json:"endpoint"`
		Key       string `json:"key"`
		Workspace string `json:"workspace"`
	}{s.Endpoint, s.Key, s.Workspace})
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]) + ".json", err
}

// Text names the subject for a person.
func (s *Subject) Text() string {
	key := "without a key"
	if s.Key != "" {
		key = "with the key in " + s.Key
	}
	return s.Endpoint + " " + key
}

// A Limit is the most of a day, or of a run. 0 is no limit of that kind.
type Limit struct {
	MicroUSD, Calls int64
}

// Lower is the smaller of two limits, of each kind.
func (l Limit) Lower(other Limit) Limit {
	return Limit{lower(l.MicroUSD, other.MicroUSD), lower(l.Calls, other.Calls)}
}

func lower(a, b int64) int64 {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// Validate refuses a limit that is not one.
func (l Limit) Validate() error {
	switch {
	case l.MicroUSD < 0 || l.MicroUSD > MostMicroUSD:
		return refusal.Newf(refusal.Usage, "a limit of %s: expected more than $0 and at most %s", plain.Dollars(l.MicroUSD), plain.Dollars(MostMicroUSD))
	case l.Calls < 0 || l.Calls > MostCalls:
		return refusal.Newf(refusal.Usage, "a limit of %d calls: expected 1 to %d", l.Calls, MostCalls)
	}
	return nil
}

// Text is the limit in words: "$1.00 and 1000 calls".
func (l Limit) Text() string {
	var parts []string
	if l.MicroUSD > 0 {
		parts = append(parts, plain.Dollars(l.MicroUSD))
	}
	if l.Calls > 0 {
		parts = append(parts, plain.Plural(int(l.Calls), "call"))
	}
	return cmp.Or(strings.Join(parts, " and "), "nothing")
}

// A Permission is what a person allowed, and what of it was spent today.
type Permission struct {
	Calls    int64         `json:"calls"` // sent on Day
	Day      string        `json:"day"`   // the last on which a call was made, UTC; "" for none
	GivenAt  evidence.Time `json:"given_at"`
	MaxCalls int64         `json:"max_calls_per_day"`
	MaxMicro int64         `json:"max_microdollars_per_day"` // 0 allows only calls that have no price
	Place    uint64        `json:"place,omitempty"`          // the number of the folder that the file was written in: in a copy of it there is no permission
	Spent    int64         `json:"spent_microdollars"`       // on Day, calls under way at their most
	Subject  Subject       `json:"subject"`
	Unpriced bool          `json:"unpriced,omitempty"` // the person gave the limit of calls, so calls without a price may be sent
	Version  string        `json:"v"`
}

// Limit is that of a day.
func (p *Permission) Limit() Limit { return Limit{p.MaxMicro, p.MaxCalls} }

// on moves the permission to a day. It never goes back: after a clock was set back,
// what was spent on the later day still counts.
func (p *Permission) on(now time.Time) {
	if day := now.UTC().Format(time.DateOnly); day > p.Day {
		p.Day, p.Spent, p.Calls = day, 0, 0
	}
}

func (p *Permission) validate() error {
	switch {
	case p.Version != format.Version:
		return fmt.Errorf("its version is %.20q, expected %q", p.Version, format.Version)
	case p.MaxMicro < 0 || p.MaxMicro > MostMicroUSD || p.MaxCalls < 1 || p.MaxCalls > MostCalls:
		return fmt.Errorf("its limits are %d micro-dollars and %d calls a day, expected 0 to %d and 1 to %d", p.MaxMicro, p.MaxCalls, int64(MostMicroUSD), int64(MostCalls))
	case p.Spent < 0 || p.Calls < 0:
		return fmt.Errorf("it says that %d micro-dollars and %d calls were spent, which cannot be", p.Spent, p.Calls)
	}
	if _, err := time.Parse(time.DateOnly, p.Day); p.Day != "" && err != nil {
		return fmt.Errorf("its day is %.20q, expected one such as 2026-05-12", p.Day)
	}
	return nil
}

// A Book is the permissions of this user.
type Book struct {
	dir string
	now func() time.Time
}

// Open finds the book. It is made when the first permission is given.
func Open(getenv func(string) string, now func() time.Time) (*Book, error) {
	state, err := workspace.StateDir(getenv)
	return &Book{filepath.Join(state, "spend"), now}, err
}

// Given lists all permissions, for people.
func Given(getenv func(string) string, now func() time.Time) ([]Permission, error) {
	b, err := Open(getenv, now)
	if err != nil {
		return nil, err
	}
	return b.all()
}

func (b *Book) all() ([]Permission, error) {
	names, err := os.ReadDir(b.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, refusal.Newf(refusal.Unreadable, "reading %s: %w", b.dir, err).WithHint("see whether this user may read it")
	}
	var all []Permission
	for _, e := range names {
		if filepath.Ext(e.Name()) != ".json" {
			continue
		}
		p, err := b.read(e.Name())
		if err != nil {
			return nil, err
		}
		all = append(all, *p)
	}
	return all, nil
}

// Find is the permission for a subject as of today; nil if none was given for exactly
// this.
func (b *Book) Find(s Subject) (*Permission, error) {
	name, err := s.file()
	if err != nil {
		return nil, err
	}
	p, err := b.read(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil || !b.allows(p, &s) {
		return nil, err
	}
	return p, nil
}

// allows reports whether a permission was given for a subject, in this very folder.
func (b *Book) allows(p *Permission, s *Subject) bool {
	id, err := b.place()
	return err == nil && p.Place == id && p.Subject.covers(s)
}

// place is the number of the book's folder.
func (b *Book) place() (uint64, error) {
	id, err := store.FolderID(b.dir)
	return id & mostExact, err
}

// covers reports whether what other needs is what s permits.
func (s *Subject) covers(other *Subject) bool {
	return s.Endpoint == other.Endpoint && s.Key == other.Key && s.Workspace == other.Workspace && s.Folder == other.Folder && slices.Equal(s.MCP, other.MCP) &&
		!slices.ContainsFunc(other.Egress, func(rule string) bool { return !slices.Contains(s.Egress, rule) })
}

// with is the subject with the servers of programs that were permitted before for the
// same folder, the newest first: another target's list is not forgotten.
func (s Subject) with(before *Subject) Subject {
	if s.Folder == before.Folder {
		s.Egress = slices.Concat(s.Egress, slices.DeleteFunc(slices.Clone(before.Egress), func(rule string) bool { return slices.Contains(s.Egress, rule) }))
		s.Egress = s.Egress[:min(len(s.Egress), maxEgress)]
	}
	return s
}

// Give writes a permission down, in place of an earlier one for the same workspace,
// endpoint and key. What was spent today stays spent.
func (b *Book) Give(s Subject, limit Limit) error {
	if err := limit.Validate(); err != nil {
		return err
	}
	unpriced := limit.Calls > 0
	if !unpriced {
		limit.Calls = DefaultCalls
	}
	if err := store.MakeDir(store.OS{}, b.dir, 0o700); err != nil {
		return err
	}
	place, err := b.place()
	if err != nil {
		return err
	}
	return b.change(s, func(p *Permission) (*Permission, error) {
		made := &Permission{GivenAt: evidence.At(b.now()), MaxCalls: limit.Calls, MaxMicro: limit.MicroUSD, Place: place, Subject: s, Unpriced: unpriced, Version: format.Version}
		if p != nil {
			made.Calls, made.Day, made.Spent, made.Subject = p.Calls, p.Day, p.Spent, s.with(&p.Subject)
		}
		return made, nil
	})
}

// change replaces the permission of a subject under the lock of the book, so that what
// permissions of one workspace spend together can be bounded. The old one is nil if
// there is none.
func (b *Book) change(s Subject, to func(*Permission) (*Permission, error)) error {
	name, err := s.file()
	if err != nil {
		return err
	}
	path := filepath.Join(b.dir, name)
	ctx, cancel := context.WithTimeout(context.Background(), lockWait)
	defer cancel()
	lock, err := store.TakeLock(ctx, store.OS{}, filepath.Join(b.dir, "lock"))
	if err != nil {
		return err
	}
	defer lock.Close()
	old, err := b.read(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	changed, err := to(old)
	if err != nil {
		return err
	}
	text, err := canon.Marshal(changed)
	if err != nil {
		return err
	}
	return store.WriteFile(store.OS{}, path, text, 0o600)
}

// read reads the file of a permission, as of today.
func (b *Book) read(name string) (*Permission, error) {
	path := filepath.Join(b.dir, name)
	data, err := store.ReadOwn(path, maxBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err == nil {
		err = store.IsOwnFolder(b.dir)
	}
	p := &Permission{}
	if err == nil {
		if err = canon.UnmarshalCanonical(data, p); err == nil {
			err = p.validate()
		}
		if err != nil {
			err = fmt.Errorf("%s: %w", path, err)
		}
	}
	if err != nil {
		return nil, refusal.Newf(refusal.PermissionInvalid, "a permission to spend cannot be used: %w", err).
			WithHint(`remove the file and give the permission again with "tally run CLASS --live" at a terminal; nothing was sent`)
	}
	p.on(b.now())
	return p, nil
}

// A Reservation is the most of one call, on disk.
type Reservation struct {
	subject Subject
	day     string
	most    int64
}

// Unpriced stands where the most of a call is asked for, if its model has no price.
const Unpriced int64 = -1

// Reserve takes the most that a call can cost from the day's limit, on disk, before the
// call is sent. Lowered is the limit that the workspace sets to all of its endpoints
// together, which can only be lower. Without a permission, or beyond it, there is a
// refusal of the name NotAnswered.
func (b *Book) Reserve(s Subject, most int64, lowered Limit) (*Reservation, error) {
	r := &Reservation{subject: s, most: max(most, 0)}
	err := b.change(s, func(p *Permission) (*Permission, error) {
		if p == nil || !b.allows(p, &s) {
			return nil, refusal.Newf(refusal.NotAnswered, "there is no permission to ask %s; nothing was sent", s.Text()).
				WithHint(`"tally run CLASS --live" at a terminal asks for it`)
		}
		if most == Unpriced && !p.Unpriced {
			return nil, refusal.Newf(refusal.NotAnswered, "the model has no price, and the permission for %s has no limit of calls that a person gave; the call was not sent", s.Endpoint).
				WithHint(`list the model under prices: in providers.yaml; or pay for one run with "tally run CLASS --on-miss live --max-calls N"; or remove %s, and answer "20 calls" or "1.00 and 20 calls" when "tally run CLASS --live" asks again`, b.fileOf(&s))
		}
		others, err := b.others(p, lowered)
		if err != nil {
			return nil, err
		}
		if left := p.left(lowered, others); r.most > left.MicroUSD {
			return nil, refusal.Newf(refusal.NotAnswered, "the next call to %s can cost %s, and %s are left of today's %s; it was not sent",
				s.Endpoint, plain.Dollars(r.most), plain.Dollars(left.MicroUSD), plain.Dollars(p.Limit().Lower(lowered).MicroUSD)).
				WithHint(`the limit is that of the permission, or of live: in tally.yaml; "tally run CLASS --on-miss live --max-cost DOLLARS" allows more for one run`)
		} else if left.Calls == 0 {
			return nil, refusal.Newf(refusal.NotAnswered, "%s had all of today's %s; the next was not sent", s.Endpoint, plain.Plural(int(p.Limit().Lower(lowered).Calls), "call")).
				WithHint(`the limit is that of the permission, or of live: in tally.yaml`)
		}
		p.Spent, p.Calls, r.day = p.Spent+r.most, p.Calls+1, p.Day
		return p, nil
	})
	return r, err
}

// Left is what may still be spent today under a permission. Lowered is the limit that the
// workspace sets to all of its endpoints together.
func (b *Book) Left(p *Permission, lowered Limit) (Limit, error) {
	others, err := b.others(p, lowered)
	return p.left(lowered, others), err
}

// left is what is left of the permission's own limit, and of the workspace's, of which
// other permissions have spent a part.
func (p *Permission) left(lowered, others Limit) Limit {
	left := Limit{p.MaxMicro - p.Spent, p.MaxCalls - p.Calls}
	if lowered.MicroUSD > 0 {
		left.MicroUSD = min(left.MicroUSD, lowered.MicroUSD-p.Spent-others.MicroUSD)
	}
	if lowered.Calls > 0 {
		left.Calls = min(left.Calls, lowered.Calls-p.Calls-others.Calls)
	}
	return Limit{max(0, left.MicroUSD), max(0, left.Calls)}
}

// others is what the workspace spent on the permission's day under other permissions:
// for another endpoint or key. It is looked for only where the workspace has a limit.
func (b *Book) others(p *Permission, lowered Limit) (Limit, error) {
	var sum Limit
	if lowered == (Limit{}) {
		return sum, nil
	}
	all, err := b.all()
	for i := range all {
		if o := &all[i]; o.Subject.Workspace == p.Subject.Workspace && (o.Subject.Endpoint != p.Subject.Endpoint || o.Subject.Key != p.Subject.Key) {
			sum.MicroUSD, sum.Calls = sum.MicroUSD+o.Spent, sum.Calls+o.Calls
		}
	}
	return sum, err
}

// fileOf is the path of a subject's file, for people.
func (b *Book) fileOf(s *Subject) string {
	name, err := s.file()
	if err != nil {
		return b.dir
	}
	return filepath.Join(b.dir, name)
}

// Settle replaces what was reserved by what the call did cost. What was reserved on a
// day that is over stays with that day, and so does what it cost.
func (b *Book) Settle(r *Reservation, cost int64) error {
	return b.change(r.subject, func(p *Permission) (*Permission, error) {
		if p == nil {
			return nil, refusal.Newf(refusal.PermissionInvalid, "the permission for %s was removed while a call was under way", r.subject.Text()).
				WithHint("what the call cost is in the attempt's records")
		}
		if p.Day == r.day {
			p.Spent = max(0, p.Spent-r.most+cost)
		}
		return p, nil
	})
}
