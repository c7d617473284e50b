package program

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// The spellings are by the name of a file: runs run a text as a program, or a
// program that is not fixed; fixed have the same words, and do not. The fixtures
// of the audit have them too.
var runs, fixed = func() (a, b map[string][]string) {
	data, err := os.ReadFile("testdata/spellings.json")
	if err != nil {
		panic(err)
	}
	var doc struct{ Runs, Fixed map[string][]string }
	if err := json.Unmarshal(data, &doc); err != nil {
		panic(err)
	}
	return doc.Runs, doc.Fixed
}()

// TestEverySpellingIsFound: however a program writes it, that it runs a text is
// found.
func TestEverySpellingIsFound(t *testing.T) {
	for name, list := range runs {
		for _, text := range list {
			if p := Read(LanguageOf(name, []byte(text)), []byte(text+"\n")); len(p.Runs) == 0 {
				t.Errorf("%s: not found: %s", name, text)
			}
		}
	}
}

// TestWhatIsFixedIsNotFound: the same words elsewhere mean something else.
func TestWhatIsFixedIsNotFound(t *testing.T) {
	for name, list := range fixed {
		for _, text := range list {
			if p := Read(LanguageOf(name, []byte(text)), []byte(text+"\n")); len(p.Runs) > 0 {
				t.Errorf("%s: found %+v: %s", name, p.Runs, text)
			}
		}
	}
}

// TestSpellingsHoldInEveryPlace: what stands around a call does not hide it.
func TestSpellingsHoldInEveryPlace(t *testing.T) {
	around := map[string][]string{
		"a.py": {"def f(x, cmd, name):\n    pass\n%s\n", "# it's a comment\n\"\"\"doc's\"\"\"\n%s\n", "zz = r'\\d'\nyy = f'{zz!r}'\n%s\n"},
		"a.js": {"// it's\n%s\n", "const r = /[`'\"]/g;\n%s\n", "function g(a) { return a }\n%s\n", "const t = `a ${b} c`;\n%s\n"},
		"a.go": {"package p\n\n// it's\n%s\n", "var zz = `\"`\n%s\n", "var yy = '\"'\n%s\n"},
		"a.sh": {"# it's\n%s\n", "echo \"it's\"\n%s\n", "cat <<'E'\n`\nE\n%s\n"},
	}
	for name, frames := range around {
		for _, frame := range frames {
			for _, text := range runs[name] {
				if name == "a.go" && strings.HasPrefix(text, "import") {
					continue
				}
				whole := strings.Replace(frame, "%s", text, 1)
				if p := Read(LanguageOf(name, []byte(whole)), []byte(whole)); len(p.Runs) == 0 {
					t.Errorf("%s: not found:\n%s", name, whole)
				}
			}
			for _, text := range fixed[name] {
				whole := strings.Replace(frame, "%s", text, 1)
				if p := Read(LanguageOf(name, []byte(whole)), []byte(whole)); len(p.Runs) > 0 {
					t.Errorf("%s: found %+v:\n%s", name, p.Runs, whole)
				}
			}
		}
	}
}

