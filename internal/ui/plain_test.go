package ui_test

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/kuberung/kuberung/internal/ui"
)

func TestPlain(t *testing.T) {
	for in, want := range map[string]string{
		"a line\n\tand another\n": "a line\n\tand another\n",
		"größer, 日本":              "größer, 日本",
		"\x1b[2Jgone\r":           `\x1b[2Jgone\r`,
		"\x1b]0;title\a":          `\x1b]0;title\a`,
		"right\u202eleft":         `right\u202eleft`,
		"\x9b31m":                 "�31m", // one byte that some terminals take for ESC [
	} {
		var whole, bytewise bytes.Buffer
		if _, err := io.WriteString(ui.Plain(&whole), in); err != nil || whole.String() != want {
			t.Errorf("%q gives %q, %v, want %q", in, whole.String(), err, want)
		}
		w := ui.Plain(&bytewise)
		for i := range len(in) {
			if n, err := w.Write([]byte{in[i]}); n != 1 || err != nil {
				t.Fatal(n, err)
			}
		}
		if bytewise.String() != want {
			t.Errorf("%q byte by byte gives %q, want %q", in, bytewise.String(), want)
		}
	}
	if strings.Contains(ui.Printable("\n"), "\n") {
		t.Error("a line break in one line is a control character")
	}
}
