package viewer

import (
	"fmt"
	"html"
	"os/exec"
	"path/filepath"
	"runtime"

	"tallystick/internal/record/store"
)

// OpenBrowser asks the system to open an address, and returns how to forget it. The
// address has the token, and every user of the machine sees the arguments of programs: so
// the browser is given a file that only this user can read, which leads there. Without
// a browser the printed address is enough.
func OpenBrowser(url string) (forget func() error) {
	forget = func() error { return nil }
	dir, remove, err := store.TempDir("tally-view-")
	if err != nil {
		return forget
	}
	page := filepath.Join(dir, "open.html")
	text := fmt.Sprintf("<!doctype html><meta charset=utf-8><meta name=referrer content=no-referrer><meta http-equiv=refresh content=\"0;url=%[1]s\"><title>Tallystick</title><a href=\"%[1]s\">Open the pages</a>\n", html.EscapeString(url))
	if err := store.WriteFile(store.OS{}, page, []byte(text), 0o600); err != nil {
		remove()
		return forget
	}
	words := map[string][]string{"darwin": {"open"}, "windows": {"rundll32", "url.dll,FileProtocolHandler"}}[runtime.GOOS]
	if words == nil {
		words = []string{"xdg-open"}
	}
	cmd := exec.Command(words[0], append(words[1:], page)...)
	if cmd.Start() == nil {
		go cmd.Wait()
	}
	return remove
}
