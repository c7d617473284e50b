package spend

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"tallystick/internal/record/refusal"
)

// A purse is a book at a clock that the test moves, and the subject of a workspace.
type purse struct {
	*testing.T
	*Book
	now     time.Time
	subject Subject
	dir     string
}

func newPurse(t *testing.T) *purse {
	t.Helper()
	p := &purse{T: t, now: time.Date(2026, 5, 12, 23, 0, 0, 0, time.UTC), dir: t.TempDir()}
	state := t.TempDir()
	var err error
	p.Book, err = Open(func(name string) string {
		return map[string]string{"XDG_STATE_HOME": state}[name]
	}, func() time.Time { return p.now })
	if err != nil {
		t.Fatal(err)
	}
	p.subject = p.of(p.dir, "https://api.example.com/v1", "EXAMPLE_KEY", "files: the command serve")
	return p
}

func (p *purse) of(dir, endpoint, key string, mcp ...string) Subject {
	p.Helper()
	s, err := SubjectOf(dir, endpoint, key, mcp)
	if err != nil {
		p.Fatal(err)
	}
	return s
}

func (p *purse) give(l Limit) {
	p.Helper()
	if err := p.Give(p.subject, l); err != nil {
		p.Fatal(err)
	}
}

func (p *purse) file() string {
	p.Helper()
	name, err := p.subject.file()
	if err != nil {
		p.Fatal(err)
	}
	return filepath.Join(p.Book.dir, name)
}

// reserved says how many calls of an amount fit.
func (p *purse) reserved(s Subject, most int64, lowered Limit) int {
	p.Helper()
	for n := range 100 {
		if _, err := p.Reserve(s, most, lowered); err != nil {
			if !refusal.Is(err, refusal.NotAnswered) {
				p.Fatalf("call %d: %v", n, err)
			}
			return n
		}
	}
	return 100
}

func TestDay(t *testing.T) {
	t.Run("a call beyond the limit is not sent", func(t *testing.T) {
		p := newPurse(t)
		p.give(Limit{MicroUSD: 1000})
		if n := p.reserved(p.subject, 300, Limit{}); n != 3 {
			t.Errorf("%d calls of 300 fit into 1000", n)
		}
	})
	t.Run("what a call did not cost is given back", func(t *testing.T) {
		p := newPurse(t)
		p.give(Limit{MicroUSD: 1000})
		r, err := p.Reserve(p.subject, 1000, Limit{})
		if err == nil {
			err = p.Settle(r, 100)
		}
		if err != nil {
			t.Fatal(err)
		}
		if n := p.reserved(p.subject, 300, Limit{}); n != 3 {
			t.Errorf("%d calls of 300 fit into 900", n)
		}
	})
	t.Run("a crash leaves the most", func(t *testing.T) {
		p := newPurse(t)
		p.give(Limit{MicroUSD: 1000})
		if _, err := p.Reserve(p.subject, 800, Limit{}); err != nil {
			t.Fatal(err)
		}
		// Another process, which knows only the disk.
		if n := p.reserved(p.subject, 100, Limit{}); n != 2 {
			t.Errorf("%d calls of 100 fit beside the reservation", n)
		}
	})
	t.Run("the next day begins anew, and a call of yesterday is not taken from it", func(t *testing.T) {
		p := newPurse(t)
		p.give(Limit{MicroUSD: 1000})
		r, err := p.Reserve(p.subject, 1000, Limit{})
		if err != nil {
			t.Fatal(err)
		}
		p.now = p.now.Add(2 * time.Hour)
		if _, err := p.Reserve(p.subject, 600, Limit{}); err != nil {
			t.Fatal(err)
		}
		if err := p.Settle(r, 0); err != nil {
			t.Fatal(err)
		}
		if n := p.reserved(p.subject, 200, Limit{}); n != 2 {
			t.Errorf("%d calls of 200 fit into 400", n)
		}
	})
	t.Run("a clock that is set back gives no second limit", func(t *testing.T) {
		p := newPurse(t)
		p.give(Limit{MicroUSD: 1000})
		p.reserved(p.subject, 1000, Limit{})
		for _, back := range []time.Duration{time.Hour, 24 * time.Hour, 40 * 24 * time.Hour} {
			p.now = p.now.Add(-back)
			if n := p.reserved(p.subject, 1, Limit{}); n != 0 {
				t.Errorf("%d calls after the clock was set back by %s", n, back)
			}
		}
	})
	t.Run("a permission given again does not forget what was spent", func(t *testing.T) {
		p := newPurse(t)
		p.give(Limit{MicroUSD: 1000})
		p.reserved(p.subject, 1000, Limit{})
		p.give(Limit{MicroUSD: 1000})
		if n := p.reserved(p.subject, 1, Limit{}); n != 0 {
			t.Errorf("%d calls more", n)
		}
	})
	t.Run("calls without a price have a limit of calls that was given", func(t *testing.T) {
		for _, tt := range []struct {
			given Limit
			want  int
		}{{Limit{Calls: 2}, 2}, {Limit{MicroUSD: 1000, Calls: 3}, 3}, {Limit{MicroUSD: 1000}, 0}} {
			p := newPurse(t)
			p.give(tt.given)
			if n := p.reserved(p.subject, Unpriced, Limit{}); n != tt.want {
				t.Errorf("%+v: %d calls, expected %d", tt.given, n, tt.want)
			}
			if n := p.reserved(p.subject, Unpriced, Limit{Calls: 100}); n != 0 {
				t.Errorf("%+v: %d calls more, lowered to 100", tt.given, n)
			}
		}
		p := newPurse(t)
		p.give(Limit{Calls: 2})
		if n := p.reserved(p.subject, 0, Limit{}); n != 2 {
			t.Errorf("%d calls that cost nothing", n)
		}
		p = newPurse(t)
		p.give(Limit{Calls: 2})
		if n := p.reserved(p.subject, 1, Limit{}); n != 0 {
			t.Errorf("%d calls with a price, and the permission has no dollars", n)
		}
	})
	t.Run("the workspace lowers and never raises", func(t *testing.T) {
		for _, tt := range []struct {
			lowered Limit
			want    int
		}{{Limit{MicroUSD: 500}, 5}, {Limit{MicroUSD: 1e9}, 10}, {Limit{Calls: 3}, 3}, {Limit{Calls: 99999}, 10}} {
			p := newPurse(t)
			p.give(Limit{MicroUSD: 1000})
			if n := p.reserved(p.subject, 100, tt.lowered); n != tt.want {
				t.Errorf("lowered to %+v: %d calls, expected %d", tt.lowered, n, tt.want)
			}
		}
	})
}

