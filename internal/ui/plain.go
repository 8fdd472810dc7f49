package ui

import (
	"io"
	"sync"
	"unicode"
	"unicode/utf8"
)

// Plain gives a writer to w that writes control characters as escapes, line breaks and tabs excepted: much of what is
// shown comes from hosts, and must not move a terminal's cursor or change its title. Safe for concurrent use.
func Plain(w io.Writer) io.Writer { return &plain{w: w} }

type plain struct {
	w io.Writer

	mu   sync.Mutex
	rest []byte // the beginning of a character whose end is not written yet
}

func (p *plain) Write(data []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := append(p.rest, data...)
	p.rest = nil
	var out []byte
	for len(text) > 0 {
		if !utf8.FullRune(text) {
			p.rest = append([]byte(nil), text...)
			break
		}
		r, size := utf8.DecodeRune(text)
		if r == '\n' || r == '\t' || unicode.IsPrint(r) && (r != utf8.RuneError || size > 1) {
			out = append(out, text[:size]...)
		} else {
			out = append(out, Printable(string(text[:size]))...)
		}
		text = text[size:]
	}
	if _, err := p.w.Write(out); err != nil {
		return 0, err
	}
	return len(data), nil
}
