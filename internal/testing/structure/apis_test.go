package structure

import (
	"fmt"
	"go/ast"
	"go/token"
	"io/fs"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

// apiWords are parts of names that only a package that speaks a model API
// needs.
var apiWords = []string{"openai.", "anthropic.", "OPENAI_", "ANTHROPIC_", "chat/completions", "/v1/messages", "/v1/responses", "tool_use", "function_call", "anthropic-version", "gemini.", "GEMINI_", ":generateContent", "functionCall", "x-goog-api-key"}

// mayNameAPIs are files outside of internal/run/wire that hold such a word for
// another reason.
var mayNameAPIs = map[string]string{
	"internal/cli/init.go":                "a target for the operator to edit",
	"internal/app/ceremony/init.go":       "a target for the operator to edit",
	"internal/testing/repofix/repofix.go": "the target of a bench",
}

// checkAPIs wants what is known about a model API to be in one place.
func checkAPIs(t *testing.T, tree fs.FS) []string {
	var problems []string
	for _, f := range goFiles(t, tree) {
		if f.isTest() || strings.HasPrefix(f.path, "internal/run/wire/") || foreignFormat(f.path) || mayNameAPIs[f.path] != "" {
			continue
		}
		complain := func(n ast.Node, what string) {
			problems = append(problems, fmt.Sprintf("%s:%d: names a model API (%s): what is known about one stands in internal/run/wire, so that a further one is one file and one row", f.path, f.line(n), what))
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && x.Name == "wire" && isAPIConstant(n.Sel.Name) {
					complain(n, "wire."+n.Sel.Name)
				}
			case *ast.BasicLit:
				text, err := strconv.Unquote(n.Value)
				if n.Kind != token.STRING || err != nil {
					return true
				}
				for _, word := range apiWords {
					if strings.Contains(text, word) {
						complain(n, word)
						break
					}
				}
			}
			return true
		})
	}
	return problems
}

// foreignFormat tells files about formats that are not ours and not those of a
// model API, though some of their words are the same.
func foreignFormat(path string) bool { return strings.HasPrefix(path, "internal/share/") }

func isAPIConstant(name string) bool {
	return strings.HasPrefix(name, "OpenAI") || strings.HasPrefix(name, "Anthropic") || strings.HasPrefix(name, "Gemini")
}

func TestOnlyWireNamesModelAPIs(t *testing.T) {
	requireClean(t, checkAPIs)
}

func TestAPICheckFindsEachFault(t *testing.T) {
	for _, tt := range []struct{ name, file, source, want string }{
		{"wire names them", "internal/run/wire/x.go", `var a = "openai.chat"`, ""},
		{"tests name them", "internal/run/agent/x_test.go", `var a = "openai.chat"`, ""},
		{"all APIs at once", "internal/run/agent/x.go", `var a = wire.APIs()`, ""},
		{"a constant", "internal/run/agent/x.go", `var a = wire.OpenAIChat`, "wire.OpenAIChat"},
		{"a name", "internal/run/agent/x.go", `var a = "anthropic.messages"`, "anthropic."},
		{"a path", "internal/run/agent/x.go", "var a = `/v1/chat/completions`", "chat/completions"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tree := fstest.MapFS{tt.file: {Data: []byte("package x\n" + tt.source + "\n")}}
			requireProblem(t, checkAPIs, tree, tt.want)
		})
	}
}