// The workspace's limit is that of all its endpoints and keys together.
func TestWorkspaceTogether(t *testing.T) {
	p := newPurse(t)
	other := p.of(p.dir, "https://two.example.com/v1", "EXAMPLE_KEY")
	elsewhere := p.of(t.TempDir(), "https://two.example.com/v1", "EXAMPLE_KEY")
	for _, s := range []Subject{p.subject, other, elsewhere} {
		if err := p.Give(s, Limit{MicroUSD: 1000}); err != nil {
			t.Fatal(err)
		}
	}
	if n := p.reserved(elsewhere, 100, Limit{}); n != 10 {
		t.Fatalf("%d calls of another workspace", n)
	}
	lowered := Limit{MicroUSD: 700, Calls: 6}
	if n := p.reserved(p.subject, 100, Limit{}); n != 10 {
		t.Fatalf("%d calls", n)
	}
	if n := p.reserved(other, 100, lowered); n != 0 {
		t.Errorf("%d calls of a second endpoint after the first had the day of the workspace", n)
	}
	p.now = p.now.Add(24 * time.Hour)
	if n := p.reserved(p.subject, 100, lowered); n != 6 {
		t.Errorf("%d calls the next day", n)
	}
	given, err := p.Find(other)
	if err != nil || given == nil {
		t.Fatal(given, err)
	}
	if left, err := p.Left(given, lowered); err != nil || left != (Limit{100, 0}) {
		t.Errorf("left %+v, %v", left, err)
	}
	if n := p.reserved(other, 50, lowered); n != 0 {
		t.Errorf("%d calls of the second endpoint", n)
	}
	if n := p.reserved(other, 50, Limit{MicroUSD: 700}); n != 2 {
		t.Errorf("%d calls of the second endpoint, of what is left of the dollars", n)
	}
}

