//go:build !linux

package cli

import "os"

// isTerminalFile takes any character device for a terminal. That is wrong for
// /dev/null, where it costs nothing: no reader sees the colours, and a question
// asked there is answered with the end of the input.
func isTerminalFile(f *os.File) bool {
	st, err := f.Stat()
	return err == nil && st.Mode()&os.ModeCharDevice != 0
}
