package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tallystick/internal/record/refusal"
	"tallystick/internal/run/bench"
)

// workspaceOf makes a workspace of some files. A text that begins with "-> " is a
// link.
func workspaceOf(t *testing.T, files map[string]string) *os.Root {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		file := filepath.Join(dir, filepath.FromSlash(name))
		err := os.MkdirAll(filepath.Dir(file), 0o755)
		if to, isLink := strings.CutPrefix(text, "-> "); isLink && err == nil {
			err = os.Symlink(to, file)
		} else if err == nil {
			err = os.WriteFile(file, []byte(text), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return root
}

const commandTarget = "version: 1\nkind: command\ncommand: {command: [run, \"--model=${param.model}\", \"${param.prompt_file}\"], env: {M: \"${param.model}-${param.model}\"}}\n"

func namesOf(ts []*Target) []string {
	var names []string
	for _, t := range ts {
		names = append(names, t.Name)
	}
	return names
}

func TestParametersMakeVariants(t *testing.T) {
	root := workspaceOf(t, map[string]string{
		"targets/r.yaml": commandTarget + "parameters: {model: [gpt-a, \"a, b\"], prompt_file: [prompts/a.md, prompts/b.md], num: [0, 1.5, true]}\n",
		"prompts/a.md":   "be good", "prompts/b.md": "be brief",
		"targets/b.yaml": "version: 1\nkind: builtin\nbuiltin: {model: x, api: openai.chat}\nparameters: {model: [m1, m2], temperature: [0], prompt_file: [prompts/a.md]}\n",
		"targets/p.yaml": "version: 1\nkind: builtin\nbuiltin: {api: openai.chat, model: x}\nparameters: {system: [one]}\n",
	})
	all, err := LoadAll(root, "r")
	if err != nil {
		t.Fatal(err)
	}
	names := namesOf(all)
	if len(all) != 12 || names[0] != "r[model=gpt-a,num=0,prompt_file=prompts/a.md]" || names[11] != `r[model="a, b",num=true,prompt_file=prompts/b.md]` {
		t.Fatalf("variants are %q", names)
	}
	folders, digests := map[string]bool{}, map[string]bool{}
	for _, v := range all {
		folder := bench.TargetFolder(v.Name)
		folders[folder], digests[v.Digest.String()] = true, true
		if bench.CheckID(folder) != nil || bench.CheckTarget(folder) == nil {
			t.Errorf("%s: the folder %s must be a name that no target has", v.Name, folder)
		}
		one, err := LoadAll(root, v.Name)
		if err != nil || len(one) != 1 || one[0].Name != v.Name || one[0].Digest != v.Digest {
			t.Errorf("%s is not found by its name: %v %v", v.Name, namesOf(one), err)
		}
	}
	if len(folders) != 12 || len(digests) != 12 {
		t.Errorf("%d folders and %d digests of 12 variants", len(folders), len(digests))
	}
	first := all[0]
	if got := fmt.Sprint(first.Command.Command, first.Command.Env["M"]); got != "[run --model=gpt-a /params/prompt_file/a.md]gpt-a-gpt-a" {
		t.Errorf("the command is %s", got)
	}
	if got := fmt.Sprint(first.variables()); got != "[TALLY_PARAM_MODEL=gpt-a TALLY_PARAM_NUM=0 TALLY_PARAM_PROMPT_FILE=/params/prompt_file/a.md]" {
		t.Errorf("the variables are %s", got)
	}
	if got := fmt.Sprint(first.told(false)); got != "map[model:gpt-a num:0 prompt_file:be good]" {
		t.Errorf("an agent behind a URL is told %s", got)
	}
	some, err := LoadAll(root, "r[num=true,model=gpt-a]")
	if err != nil || len(some) != 2 {
		t.Errorf("a part of the names chooses %q, %v", namesOf(some), err)
	}
	built, err := LoadAll(root, "b")
	if err != nil || len(built) != 2 || built[1].Builtin.Model != "m2" || built[1].Builtin.System != "be good" || *built[1].Builtin.Temperature != 0 {
		t.Errorf("the built-in agent is %+v, %v", built, err)
	}
	if one, err := LoadAll(root, "p"); err != nil || one[0].Name != "p[system=one]" {
		t.Errorf("%v, %v", namesOf(one), err)
	}
}

func TestParametersAreRefused(t *testing.T) {
	many := make([]string, 10_000)
	for i := range many {
		many[i] = fmt.Sprint(i)
	}
	plainCommand := "version: 1\nkind: command\ncommand: {command: [run]}\n"
	for name, tt := range map[string]struct{ text, want string }{
		"a name that is a path":       {plainCommand + "parameters: {../x: [a]}\n", "expected 1 to 32 of a-z"},
		"a name in capitals":          {plainCommand + "parameters: {Model: [a]}\n", "expected 1 to 32 of a-z"},
		"a line feed":                 {plainCommand + "parameters: {model: [\"a\\nb\"]}\n", "visible characters"},
		"no value":                    {plainCommand + "parameters: {model: []}\n", "is empty"},
		"an empty value":              {plainCommand + "parameters: {model: [\"\"]}\n", "visible characters"},
		"a value twice":               {plainCommand + "parameters: {model: [a, a]}\n", "listed twice"},
		"a number and its text":       {plainCommand + "parameters: {num: [1, \"1\"]}\n", "listed twice"},
		"a list":                      {plainCommand + "parameters: {model: [[a]]}\n", "expected a text"},
		"another object":              {plainCommand + "parameters: {model: [{path: x}]}\n", "expected a text"},
		"ten thousand values":         {plainCommand + "parameters: {num: [" + strings.Join(many, ",") + "]}\n", "10000 variants"},
		"a product too large":         {plainCommand + "parameters: {a: [1,2,3,4,5,6,7,8,9], b: [1,2,3,4,5,6,7,8,9]}\n", "81 variants"},
		"an unknown name":             {"version: 1\nkind: command\ncommand:\n  command: [run, \"${param.modle}\"]\nparameters: {model: [a]}\n", "targets/t.yaml:4"},
		"an open brace":               {"version: 1\nkind: command\ncommand:\n  command: [run, \"${param.model\"]\nparameters: {model: [a]}\n", "targets/t.yaml:4"},
		"no parameters at all":        {"version: 1\nkind: command\ncommand: {command: [run, \"${param.model}\"]}\n", "not a parameter"},
		"a variable of ours":          {"version: 1\nkind: command\ncommand: {command: [run], env: {TALLY_PARAM_MODEL: x}}\nparameters: {model: [a]}\n", "are those of the parameters"},
		"what the loop has not":       {"version: 1\nkind: builtin\nbuiltin: {model: m, api: openai.chat}\nparameters: {modle: [a]}\n", "expected model, temperature"},
		"a temperature of letters":    {"version: 1\nkind: builtin\nbuiltin: {model: m, api: openai.chat}\nparameters: {temperature: [warm]}\n", "expected a number"},
		"a file that is not there":    {plainCommand + "parameters: {prompt_file: [prompts/none.md]}\n", "no such file"},
		"a link out of the workspace": {plainCommand + "parameters: {p: [{file: prompts/out.md}]}\n", "is a link"},
		"a folder that is a link":     {plainCommand + "parameters: {p: [{file: linked/dataset.jsonl}]}\n", "is a link"},
		"a folder":                    {plainCommand + "parameters: {p: [{file: prompts}]}\n", "is a link or something else"},
		"above the workspace":         {plainCommand + "parameters: {p_file: [../secret]}\n", "no step up"},
		"an absolute path":            {plainCommand + "parameters: {p_file: [/etc/passwd]}\n", "no step up"},
		"the answers":                 {plainCommand + "parameters: {p_file: [bench/c/dataset.jsonl]}\n", "shown nothing of bench"},
		"the keys":                    {plainCommand + "parameters: {p_file: [.tally/keys/operator]}\n", "shown nothing of .tally"},
		"not text":                    {plainCommand + "parameters: {p_file: [prompts/bytes]}\n", "not UTF-8"},
		"a long value":                {plainCommand + "parameters: {p: [" + strings.Repeat("x", 201) + "]}\n", "belongs in a file"},
	} {
		root := workspaceOf(t, map[string]string{"targets/t.yaml": tt.text, "prompts/a.md": "x", "prompts/bytes": "\xff",
			"prompts/out.md": "-> /etc/hostname", "linked": "-> bench/c", "bench/c/dataset.jsonl": "{}"})
		if _, err := LoadAll(root, "t"); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}

// TestVariantsMeetNoOtherTarget: neither a target's name nor another variant's can
// be the folder of a variant.
func TestVariantsMeetNoOtherTarget(t *testing.T) {
	folder := bench.TargetFolder("r[model=a]")
	root := workspaceOf(t, map[string]string{"targets/" + folder + ".yaml": "version: 1\nkind: builtin\nbuiltin: {model: m, api: openai.chat}\n"})
	if _, err := LoadAll(root, folder); !refusal.Is(err, refusal.Usage) || !strings.Contains(err.Error(), "folders of variants") {
		t.Errorf("a target named %s: %v", folder, err)
	}
	seen := map[string]string{}
	for _, name := range []string{"r[model=a]", "r[model=a,n=1]", `r[model="a,n=1"]`, "r.model[a=a]", "r[model=A]", "r[a=model]", "r-model[a=1]", strings.Repeat("r", 86) + "[model=a]"} {
		folder := bench.TargetFolder(name)
		if other := seen[folder]; other != "" || len(folder) > 100 {
			t.Errorf("%s has the folder %s, as %q", name, folder, other)
		}
		seen[folder] = name
	}
	if err := bench.CheckVariant(strings.Repeat("r", 87) + "[model=a]"); err == nil {
		t.Error("a name too long for a folder was accepted")
	}
}

func TestChoicesAreReadAsTheyAreWritten(t *testing.T) {
	for _, text := range []string{"r[", "r[]", "r[a]", "r[a=b", "r[a=b,]", `r[a="b]`, `r[a="b"c]`, "r[a=b]x"} {
		if _, _, err := ParseChoice(text); !refusal.Is(err, refusal.Usage) {
			t.Errorf("%s: %v", text, err)
		}
	}
	name, c, err := ParseChoice(`r[a="x,y\"]",b=1,a=z]`)
	if err != nil || name != "r" || !slices.Equal(c["a"], []string{`x,y"]`, "z"}) || !slices.Equal(c["b"], []string{"1"}) {
		t.Errorf("%s %v %v", name, c, err)
	}
}
