package viewer

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"tallystick/internal/read/conversation"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/trajectory"
)

// maxCopied bounds a conversation that is sent as Markdown, in events.
const maxCopied = 20_000

// conversation sends a conversation as Markdown. Like the events, it is given only when
// all of it was verified, and that of a held-out case is refused.
func (v *Viewer) conversation(w http.ResponseWriter, req *http.Request) {
	text, err := v.conversationText(req)
	if err != nil {
		refuse(w, failed(err).Status, err.Error())
		return
	}
	w.Header().Set("Content-Type", "text/markdown; charset=utf-8")
	w.Write([]byte(text))
}

func (v *Viewer) conversationText(req *http.Request) (string, error) {
	s, err := v.beginFor(req)
	if err != nil {
		return "", err
	}
	if err := waitFor(req.Context(), s); err != nil {
		return "", err
	}
	leave, err := v.enter()
	defer leave()
	if err != nil {
		return "", err
	}
	t, err := v.settle(s)
	if err != nil {
		return "", err
	}
	if t.Len() > maxCopied {
		return "", refusal.Newf(refusal.TooLarge, "the transcript has %d events; as Markdown pages send at most %d", t.Len(), maxCopied).WithHint("its events are at …/events")
	}
	c, err := v.lookUpCase(req)
	if err != nil {
		return "", err
	}
	data := &caseData{Case: c}
	if err := v.evidenceOf(data, ""); err != nil {
		return "", err
	}
	var events []trajectory.Event
	for from := 1; from <= t.Len(); from += eventsInWindow {
		lines, err := t.Lines(from, eventsInWindow)
		if err != nil {
			return "", err
		}
		for _, line := range lines {
			e, err := trajectory.ReadEvent(line)
			if err != nil {
				return "", err
			}
			events = append(events, e)
		}
	}
	var b strings.Builder
	b.WriteString("# " + Line(c.ID) + " in " + Line(c.Dossier().ID) + "\n\nEntry " + strconv.FormatInt(c.Index, 10) + " of the ledger " + Line(v.config.Place.Settings.Origin) + ": " + OutcomeName(c.Outcome()) + ". Head of the transcript: " + t.File.Head.String() + ".\n")
	b.WriteString(conversation.Of(slices.Values(events), conversation.Options{Whole: v.wholes(data)}).Markdown())
	return b.String(), nil
}
