package structure

import (
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"

	"tallystick/internal/record/refusal"
)

// TestEveryRefusalIsMadeAndTested keeps the table of refusals honest: a name
// that no code gives is a promise without a control, and a name that no test
// expects is a control that was never seen to work.
func TestEveryRefusalIsMadeAndTested(t *testing.T) {
	made, tested := map[string]bool{}, map[string]bool{}
	inCode := regexp.MustCompile(`refusal\.([A-Z]\w+)`)
	word := regexp.MustCompile(`[A-Z][A-Za-z]+`)
	tree := os.DirFS(root)
	for _, name := range treeFiles(t, tree) {
		isTest := strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, ".txtar")
		if !strings.HasSuffix(name, ".go") && !isTest || name == "internal/record/refusal/names.go" {
			continue
		}
		data, err := fs.ReadFile(tree, name)
		if err != nil {
			t.Fatal(err)
		}
		if isTest {
			for _, w := range word.FindAllString(string(data), -1) {
				tested[w] = true
			}
			continue
		}
		for _, m := range inCode.FindAllStringSubmatch(string(data), -1) {
			made[m[1]] = true
		}
	}
	for _, row := range refusal.Table() {
		name := string(row.Name)
		if !made[name] && row.Name != refusal.Failed {
			t.Errorf("%s is listed and nothing gives it: remove it or write the control", name)
		}
		if !tested[name] {
			t.Errorf("%s is given and no test expects it: write the forgery or the fault that it refuses", name)
		}
	}
}
