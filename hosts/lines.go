package hosts

import (
	"bytes"
	"strings"
)

// take cuts new output into lines and hands the complete ones out.
func (f *follower) take(out []byte) {
	f.offset += int64(len(out))
	f.tail.add(out)
	if f.skip {
		_, rest, ok := bytes.Cut(out, []byte("\n"))
		if !ok {
			return
		}
		out, f.skip = rest, false
	}
	f.line = append(f.line, out...)
	for {
		line, rest, ok := bytes.Cut(f.line, []byte("\n"))
		if !ok {
			break
		}
		f.say(line)
		f.line = rest
	}
	if len(f.line) > longLine {
		f.flush()
	}
}

// flush hands out a last line that nothing ended.
func (f *follower) flush() {
	if len(f.line) > 0 {
		f.say(f.line)
	}
	f.line = nil
}

func (f *follower) say(line []byte) {
	if f.log != nil {
		f.log(strings.ToValidUTF8(strings.TrimSuffix(string(line), "\r"), "�"))
	}
}

// tailBuffer keeps the end of a stream.
type tailBuffer struct{ b []byte }

func (t *tailBuffer) add(p []byte) {
	t.b = append(t.b, p...)
	if over := len(t.b) - tailSize; over > 0 {
		t.b = bytes.Clone(t.b[over:])
	}
}

// String is at most tailSize bytes.
func (t *tailBuffer) String() string { return strings.ToValidUTF8(string(t.b), "�") }