// TestConstantTextsAreFollowed: a path is known however it is put together.
func TestConstantTextsAreFollowed(t *testing.T) {
	for name, list := range map[string][]string{
		"a.py": {
			`open("/srv/answers.json")`, `open("/srv/" + "answers.json")`, `open("/srv/" "answers.json")`, `open(os.path.join("/srv", "ans" + "wers.json"))`, `open(Path("/srv") / "answers.json")`, `Path("/srv").joinpath("answers.json").read_text()`, "d = '/srv'\nopen(d + '/answers.json')", "d = '/srv'\nopen(f'{d}/answers.json')", `open("%s/%s" % ("/srv", "answers.json"))`, `open("{}/answers.json".format("/srv"))`, `open("/".join(["", "srv", "answers.json"]))`, `open(base64.b64decode("L3Nydi9hbnN3ZXJzLmpzb24="))`, `open(bytes.fromhex("2f7372762f616e73776572732e6a736f6e").decode())`, `open("nosj.srewsna/vrs/"[::-1])`, `open(urllib.parse.unquote("%2Fsrv%2Fanswers.json"))`, `open("\x2fsrv/answers.json")`, `open(codecs.decode("/fei/nafjref.wfba", "rot13"))`, `open("/srv/" + "".join(reversed("nosj.srewsna")))`, `os.system("cat /srv/answers.json")`, `subprocess.run(["cat", "/srv/answers.json"])`,
		},
		"a.js": {`readFile("/srv/" + "answers.json")`, "readFile(`/srv/${'answers'}.json`)", `readFile(path.join("/srv", "answers.json"))`, `readFile(atob("L3Nydi9hbnN3ZXJzLmpzb24="))`, `readFile(Buffer.from("2f7372762f616e73776572732e6a736f6e", "hex").toString())`, `readFile(["/srv", "answers.json"].join("/"))`, `execSync("cat /srv/answers.json")`, `const d = "/srv"; readFile(d + "/answers.json")`, `readFile(decodeURIComponent("%2Fsrv%2Fanswers.json"))`},
		"a.go": {`os.ReadFile("/srv/" + "answers.json")`, `os.ReadFile(filepath.Join("/srv", "answers.json"))`, "d := \"/srv\"\nos.ReadFile(d + \"/answers.json\")", `os.ReadFile(fmt.Sprintf("%s/%s", "/srv", "answers.json"))`, `os.ReadFile(strings.Join([]string{"/srv", "answers.json"}, "/"))`, `exec.Command("cat", "/srv/answers.json")`, `os.ReadFile(string([]byte{47, 115, 114, 118, 47}) + "answers.json")`},
		"a.sh": {`cat /srv/answers.json`, `cat "/srv/answers.json"`, `cat /srv/ans''wers.json`, `cat /srv/ans\wers.json`, "d=/srv\ncat $d/answers.json", "d=/srv; f=answers\ncat \"${d}/${f}.json\"", `cat $'/srv/\x61nswers.json'`, `bash -c 'cat /srv/answers.json'`, `python3 -c 'open("/srv/"+"answers.json")'`, `cat < /srv/answers.json`, "x=/srv/ans\nx+=wers.json\ncat $x"},
	} {
		for _, text := range list {
			p := Read(LanguageOf(name, nil), []byte(text+"\n"))
			found := false
			for _, x := range p.Texts {
				found = found || x.Text == "/srv/answers.json" && !x.Writes
			}
			if !found {
				t.Errorf("%s: %s: texts %+v", name, text, p.Texts)
			}
		}
	}
}

// TestWhatIsWrittenIsSaid: the name of a file that a program makes.
func TestWhatIsWrittenIsSaid(t *testing.T) {
	for name, list := range map[string][]string{
		"a.py": {`open("out/answers.json", "w")`, `open("out/answers.json", mode="wb")`, `Path("out/answers.json").write_text(x)`, "p = 'out/answers.json'\nopen(p, 'a')", `df.to_csv("out/answers.json")`, `open(os.path.join("out", "answers.json"), "w")`, "p = Path('out/answers.json')\np.write_text(x)", `(Path("out") / "answers.json").write_text(x)`},
		"a.js": {`writeFileSync("out/answers.json", x)`, `fs.createWriteStream("out/answers.json")`},
		"a.go": {`os.WriteFile("out/answers.json", data, 0o644)`, `os.Create("out/answers.json")`},
		"a.sh": {`echo 42 > out/answers.json`, `x >> "out/answers.json"`, `x | tee out/answers.json`},
	} {
		for _, text := range list {
			p := Read(LanguageOf(name, nil), []byte(text+"\n"))
			found := false
			for _, x := range p.Texts {
				found = found || x.Text == "out/answers.json" && x.Writes
			}
			if !found {
				t.Errorf("%s: %s: texts %+v", name, text, p.Texts)
			}
		}
	}
	for _, text := range []string{`open("out/answers.json"); open("x", "w")`, `save(load("out/answers.json"))`, `json.dump(load("out/answers.json"), open("x", "w"))`, `open("out/answers.json", "r+")`} {
		for _, x := range Read(python, []byte(text)).Texts {
			if x.Writes && x.Text == "out/answers.json" {
				t.Errorf("%s: a file that is read counts as written: %+v", text, x)
			}
		}
	}
}

// TestReadingEnds: no program takes more than a bounded amount of work.
func TestReadingEnds(t *testing.T) {

	for _, piece := range []string{"(", "[", "{", "f(", "x=", "a+", "\"", "'", "`", "${", "f'{", "$(", "\\", "<<E\n", "x=x+", "lambda x:", "=>", "x.", "a,b=", "def f(x):\n", "{{", "/*", "eval=eval\n", "for x in x:\n ", "`${", "\"$("} {
		for _, l := range Languages {
			Read(l, []byte(strings.Repeat(piece, 5_000/len(piece))))
		}
	}

}

func FuzzRead(f *testing.F) {
	for name, list := range runs {
		for _, text := range list {
			f.Add(text, len(name)%4)
		}
	}
	f.Fuzz(func(t *testing.T, text string, which int) {
		l := Languages[uint(which)%uint(len(Languages))]
		for _, x := range Read(l, []byte(text)).Texts {
			if x.Text == "" {
				t.Errorf("an empty text")
			}
		}
	})
}
