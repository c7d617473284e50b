// Package firstprocess is this program as the first process of a sandbox: it
// builds the sandbox around itself, becomes the rubric or stays beside the agent,
// and keeps the rooms of a warm sandbox, one for each case. It holds the messages
// as well that go between it and the harness.
//
// A caller may rely on that a first process with a [Build] gives up every
// capability, and puts the program under Landlock, as far as the kernel knows how,
// and under the filter of its policy, before the program's first instruction. In
// a warm sandbox the keeper, which runs no code of the agent, and the preloader
// keep what making and joining rooms takes. A room shows no other case's folder,
// processes or network. In gVisor the sandbox is there already.
//
// The harness may rely on nothing that comes over the channel: at the worst the
// first process is in an agent's hands.
package firstprocess

import "unicode/utf8"

// ProgramDir holds this program inside a sandbox that needs it.
const ProgramDir = "tally"

// HeadString cuts b on a rune and replaces what is not UTF-8: what comes out of a
// sandbox may end anywhere.
func HeadString(b []byte) string {
	for i := 0; i < utf8.UTFMax && len(b) > 0 && !utf8.Valid(b); i++ {
		if r, size := utf8.DecodeLastRune(b); r != utf8.RuneError || size != 1 {
			break
		}
		b = b[:len(b)-1]
	}
	return string([]rune(string(b)))
}
