package evidence

import "tallystick/internal/record/digest"

// CaseFiles is the index of one case's evidence: what each piece is. It lies in
// the evidence itself, and its digest is the first that the case's record
// names, so the record commits to every piece.
type CaseFiles struct {
	Answer *digest.Content `json:"answer,omitempty"`
	// Contents are the whole texts of which the trajectory has the beginning
	// and the digest, sorted.
	Contents   []digest.Content `json:"contents,omitempty"`
	Diff       *digest.Content  `json:"diff,omitempty"`       // of the working folder
	Embeddings []EmbeddingFiles `json:"embeddings,omitempty"` // the vectors that answers were compared by, in the order in which they were asked for
	Folder     *FolderFiles     `json:"folder,omitempty"`     // what the agent left there
	Grading    *digest.Content  `json:"grading,omitempty"`    // what was compared with what, and why
	HeldOut    bool             `json:"held_out,omitempty"`   // the case is kept from those who build agents
	Issue      *IssueFiles      `json:"issue,omitempty"`      // of a case that is an issue of a repository
	Plan       *digest.Content  `json:"plan,omitempty"`       // what the agent said it would do
	Recording  *digest.Content  `json:"recording,omitempty"`  // the cassette of a live run
	Rubric     *RubricFiles     `json:"rubric,omitempty"`
	TestLog    *digest.Content  `json:"test_log,omitempty"` // of the case's test command
	Trajectory TrajectoryFile   `json:"trajectory"`
	Version    string           `json:"v"`                  // [format.Version]
	Verdicts   []VerdictFiles   `json:"verdicts,omitempty"` // of models that judged, in the order in which they were asked
	Watch      *digest.Content  `json:"watch,omitempty"`    // what was noted of the texts as they passed: a [Watched]
}

// A TrajectoryFile names the event log of a case. The head is what
// trajectory.HeadIs asks for.
type TrajectoryFile struct {
	Digest digest.Content `json:"digest"`
	Head   digest.ID      `json:"head"`
}

// FolderFiles are what an agent left in its working folder, as far as it is not
// what the case put there.
type FolderFiles struct {
	Changed []ChangedFile  `json:"changed,omitempty"` // by path
	Start   digest.Content `json:"start"`             // of the folder before the agent had it
}

// A ChangedFile is a file that is not as it was at the start. It is gone if it
// has neither a digest nor a link and is not a folder.
type ChangedFile struct {
	Digest *digest.Content `json:"digest,omitempty"`
	Folder bool            `json:"folder,omitempty"` // an empty one, or one with another mode
	Link   string          `json:"link,omitempty"`   // where a symbolic link points, escaped as in trajectories
	Mode   string          `json:"mode,omitempty"`   // four octal digits, if not 0644, or 0755 for a folder
	Path   string          `json:"path"`             // escaped as in trajectories
}

// RubricFiles are what a rubric was given and what it wrote.
type RubricFiles struct {
	Input  digest.Content  `json:"input"`
	Output digest.Content  `json:"output"`
	Stderr *digest.Content `json:"stderr,omitempty"` // its beginning, if there was any
}

// IssueFiles are what shows that a case is an issue of a repository: what was found,
// a [RepositoryIssue], and the output of its test on the folder as the agent got it.
type IssueFiles struct {
	Before digest.Content `json:"before"`
	Facts  digest.Content `json:"facts"`
}

// VerdictFiles are what a model said as a judge: the document of the verdict,
// and what it names, the request and the replies, unless they are in the
// evidence of the attempt that drew it.
type VerdictFiles struct {
	Document digest.Content   `json:"document"`
	Pieces   []digest.Content `json:"pieces,omitempty"`
}

// EmbeddingFiles are what a model was asked vectors for, and its reply with them.
type EmbeddingFiles struct {
	Reply   digest.Content `json:"reply"`
	Request digest.Content `json:"request"`
}

// All lists every piece that the index names.
func (c *CaseFiles) All() []digest.Content {
	all := []digest.Content{c.Trajectory.Digest}
	for _, d := range []*digest.Content{c.Answer, c.Grading, c.Diff, c.TestLog, c.Plan, c.Recording, c.Watch} {
		if d != nil {
			all = append(all, *d)
		}
	}
	if c.Folder != nil {
		for _, f := range c.Folder.Changed {
			if f.Digest != nil {
				all = append(all, *f.Digest)
			}
		}
	}
	if c.Rubric != nil {
		all = append(all, c.Rubric.Input, c.Rubric.Output)
		if c.Rubric.Stderr != nil {
			all = append(all, *c.Rubric.Stderr)
		}
	}
	if c.Issue != nil {
		all = append(all, c.Issue.Before, c.Issue.Facts)
	}
	for _, v := range c.Verdicts {
		all = append(append(all, v.Document), v.Pieces...)
	}
	for _, e := range c.Embeddings {
		all = append(all, e.Request, e.Reply)
	}
	return append(all, c.Contents...)
}
