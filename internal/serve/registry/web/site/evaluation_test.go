package site

import (
	"testing"

	"tallystick/internal/record/evidence"
)

func TestEveryStatusOfACredentialIsExplained(t *testing.T) {
	for _, status := range evidence.RegistryStatuses {
		if revocationWords[status] == "" {
			t.Errorf("the page of an evaluation does not explain the status %q", status)
		}
	}
}
