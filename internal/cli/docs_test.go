package cli

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"tallystick/internal/record/refusal"
)

var update = flag.Bool("update", false, "rewrite docs/cli.md and docs/refusals.md")

func TestCLIDocs(t *testing.T) {
	compareDoc(t, "cli.md", cliDoc(testProgram().root))
}

func TestRefusalDocs(t *testing.T) {
	compareDoc(t, "refusals.md", refusalDoc())
}

// compareDoc compares a page with what the program says, or rewrites it.
func compareDoc(t *testing.T, name, want string) {
	t.Helper()
	path := filepath.Join("..", "..", "docs", name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; write it with \"make docs\"", err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("docs/%s does not match the program; run \"make docs\" and read the diff (-program +page):\n%s", name, diff)
	}
}

func cliDoc(root *cobra.Command) string {
	var b strings.Builder
	b.WriteString("# The commands\n\nWritten from the program by `make docs`; a test compares the two.\n\n")
	fmt.Fprintf(&b, "## Global flags\n\n```text\n%s```\n\n", root.PersistentFlags().FlagUsages())
	b.WriteString("## Exit codes\n\n| Code | Means |\n|---|---|\n")
	for _, c := range exitCodeMeanings {
		fmt.Fprintf(&b, "| %d | %s |\n", c.code, c.meaning)
	}
	b.WriteString("\nThe name of a refusal decides the code: see [refusals.md](refusals.md).\n")
	for _, cmd := range allCommands(root)[1:] {
		if cmd.IsAvailableCommand() || cmd.Name() == "help" {
			commandDoc(&b, cmd)
		}
	}
	return b.String()
}

func commandDoc(b *strings.Builder, cmd *cobra.Command) {
	cmd.InitDefaultHelpFlag()
	fmt.Fprintf(b, "\n## %s\n\n%s.\n\n```text\n%s\n", cmd.CommandPath(), cmd.Short, cmd.UseLine())
	if cmd.HasAvailableSubCommands() {
		b.WriteString("\nCommands:\n")
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() {
				fmt.Fprintf(b, "  %-12s %s\n", sub.Name(), sub.Short)
			}
		}
	}
	if long := strings.TrimSpace(cmd.Long); long != "" {
		fmt.Fprintf(b, "\n%s\n", long)
	}
	fmt.Fprintf(b, "\nExample:\n%s\n", strings.TrimRight(cmd.Example, "\n"))
	fmt.Fprintf(b, "\nFlags:\n%s```\n", cmd.LocalFlags().FlagUsages())
}

func refusalDoc() string {
	var b strings.Builder
	b.WriteString(`# Refusals

Every way Tallystick says no has a name that never changes. With ` + "`--json`" + ` the
error on standard error is ` + "`{\"error\", \"name\", \"hint\", \"code\"}`" + `; branch on ` + "`name`" + `,
or on the exit code alone. No flag overrides a refusal of code 3.

Written from the program by ` + "`make docs`" + `; a test compares the two.

| Name | Exit code | Means |
|---|---|---|
`)
	for _, row := range refusal.Table() {
		fmt.Fprintf(&b, "| `%s` | %d | %s |\n", row.Name, row.Exit, row.Meaning)
	}
	return b.String()
}
