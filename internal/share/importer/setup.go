package importer

import (
	"tallystick/internal/read/results"
	"tallystick/internal/record/jsonstream"
	"tallystick/internal/record/refusal"
	"tallystick/internal/share/setup"
)

// setup reads the run folder's specification, statistics and instances once more.
func (h *helmRun) setup(by map[kind]*file) error {
	s, model, err := setup.HELM(h.again(by[helmSpec]), h.again(by[helmStats]), h.again(by[helmState]))
	if h.run.Run.Setup = s; h.run.Run.Model == "" {
		h.run.Run.Model = results.Known(model)
	}
	return err
}

// again reads a file a second time. It must be the file that it was.
func (h *helmRun) again(f *file) func(func(*jsonstream.Reader) error) error {
	if f == nil {
		return nil
	}
	return func(read func(*jsonstream.Reader) error) error {
		before := f.sum
		err := h.run.session.json(f, read)
		if err == nil && f.sum != before {
			err = refusal.Newf(refusal.Unreadable, "%s changed while it was read", f.path)
		}
		return err
	}
}
