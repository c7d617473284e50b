package audit

import "tallystick/internal/run/sight"

// minSurprise is from where on an answer says something by standing in a text.
const minSurprise = 20

func surprise(folded string) float64 {
	for _, g := range sight.Generic {
		if folded == g {
			return 0
		}
	}
	n := 0.0
	for _, r := range folded {
		switch {
		case '0' <= r && r <= '9':
			n += 3.3
		case 'a' <= r && r <= 'z':
			n += 4.1
		case r >= 0x80:
			n += 8
		}
	}
	return n
}
