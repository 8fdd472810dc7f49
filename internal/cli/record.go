package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/kuberung/kuberung/engine"
	"github.com/kuberung/kuberung/internal/ui"
)

// record is the directory of one run on the operator's disk: the plan, the log as it was shown and
// every event as a JSON line. It is for people and reports; nothing is ever read back from it.
type record struct {
	dir         string
	log, events *os.File
	emitters    []func(engine.Event)
}

// newRecord makes <data>/runs/<time>, for the owner's eyes only: kubeadm's output is in it.
func newRecord(data string, now time.Time, plan planDocument) (*record, error) {
	dir := filepath.Join(data, "runs", now.UTC().Format("20060102T150405.000Z"))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the record of the run: %w", err)
	}
	r := &record{dir: dir}
	file, err := r.create("plan.json")
	if err != nil {
		return nil, err
	}
	if err := errors.Join(writeJSON(file, plan), file.Close()); err != nil {
		return nil, err
	}
	if r.log, err = r.create("log"); err != nil {
		return nil, err
	}
	if r.events, err = r.create("events.jsonl"); err != nil {
		return nil, err
	}
	r.emitters = []func(engine.Event){ui.Lines(r.log), ui.JSON(r.events)}
	return r, nil
}

func (r *record) create(name string) (*os.File, error) {
	return os.OpenFile(filepath.Join(r.dir, name), os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o600)
}

// emit writes an event. What says that something began or ended is flushed to the disk: it must be
// there after a power cut, when somebody asks how far the run came.
func (r *record) emit(e engine.Event) {
	for _, emit := range r.emitters {
		emit(e)
	}
	if e.Kind != engine.Progress {
		_ = r.events.Sync() // a full disk must not stop the run
	}
}

func (r *record) close() error { return errors.Join(r.log.Close(), r.events.Close()) }
