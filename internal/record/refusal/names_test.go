package refusal

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestEveryNameHasAMeaning compares the constants with the table: a name
// without a row would end in exit code 1, whatever it stands for. The constants
// are grouped by their exit code.
func TestEveryNameHasAMeaning(t *testing.T) {
	source, err := os.ReadFile("names.go")
	if err != nil {
		t.Fatal(err)
	}
	constant := regexp.MustCompile(`^\t(\w+) +Name = "(\w+)"$`)
	group := regexp.MustCompile(`^// .*\(exit (\d)\)`)
	exit, declared := -1, 0
	for line := range strings.Lines(string(source)) {
		line = strings.TrimSuffix(line, "\n")
		if m := group.FindStringSubmatch(line); m != nil {
			exit, _ = strconv.Atoi(m[1])
		}
		m := constant.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		declared++
		meaning, ok := meanings[Name(m[2])]
		switch {
		case m[1] != m[2]:
			t.Errorf("%s is spelt %q", m[1], m[2])
		case !ok || meaning.text == "":
			t.Errorf("%s has no meaning", m[1])
		case meaning.exit != exit:
			t.Errorf("%s has exit code %d and stands among those of %d", m[1], meaning.exit, exit)
		}
	}
	if declared != len(Table()) {
		t.Errorf("%d names, %d meanings", declared, len(Table()))
	}
}
