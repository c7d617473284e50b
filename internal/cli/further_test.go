package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// newWeather is a command that the program does not have: the file that adding one takes.
func newWeather(env *Env) *cobra.Command {
	return &cobra.Command{
		Use: "weather DAY", Short: "Say how the weather is", Example: "tally weather monday", Args: cobra.ExactArgs(1), Annotations: readOnlyCommands,
		RunE: func(cmd *cobra.Command, args []string) error { return runWeather(cmd.Context(), env, args[0]) },
	}
}

func runWeather(_ context.Context, env *Env, day string) error {
	return env.Answer(map[string]string{"day": day}, func(w io.Writer) { fmt.Fprintf(w, "it rains on %s\n", day) })
}

// TestAFurtherCommandIsOneFileAndOneRow adds one to a copy of the list.
func TestAFurtherCommandIsOneFileAndOneRow(t *testing.T) {
	run := func(with bool, args ...string) (int, string) {
		var out bytes.Buffer
		env := newEnv(strings.NewReader(""), &out, &out, func(string) string { return "" })
		list := groups(env)
		if with {
			list = append(list, group{"Look", []*cobra.Command{newWeather(env)}})
		}
		return programOf(env, list).main(args), out.String()
	}
	if code, out := run(false, "weather", "monday"); code != 2 {
		t.Errorf("without its row: %d %s", code, out)
	}
	for _, tt := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"weather", "monday"}, 0, "it rains on monday\n"},
		{[]string{"weather", "monday", "--json"}, 0, `{"day":"monday"}`},
		{[]string{"weather"}, 2, "expected DAY, got nothing"},
		{[]string{"help"}, 0, "Say how the weather is"},
		{[]string{"help", "weather"}, 0, "tally weather DAY"},
		{[]string{"__complete", "wea"}, 0, "weather\tSay how"},
	} {
		if code, out := run(true, tt.args...); code != tt.code || !strings.Contains(out, tt.want) {
			t.Errorf("%q: %d %s", tt.args, code, out)
		}
	}
	env := newEnv(strings.NewReader(""), io.Discard, io.Discard, func(string) string { return "" })
	if page := cliDoc(programOf(env, append(groups(env), group{"Look", []*cobra.Command{newWeather(env)}})).root); !strings.Contains(page, "tally weather") {
		t.Error("the page of commands does not have it")
	}
}
