package plain

import (
	"fmt"
	"strings"
)

// Dollars is an amount of microdollars with as many decimals as it needs, at
// least two.
func Dollars(micro int64) string {
	sign := ""
	if micro < 0 {
		sign, micro = "-", -micro
	}
	cents := strings.TrimRight(fmt.Sprintf("%06d", micro%1e6), "0")
	for len(cents) < 2 {
		cents += "0"
	}
	return fmt.Sprintf("%s$%d.%s", sign, micro/1e6, cents)
}
