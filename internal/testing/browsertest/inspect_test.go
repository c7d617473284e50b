package browsertest

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A besideInspect is a page of ours and the one of Inspect View about the same, and what
// both must tell.
type besideInspect struct {
	name, ours, theirs string
	width, height      int64
	says               []string
}

// caseTells is what a person learns of a case who reads either page.
var caseTells = []string{"How much is open on invoice 2003?", "€ 15.50", "Give amounts as the tool gives them.", "The amount is 1550", "find_invoice", "amount", "currency", "2026-04-01", "EUR"}

const inspectCase = "/#/logs/billing.eval/samples/sample/invoice-03/1"

var sideBySide = []besideInspect{
	{"list", "/attempt/" + worse, "/#/logs/billing.eval/samples", 1100, 700, []string{"How much is open on", "€", "The amount is"}},
	{"case", worseCase, inspectCase + "/messages", 1100, 700, caseTells},
	{"scoring", worseCase, inspectCase + "/scoring", 1100, 700, []string{"wrong-unit", "does not contain", "€ 15.50", "weighted mean is 0"}},
	{"phone", worseCase, inspectCase + "/messages", 390, 760, []string{"How much is open on invoice 2003?", "find_invoice"}},
}

// TestInspectViewShowsWhatOurPagesShow opens our export in Inspect View, if that is
// installed (.ci/conformance has it), beside our own pages. With -update it makes the
// pictures of docs/viewer.md; without, it wants that they are there.
func TestInspectViewShowsWhatOurPagesShow(t *testing.T) {
	doc, err := os.ReadFile("../../../docs/viewer.md")
	check(t, err)
	picture := func(who, name string) string { return "beside-" + who + "-" + name + ".webp" }
	if !*update {
		for _, s := range sideBySide {
			for _, who := range []string{"ours", "inspect"} {
				file := picture(who, s.name)
				if s.name == "scoring" {
					continue // ours is that of the case
				}
				data, err := os.ReadFile(filepath.Join(pictureDir, file))
				check(t, err)
				if len(data) > maxPicture || !strings.HasPrefix(string(data), "RIFF") || !strings.Contains(string(doc), "](images/"+file+")") {
					t.Errorf("%s: %d bytes; expected WebP of at most %d, shown by docs/viewer.md", file, len(data), maxPicture)
				}
			}
		}
	}
	if _, err := exec.LookPath("inspect"); err != nil {
		t.Skip("Inspect is not installed: its pages are not looked at")
	}
	w := theCompany(t)
	logs := t.TempDir()
	w.do(t, 0, "export", worse, "--format", "inspect", "-o", filepath.Join(logs, "billing.eval"))
	inspect := inspectView(t, logs)
	url := w.serve(t, honest)
	base, _, _ := strings.Cut(url, "/?")
	ours, theirs := open(t, url), open(t, inspect)
	ours.whenRead(base + "/attempt/" + worse)
	for _, s := range sideBySide {
		ours.look("light", s.width, s.height)
		ours.goTo(base + s.ours)
		ours.waitFor(marked)
		theirs.goTo("about:blank")
		theirs.look("light", s.width, s.height)
		theirs.goTo(inspect + s.theirs)
		for who, b := range map[string]*tab{"ours": ours, "inspect": theirs} {
			shown := `document.body.textContent.replace(/\*\*|\s+/g, (x) => x === "**" ? "" : " ")`
			for _, want := range s.says {
				b.waitFor(shown + `.includes(` + quote(want) + `)`)
			}
			if *update && s.name != "scoring" {
				time.Sleep(time.Second) // Inspect View draws its lists later
				check(t, os.WriteFile(filepath.Join(pictureDir, picture(who, s.name)), b.small(), 0o644))
			}
		}
	}
}

// inspectView starts Inspect View over a folder of logs.
func inspectView(t *testing.T, logs string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	_, port, _ := net.SplitHostPort(l.Addr().String())
	l.Close()
	cmd := exec.Command("inspect", "view", "start", "--log-dir", logs, "--port", port)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	out, err := cmd.StdoutPipe()
	check(t, err)
	cmd.Stderr = cmd.Stdout
	check(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if strings.Contains(lines.Text(), "Running on") {
			go func() {
				for lines.Scan() {
				}
			}()
			return fmt.Sprint("http://127.0.0.1:", port)
		}
	}
	t.Fatal("Inspect View did not start")
	return ""
}
