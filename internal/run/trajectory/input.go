package trajectory

import (
	"bufio"
	"bytes"

	"tallystick/internal/record/canon"
)

// maxToInput bounds the events that are looked at for the first input: it comes first,
// or not at all.
const maxToInput = 10

// FirstInput is the beginning of what an agent was asked first; "" if the first events do
// not say. It is for display: the bytes are taken for the trajectory that their reader
// knows them to be.
func FirstInput(data []byte) string {
	lines := bufio.NewReader(bytes.NewReader(data))
	for range maxToInput {
		text, err := readLine(lines)
		if err != nil {
			return ""
		}
		e, err := decodeFrame(text)
		if err != nil {
			return ""
		}
		var input *Content
		switch p := e.Payload.(type) {
		case *RunStarted:
			if canon.UnmarshalCanonical(e.payload, p) == nil {
				input = p.Input
			}
		case *TurnStarted:
			if canon.UnmarshalCanonical(e.payload, p) == nil {
				input = p.Input
			}
		}
		if input != nil {
			return input.Head
		}
	}
	return ""
}
