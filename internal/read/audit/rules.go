package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sort"
	"strings"
	"sync"

	"tallystick/internal/read/program"
	"tallystick/internal/run/sight"
)

// RulesVersion changes with every change of what a check finds.
const RulesVersion = 3

// Rules are the version and digest of what the checks look for.
func Rules() RulesUsed {
	sum := sha256.Sum256([]byte(RulesText()))
	return RulesUsed{Version: RulesVersion, Digest: "sha256:" + hex.EncodeToString(sum[:])}
}

// RulesText states every table, pattern and bound that decides a check, a line
// each. Its digest is in every report, so that two reports can be compared.
func RulesText() string {
	return fmt.Sprintf("tallystick audit rules %d\n", RulesVersion) + tables()
}

var tables = sync.OnceValue(func() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	for _, c := range checkNames {
		line("check %s %s", c.id, c.severity)
	}
	line("fold NFKD, accents U+0300-036F dropped, lower case, digits of all scripts, invisible dropped, spaces single")
	for _, t := range sight.LookAlikes {
		line("look-alike %s %s %s", t.What, t.From, t.To)
	}
	var more []string
	for r, s := range sight.FoldsToMore {
		more = append(more, fmt.Sprintf("fold %c %s", r, s))
	}
	sort.Strings(more)
	line("%s", strings.Join(more, "\n"))
	line("unwrap entities, percent, backslash, base64 from %d, hexadecimal from %d bytes, tags; depth %d", sight.MinBase64, sight.MinHex, sight.MaxUnwrap)
	line("weak answer: under %d characters, digits under %d, or one of %q", sight.MinAnswer, sight.MinAnswer, sight.Generic)
	line("%s", sight.RulesText())
	line("distinctive answer: 16 characters; 8 with two words or a digit; 6 digits")
	line("question: %d words a piece, at least %d bytes and %d words, half of the pieces; a piece of more than %d tasks is a form", sight.PieceWords, sight.MinQuestion, sight.MinWords, sharedBy)
	line("answer words within %d bytes: %q; a record within %d", callsAnswer, answerWords, recordBytes)
	line("other answers: 3 distinctive within %d bytes with the own, 6 without; dense within %d: 4 or a tenth with the own", pageBytes, denseGap)
	line("an answer is part of a row within %d bytes of a word of %d letters that only its question has", rowBytes, minRowWord)
	line("a choice is a key: 2 answers of other tasks, over four fifths of the list, expected by under three tasks for two answers")
	line("seams of %d bytes; between messages %q", seamBytes, frames)
	line("a label: expected of %d tasks, up to %d bits", labelTasks, labelBits)
	line("choices: item %s mark %s lead %s parts %s, up to %d bytes, at least %d, behind other words %d", choiceItem, choiceMark, choiceLead, choiceParts, maxChoice, minChoices, leadChoices)
	line("a form: a sentence in half of the prompts and 3; a key: forms with %d distinctive answers, or %d and a tenth", keyDistinctive, keyAnswers)
	for _, l := range lackTable {
		line("evidence: %s: cannot pass %v, told %v", l.what, l.blind, l.told)
	}
	for _, k := range knownSources {
		line("known source %s sure=%t", k.text, k.sure)
	}
	for _, s := range surfaces {
		line("surface %s %s code=%t with=%s", s.name, s.pattern, s.code, s.with)
	}
	var words []string
	for word, name := range surfaceWords {
		words = append(words, word+"="+name)
	}
	sort.Strings(words)
	line("surface words %q with %q; files %q %q; modules %s %s", words, machinery, machineFiles, surfaceData, surfaceModule, surfaceReplace)
	line("code marks %q; write tools %q", codeMarks, writeTools)
	for _, p := range injections {
		line("injection %s %s raw=%t orders=%t then=%s", p.id, p.pattern, p.raw, p.orders, p.then)
	}
	line("injections in pieces %s; seams of %d; orders behind %q %q", squeezedInjections, seamWords, beforeOrder, modals)
	line("key paths %s; words %q %q, fillers %q, types %q; not under %q", pathShaped, keyNouns, keyGolds, fillers, dataTypes, sanctioned)
	line("own folders %q %q; folders of a harness %q %q; names %q", ownFolders, workFolders, harnessFolders, systemFolders, keyNames)
	line("case files %s; variables %s", caseFiles(), keyVariable())
	line("%s", program.RulesText())
	for _, s := range carriedSpellings {
		line("carried spelling %q anywhere=%t", s.name, s.anywhere)
	}
	line("carried: answers of %d bits, in binary data inside a word from %d; beside a question, an id or %d of its words within %d; a table of %d answers and %d bits within %d; %d distinctive answers and a tenth, or %d and half; %d questions, or ids of %d digits; digests from %d bytes",
		sight.MinBits, unboundedBits, keyWords, besideBytes, tableAnswers, tableBits, besideBytes, shareAnswers, tableAnswers, heldQuestions, idDigits, minPublished)
	line("carried: %d bytes expanded, %d members, %d encodings; runs from %d, opaque from %d; not read %q; compiled %q", maxExpanded, maxMembers, maxDecoded, minEncoded, maxOpaque, unreadForms, compiled)
	line("from nowhere: %d and one in %d, or 2 and half; programs %q", fromNowhere, nowhereShare, programMarks)
	line("data files %q; programs that are not read %q %q, beginning %q", dataFiles, otherPrograms, scripts, binaries)
	return b.String()
})
