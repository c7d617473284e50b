// Package browser holds what checks a page where it is read: a verifier of receipts and
// trajectories in plain JavaScript, written from docs/formats, and the pages that use it.
//
// The scripts are ES modules without dependencies and without a build step. A server
// serves them as they are ([Scripts]); a page that opens from disk carries them in one
// piece ([Bundle]).
package browser

import (
	"embed"
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"sync"
)

//go:embed *.js
var scripts embed.FS

// Scripts are the modules, by their names.
func Scripts() fs.FS { return scripts }

// importLine is the one form in which a module of ours names another, so that nobody
// has to parse JavaScript to put them together.
var importLine = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?m)^import \{ [A-Za-z0-9_, ]+ \} from "\./([a-z0-9_]+\.js)";\n`)
})

// Bundle puts a module and all that it imports into one script that stands in a page.
// Names that two modules give away would clash, and the script would not run.
func Bundle(main string) (string, error) {
	var out strings.Builder
	out.WriteString("\"use strict\";\n(() => {\n")
	if err := bundle(&out, main, map[string]bool{}); err != nil {
		return "", err
	}
	out.WriteString("})();\n")
	script := out.String()
	// What ends or hides a script element, whatever it means in JavaScript.
	for _, bad := range []string{"</script", "<!--", "<script"} {
		if strings.Contains(strings.ToLower(script), bad) {
			return "", fmt.Errorf("the script %s contains %q, which cannot stand in a page", main, bad)
		}
	}
	return script, nil
}

func bundle(out *strings.Builder, name string, done map[string]bool) error {
	if done[name] {
		return nil
	}
	done[name] = true
	source, err := scripts.ReadFile(name)
	if err != nil {
		return err
	}
	for _, m := range importLine().FindAllSubmatch(source, -1) {
		if err := bundle(out, string(m[1]), done); err != nil {
			return err
		}
	}
	body := importLine().ReplaceAll(source, nil)
	for line := range strings.Lines(string(body)) {
		if strings.HasPrefix(line, "import ") {
			return fmt.Errorf("%s: an import in another form than one line of names: %s", name, line)
		}
		out.WriteString(strings.TrimPrefix(line, "export "))
	}
	return nil
}
