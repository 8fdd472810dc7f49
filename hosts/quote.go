package hosts

import (
	"errors"
	"fmt"
	"strings"

	"al.essio.dev/pkg/shellescape"
)

// Quote turns words into text that a POSIX shell reads back as exactly these words.
// It is the only quoting there is, and only /bin/sh ever reads its result: login shells with other
// rules (fish, csh) are handed nothing but [loader].
func Quote(words ...string) string { return shellescape.QuoteCommand(words) }

var errNUL = errors.New("a NUL byte cannot be passed to a program")

// checkWords refuses what no argument vector can hold.
func checkWords(words []string) error {
	for i, w := range words {
		if strings.IndexByte(w, 0) >= 0 {
			return fmt.Errorf("word %d: %w", i, errNUL)
		}
	}
	return nil
}

// loaderText evaluates one line of standard input, which every shell's read takes byte by byte, so what follows that
// line is left for the program.
const loaderText = `IFS= read -r k; eval "$k"`

// loader is the one line a login shell ever parses. It is the same in sh, bash, zsh, fish and csh: single
// quotes around text without quote, backslash or exclamation mark.
const loader = `/bin/sh -c '` + loaderText + `'`

// oneLine packs a script into one line of printable ASCII that loader evaluates. printf's %b undoes it.
func oneLine(script string) string {
	var b strings.Builder
	b.WriteString(`eval "$(printf '%b' '`)
	for i := range len(script) {
		switch c := script[i]; {
		case c == '\'' || c == '\\' || c < ' ' || c > '~':
			fmt.Fprintf(&b, `\0%03o`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteString(`')"` + "\n")
	return b.String()
}
