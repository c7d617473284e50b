// Package browser holds what checks a page where it is read: a verifier of receipts and
// trajectories in plain JavaScript, written from docs/formats, and the pages that use it.
//
// The scripts are ES modules without dependencies and without a build step. A server
// serves them as they are ([Scripts]); a page that opens from disk carries them in one
// piece ([Bundle]).
package browser

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"sync"
)

//go:embed *.js check.css
var scripts embed.FS

// Scripts are the modules, by their names.
func Scripts() fs.FS { return scripts }

// importLine is the one form in which a module of ours names another, so that no program
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

//go:embed page.css
var pageStyle string

//go:embed verify.html
var verifyPage string

// Style is the stylesheet of pages that open from disk.
func Style() string {
	check, err := scripts.ReadFile("check.css")
	if err != nil {
		panic(err) // it is embedded
	}
	return pageStyle + string(check)
}

// ReportScript is the script that an exported report checks itself with. It knows how
// the page looks, so that another style is noticed.
func ReportScript() string { return reportScript() }

var reportScript = sync.OnceValue(func() string {
	return strings.NewReplacer(`"{{style}}"`, hashed(Style())).Replace(mustBundle("report_page.js"))
})

// hashed is the SHA-256 of a text, as a string of a script.
func hashed(text string) string { return fmt.Sprintf(`"%x"`, sha256.Sum256([]byte(text))) }

// mustBundle is for modules of ours, which a test bundles all of.
func mustBundle(name string) string {
	script, err := Bundle(name)
	if err != nil {
		panic(err)
	}
	return script
}

// Policy lets a page run one script and look one way, by their hashes, and load
// nothing. connect is where its script may send questions, or "".
func Policy(script, style, connect string) string {
	policy := "default-src 'none'; script-src " + source(script) + "; style-src " + source(style) + "; base-uri 'none'; form-action 'none'"
	if connect != "" {
		policy += "; connect-src " + connect
	}
	return policy
}

// source names the text of an element as a content policy does.
func source(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// verifyScript is that of verify.html. It knows the page around it, and how a report of
// this release runs and looks: what is another does not become green.
var verifyScript = sync.OnceValue(func() string {
	around, err := json.Marshal(verifyPage) // with < and > escaped, so that it can stand in a script
	if err != nil {
		panic(err) // a string
	}
	return strings.NewReplacer(`"{{page}}"`, string(around), `"{{style}}"`, hashed(Style()), `"{{report}}"`, hashed(ReportScript())).Replace(mustBundle("verify.js"))
})

// VerifyPolicy is the content policy of verify.html, for a server that sends it.
func VerifyPolicy() string { return Policy(verifyScript(), Style(), "http: https:") }

// VerifyPage is verify.html: one file that loads nothing and is the same for everybody
// within a release. A person who opens it from disk need not trust the server that
// shows them results.
func VerifyPage() []byte { return []byte(page()) }

var page = sync.OnceValue(func() string {
	return strings.NewReplacer("{{policy}}", VerifyPolicy(), "{{style}}", Style(), "{{script}}", verifyScript()).Replace(verifyPage)
})
