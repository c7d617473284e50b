package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestGradersPage runs every example of docs/graders.md: each is a case that passes.
func TestGradersPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/graders.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```jsonl example\n(.*?)```").FindSubmatch(page)
	if block == nil {
		t.Fatal("the page has no examples")
	}
	examples := string(block[1])
	rows := regexp.MustCompile(`(?m)^\|[^|]*\|([^|]*)\|$`).FindAllSubmatch(page, -1)
	named := 0
	for _, row := range rows {
		for _, kind := range regexp.MustCompile("`([a-z_0-9]+)`").FindAllSubmatch(row[1], -1) {
			named++
			name := string(kind[1])
			if name != "test" && !strings.Contains(examples, `"kind":"`+name+`"`) && !strings.Contains(examples, `"`+name+`":{`) {
				t.Errorf("the table has %s, and no example has it", name)
			}
		}
	}
	if named < 25 {
		t.Errorf("the table names %d graders, expected 25 or more", named)
	}
	n := strings.Count(examples, "\n")
	script := fmt.Sprintf("exec tally init ws\ncd ws\nexec tally run graders --json\njson stdout total %d\njson stdout passed %d\n"+
		"-- ws/judge.yaml --\nversion: 1\nmodel: judge-1\napi: openai.chat\n-- ws/bench/graders/registration.yaml --\nclass: graders\ntrust: scratch\n-- ws/bench/graders/dataset.jsonl --\n%s", n, n, examples)
	file := filepath.Join(t.TempDir(), "graders.txtar")
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{Files: []string{file}, Setup: isolate, Cmds: scriptCommands(t)})
}
