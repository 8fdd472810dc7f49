package ui

import (
	"bytes"
	"encoding/json"
	"io"

	"github.com/kuberung/kuberung/engine"
)

// Schema is the version of the objects that JSON writes. Fields may be added within a version.
const Schema = 1

// line is an event as JSON. Fields that say nothing are left out.
type line struct {
	Schema int    `json:"schema"`
	Time   string `json:"time"` // RFC 3339, UTC, milliseconds
	Kind   string `json:"kind"`
	Stage  string `json:"stage,omitempty"`
	Target string `json:"target,omitempty"`
	Step   string `json:"step,omitempty"`
	Text   string `json:"text,omitempty"`
	Error  string `json:"error,omitempty"`
}

// JSON gives a function that writes each event to w as one JSON object on a line of its own, in
// a single write.
func JSON(w io.Writer) func(engine.Event) {
	return func(e engine.Event) {
		out := line{
			Schema: Schema,
			Time:   e.Time.UTC().Format("2006-01-02T15:04:05.000Z07:00"),
			Kind:   string(e.Kind),
			Stage:  e.Stage, Target: e.Target, Step: e.Step, Text: e.Text,
		}
		if e.Err != nil {
			out.Error = e.Err.Error()
		}
		// An encoder on w itself would write nothing more after one failed write.
		var buffer bytes.Buffer
		encoder := json.NewEncoder(&buffer)
		encoder.SetEscapeHTML(false)
		_ = encoder.Encode(out)        // strings and a number: cannot fail
		_, _ = w.Write(buffer.Bytes()) // a full disk must not stop the run
	}
}