// What programs may ask of other servers is permitted by name, for one target after the
// other.
func TestEgress(t *testing.T) {
	p := newPurse(t)
	with := func(rules ...string) Subject {
		s := p.subject
		s.Egress = rules
		return s
	}
	p.give(Limit{MicroUSD: 1000})
	if found, err := p.Find(with("GET of https://a.example.com")); err != nil || found != nil {
		t.Errorf("a server that was not permitted: %v, %v", found, err)
	}
	for _, rule := range []string{"GET of https://a.example.com", "GET of https://b.example.com"} {
		if err := p.Give(with(rule), Limit{MicroUSD: 1000}); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range []Subject{with(), with("GET of https://a.example.com"), with("GET of https://b.example.com")} {
		if found, err := p.Find(s); err != nil || found == nil {
			t.Errorf("%v: %v, %v", s.Egress, found, err)
		}
	}
	for _, rule := range []string{"POST of https://a.example.com", "GET of https://a.example.com, with the credential of A"} {
		if _, err := p.Reserve(with("GET of https://a.example.com", rule), 1, Limit{}); !refusal.Is(err, refusal.NotAnswered) {
			t.Errorf("%s: %v", rule, err)
		}
	}
}

// A copy of the state folder would have what was spent since forgotten.
func TestCopiedBook(t *testing.T) {
	p := newPurse(t)
	p.give(Limit{MicroUSD: 1000})
	copied := filepath.Join(t.TempDir(), "spend")
	if err := os.CopyFS(copied, os.DirFS(p.Book.dir)); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(copied, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := filepath.WalkDir(copied, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			err = os.Chmod(path, 0o600)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	p.reserved(p.subject, 1000, Limit{})
	b := &Book{copied, p.Book.now}
	if found, err := b.Find(p.subject); err != nil || found != nil {
		t.Errorf("in a copy: %v, %v", found, err)
	}
	if _, err := b.Reserve(p.subject, 1, Limit{}); !refusal.Is(err, refusal.NotAnswered) {
		t.Errorf("in a copy: %v", err)
	}
	// Put back in place of the folder, it is a copy still.
	if err := errors.Join(os.Rename(p.Book.dir, p.Book.dir+".away"), os.Rename(copied, p.Book.dir)); err != nil {
		t.Fatal(err)
	}
	if n := p.reserved(p.subject, 1, Limit{}); n != 0 {
		t.Errorf("%d calls after a copy was put back", n)
	}
}

// Two processes have two books and one disk.
func TestTogether(t *testing.T) {
	p := newPurse(t)
	p.give(Limit{MicroUSD: 1000})
	var mu sync.Mutex
	sent := 0
	var both sync.WaitGroup
	for range 8 {
		book := &Book{p.Book.dir, p.Book.now}
		both.Go(func() {
			for range 10 {
				if _, err := book.Reserve(p.subject, 100, Limit{}); err == nil {
					mu.Lock()
					sent++
					mu.Unlock()
				}
			}
		})
	}
	both.Wait()
	if sent != 10 {
		t.Errorf("%d calls of 100 were sent with a limit of 1000", sent)
	}
}

// What has changed was not permitted.
func TestSubject(t *testing.T) {
	p := newPurse(t)
	p.give(Limit{MicroUSD: 1000})
	if found, err := p.Find(p.subject); err != nil || found == nil {
		t.Fatalf("the permission that was given: %v, %v", found, err)
	}
	other := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(other, link); err != nil {
		t.Fatal(err)
	}
	const url, key, server = "https://api.example.com/v1", "EXAMPLE_KEY", "files: the command serve"
	for name, s := range map[string]Subject{
		"another endpoint":        p.of(p.dir, "https://evil.example.com/v1", key, server),
		"another path":            p.of(p.dir, "https://api.example.com/v2", key, server),
		"another key":             p.of(p.dir, url, "OTHER_KEY", server),
		"no key":                  p.of(p.dir, url, "", server),
		"another command":         p.of(p.dir, url, key, "files: the command serve --all"),
		"one more server":         p.of(p.dir, url, key, server, "more: the command x"),
		"no server":               p.of(p.dir, url, key),
		"another workspace":       p.of(other, url, key, server),
		"a link to another":       p.of(link, url, key, server),
		"parts that run together": p.of(p.dir, url+"EXAMPLE", "_KEY", server),
	} {
		if found, err := p.Find(s); err != nil || found != nil {
			t.Errorf("%s: %v, %v", name, found, err)
		}
		if _, err := p.Reserve(s, 1, Limit{}); !refusal.Is(err, refusal.NotAnswered) {
			t.Errorf("%s: reserve: %v", name, err)
		}
	}
	// The same folder by a link is the same workspace.
	same := filepath.Join(t.TempDir(), "same")
	if err := os.Symlink(p.dir, same); err != nil {
		t.Fatal(err)
	}
	if found, err := p.Find(p.of(same, url, key, server)); err != nil || found == nil {
		t.Errorf("a link to the workspace: %v, %v", found, err)
	}
	// Another folder that is moved to the path is not.
	if err := os.Rename(p.dir, p.dir+".away"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(other, p.dir); err != nil {
		t.Fatal(err)
	}
	if found, err := p.Find(p.of(p.dir, url, key, server)); err != nil || found != nil {
		t.Errorf("a workspace that was moved there: %v, %v", found, err)
	}
}

// A file that cannot be trusted is refused by name, and never no limit.
func TestHostileFile(t *testing.T) {
	replace := func(old, new string) func(*purse) {
		return func(p *purse) {
			data, err := os.ReadFile(p.file())
			if err != nil || !strings.Contains(string(data), old) {
				p.Fatalf("%s is not in %s, %v", old, data, err)
			}
			if err := os.WriteFile(p.file(), []byte(strings.Replace(string(data), old, new, 1)), 0o600); err != nil {
				p.Fatal(err)
			}
		}
	}
	for name, forge := range map[string]func(*purse){
		"a negative limit":         replace(`"max_microdollars_per_day":1000`, `"max_microdollars_per_day":-1000`),
		"a limit that is not one":  replace(`"max_microdollars_per_day":1000`, `"max_microdollars_per_day":NaN`),
		"a limit beyond the most":  replace(`"max_microdollars_per_day":1000`, `"max_microdollars_per_day":9000000000000`),
		"no limit of calls":        replace(`"max_calls_per_day":1000`, `"max_calls_per_day":0`),
		"a limit in a text":        replace(`"max_microdollars_per_day":1000`, `"max_microdollars_per_day":"1000"`),
		"a member that is missing": replace(`"max_calls_per_day":1000,`, ``),
		"a member twice":           replace(`"max_calls_per_day":1000`, `"max_calls_per_day":1000,"max_calls_per_day":9999`),
		"a member too many":        replace(`"calls":0`, `"calls":0,"unlimited":true`),
		"negative spending":        replace(`"spent_microdollars":0`, `"spent_microdollars":-1`),
		"a day of the far future":  replace(`"day":""`, `"day":"never"`),
		"another version":          replace(`"v":"`, `"v":"9`),
		"nothing":                  func(p *purse) { os.WriteFile(p.file(), nil, 0o600) },
		"half of it": func(p *purse) {
			if err := os.Truncate(p.file(), 40); err != nil {
				p.Fatal(err)
			}
		},
		"writable by others": func(p *purse) { os.Chmod(p.file(), 0o666) },
		"writable by a group": func(p *purse) {
			os.Chmod(p.file(), 0o620)
		},
		"a folder that others write": func(p *purse) { os.Chmod(p.Book.dir, 0o777) },
		"a link": func(p *purse) {
			at := filepath.Join(p.TempDir(), "elsewhere")
			if err := errors.Join(os.Rename(p.file(), at), os.Symlink(at, p.file())); err != nil {
				p.Fatal(err)
			}
		},
		"a folder": func(p *purse) {
			if err := errors.Join(os.Remove(p.file()), os.Mkdir(p.file(), 0o700)); err != nil {
				p.Fatal(err)
			}
		},
		"of another user": func(p *purse) {
			if os.Getuid() != 0 {
				p.Skip("only root gives files away")
			}
			if err := os.Chown(p.file(), 12345, 12345); err != nil {
				p.Skip(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPurse(t)
			p.give(Limit{MicroUSD: 1000})
			forge(p)
			if found, err := p.Find(p.subject); !refusal.Is(err, refusal.PermissionInvalid) {
				t.Errorf("found %+v, %v", found, err)
			}
			if _, err := p.Reserve(p.subject, 1, Limit{}); !refusal.Is(err, refusal.PermissionInvalid) {
				t.Errorf("reserve: %v", err)
			}
		})
	}
}

func TestLimits(t *testing.T) {
	p := newPurse(t)
	for _, l := range []Limit{{MicroUSD: -1}, {MicroUSD: MostMicroUSD + 1}, {Calls: -1}, {Calls: MostCalls + 1}} {
		if err := p.Give(p.subject, l); !refusal.Is(err, refusal.Usage) {
			t.Errorf("%+v: %v", l, err)
		}
	}
	if _, err := os.Lstat(p.file()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a limit that is not one was written: %v", err)
	}
	if got := (Limit{MicroUSD: 1_500_000, Calls: 1}).Text(); got != "$1.50 and 1 call" {
		t.Error(got)
	}
}
