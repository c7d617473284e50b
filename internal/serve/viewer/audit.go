package viewer

import (
	"net/http"

	"tallystick/internal/app/lab"
	"tallystick/internal/read/answer"
	"tallystick/internal/read/audit"
	"tallystick/internal/read/dossier"
)

type auditData struct {
	Attempt string
	Report  *audit.Report
	Long    bool
}

func (v *Viewer) audit(req *http.Request) (*page, error) {
	a, err := v.lookUp(req)
	if err != nil {
		return nil, err
	}
	data := &auditData{Attempt: a.ID, Long: a.Tasks() > answer.MaxGlance}
	if !data.Long {
		err := v.withCorpus(func(c *dossier.Corpus) error {
			in, err := lab.AuditInput(c, a.ID, false)
			if err != nil {
				return err
			}
			data.Report, err = audit.Run(req.Context(), in)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return &page{Title: "Audit of " + a.ID, Template: "audit", Section: "Attempts", Data: data,
		Crumbs: []link{{Text: "Attempts", URL: "/attempts"}, {Text: a.ID, URL: attemptURL(a.ID)}, {Text: "Audit", URL: ""}}, Next: []command{{What: "The report, to keep", Line: shell("tally", "audit", a.ID, "-o", a.ID+".audit.json")}}}, nil
}

// State is the class of a check in the stylesheet, and its word.
func (auditData) State(c audit.Check) [2]string {
	switch c.Status {
	case "pass":
		return [2]string{"passed", "Passed"}
	case "fail":
		return [2]string{"failed", "Failed"}
	}
	return [2]string{"", "Skipped"}
}
