package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"tallystick/internal/read/dossier"
	"tallystick/internal/record/refusal"
)

func TestPagerStopsAfterEachScreen(t *testing.T) {
	const text = "1\n2\n3\n4\n5\n6\n7\n"
	for _, tt := range []struct{ name, typed, want string }{
		{"Enter goes on to the end", "\n\n\n", text},
		{"so does anything but q", "more\n\n\n", text},
		{"q ends", "q\n\n", "1\n2\n3\n"},
		{"q later", "\nquit\n", "1\n2\n3\n4\n5\n6\n"},
		{"no reader is there", "", "1\n2\n3\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out, prompts bytes.Buffer
			p := pager{ctx: t.Context(), in: strings.NewReader(tt.typed), prompts: &prompts, rows: 4, columns: 80}
			err := p.show(text, func(page string) error { out.WriteString(page); return nil })
			if err != nil || out.String() != tt.want {
				t.Errorf("shown %q, %v; want %q", out.String(), err, tt.want)
			}
			if !strings.HasPrefix(prompts.String(), pagerPrompt) {
				t.Errorf("asked %q", prompts.String())
			}
		})
	}
}

func TestPagerCountsTheRowsOfLongLines(t *testing.T) {
	p := pager{rows: 4, columns: 10} // three rows beside the prompt
	for _, tt := range []struct{ text, want string }{
		{"a\nb\nc\nd\n", "a\nb\nc\n"},
		{"0123456789\nb\nc\nd\n", "0123456789\nb\nc\n"},
		{"01234567890\nb\nc\nd\n", "01234567890\nb\n"},
		{"a\n" + strings.Repeat("x", 35) + "\nb\n", "a\n"},
		{strings.Repeat("x", 100) + "\nb\n", strings.Repeat("x", 100) + "\n"}, // never stuck
		{"no line break", "no line break"},
		{"\n\n\n\n", "\n\n\n"},
	} {
		if got := tt.text[:p.page(tt.text)]; got != tt.want {
			t.Errorf("page of %q is %q, want %q", tt.text, got, tt.want)
		}
	}
}

func TestPagerEndsOnASignalAndOnAFailedWrite(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r, w := io.Pipe() // no reader types
	defer w.Close()
	p := pager{ctx: ctx, in: r, prompts: io.Discard, rows: 2, columns: 80}
	if err := p.show("1\n2\n", func(string) error { return nil }); !refusal.Is(err, refusal.Interrupted) {
		t.Errorf("after a signal: %v, want Interrupted", err)
	}
	full := errors.New("disk full")
	if err := p.show("1\n2\n", func(string) error { return full }); !errors.Is(err, full) {
		t.Errorf("after a failed write: %v, want %v", err, full)
	}
}

// The colours are ours; what they are around is made safe first.
func TestDiffIsColouredAndSafe(t *testing.T) {
	const diff = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+new\x1b[2J\n same\n"
	var colored, plainText bytes.Buffer
	quote(&colored, diff, true)
	quote(&plainText, diff, false)
	want := "  | \x1b[1mdiff --git a/x b/x\x1b[0m\n  | \x1b[1m--- a/x\x1b[0m\n  | \x1b[1m+++ b/x\x1b[0m\n  | \x1b[33m@@ -1 +1 @@\x1b[0m\n" +
		"  | \x1b[31m-old\x1b[0m\n  | \x1b[32m+new\\x1b[2J\x1b[0m\n  |  same\n"
	if got := string(paint(colored.Bytes(), true)); got != want {
		t.Errorf("coloured %q, want %q", got, want)
	}
	if got := plainText.String(); strings.Contains(got, "\x1b") || !strings.Contains(got, "  | +new\\x1b[2J\n") {
		t.Errorf("plain %q", got)
	}
}

func TestSignerIsGivenInThreeForms(t *testing.T) {
	const digits = "ea4a6c63e29c520abef5507b132ec5f9954776aebebe7b92421eea691446d22c"
	const ssh = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOpKbGPinFIKvvVQexMuxfmVR3auvr57kkIe6mkURtIs"
	for _, text := range []string{digits, strings.ToUpper(digits), ssh, ssh + " person@example.org"} {
		if key, err := dossier.BundleSigner(text); err != nil || len(key) != 32 || key[0] != 0xea {
			t.Errorf("dossier.BundleSigner(%q) = %x, %v", text, key, err)
		}
	}
	for text, want := range map[string]refusal.Name{
		"ssh-rsa AAAA":          refusal.Malformed,
		"nowhere.pub":           refusal.Unreadable,
		digits[:62]:             refusal.Unreadable, // no key, so the name of a file
		strings.Repeat("0", 64): refusal.WeakKey,
	} {
		_, err := dossier.BundleSigner(text)
		if !refusal.Is(err, want) {
			t.Errorf("dossier.BundleSigner(%q): %v, want %s", text, err, want)
		}
	}
}
