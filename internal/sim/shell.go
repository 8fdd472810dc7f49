package sim

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
)

// script is one that a host was sent, as hosts packs them.
type script struct {
	h     *host
	ch    ssh.Channel
	nonce string
	args  []string
	text  string
	root  bool
	by    *Run // whose
	stdin io.Reader

	out, errs strings.Builder
}

var (
	packed  = regexp.MustCompile(`^eval "\$\(printf '%b' '(.*)'\)"\n$`)
	octal   = regexp.MustCompile(`\\0[0-7]{3}`)
	framing = regexp.MustCompile(`^printf '%s %s\\n' ([A-Z2-7]+) \$\$; printf '%s\\n' [A-Z2-7]+ >&2\numask 022; cd /\n`)
)

// loader is what a login shell is asked to run.
const loader = `/bin/sh -c 'IFS= read -r k; eval "$k"'`

// receive reads a script: perhaps a line that becomes root, the preface, and the packed text. What follows is its input.
func receive(h *host, by *Run, ch ssh.Channel, command string) (*script, error) {
	if command != loader {
		return nil, fmt.Errorf("command %q", command)
	}
	in := bufio.NewReader(ch)
	s := &script{h: h, by: by, ch: ch, stdin: in}
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return nil, err
		}
		if m := packed.FindStringSubmatch(line); m != nil {
			return s, s.parse(unpack(m[1]))
		}
		if !strings.HasPrefix(line, "exec /usr/bin/env ") {
			return nil, fmt.Errorf("line %q", line)
		}
		s.root = s.root || strings.Contains(line, " sudo -n -- ")
	}
}

func unpack(text string) string {
	return octal.ReplaceAllStringFunc(text, func(o string) string {
		n, _ := strconv.ParseUint(o[2:], 8, 8) // the pattern allows nothing else
		return string([]byte{byte(n)})
	})
}

// parse takes the frame off and splits the arguments from the text.
func (s *script) parse(whole string) error {
	m := framing.FindStringSubmatch(whole)
	if m == nil {
		return fmt.Errorf("no frame: %q", whole)
	}
	s.nonce = m[1]
	rest := strings.TrimPrefix(whole, m[0])
	if strings.HasPrefix(rest, `[ "$(id -u)" = 0 ]`) { // a login as root
		_, rest, _ = strings.Cut(rest, "\n")
		s.root = true
	}
	rest, ok := strings.CutPrefix(rest, "set -- ")
	if !ok {
		return fmt.Errorf("no arguments: %q", whole)
	}
	s.args, s.text = words(rest)
	return nil
}

// words reads quoted words up to the end of a line, as shellescape quotes them. The rest is what follows.
func words(text string) (found []string, rest string) {
	var word strings.Builder
	begun := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '\'', '"':
			end := strings.IndexByte(text[i+1:], c)
			if end < 0 {
				return found, ""
			}
			word.WriteString(text[i+1 : i+1+end])
			begun, i = true, i+1+end
		case ' ', '\n':
			if begun {
				found = append(found, word.String())
			}
			word.Reset()
			begun = false
			if c == '\n' {
				return found, text[i+1:]
			}
		default:
			word.WriteByte(c)
			begun = true
		}
	}
	return found, ""
}

// arg is a positional parameter, from 1.
func (s *script) arg(n int) string {
	if n > len(s.args) {
		return ""
	}
	return s.args[n-1]
}

func (s *script) printf(format string, args ...any) { fmt.Fprintf(&s.out, format, args...) }

// fails tells why on standard error and gives the exit status.
func (s *script) fails(code int, format string, args ...any) int {
	fmt.Fprintf(&s.errs, format+"\n", args...)
	return code
}

// known is one of the scripts that kuberung sends.
type known struct {
	name string
	mark string // stands in no other script before it in the list
	// read reads standard input, outside of the world's lock.
	read bool
	// takes is how long it works before it has an effect.
	takes time.Duration
	// do is the effect, under the world's lock.
	do func(s *script, stdin []byte) int
}

// run runs the script: the frame, the wait, the effect, what it prints. A script that is ended, or whose host goes down,
// has no effect.
func (s *script) run() int {
	k, found := recognise(s.text)
	if !found {
		s.h.w.mu.Lock()
		s.h.w.breaks("known", "%s was sent a script that nobody here knows:\n%s", s.h.name, s.text)
		s.h.w.mu.Unlock()
		return 127
	}
	ctx, id, boot := s.begin()
	defer s.end(id)
	if _, err := fmt.Fprintf(s.ch, "%s %d\n", s.nonce, id); err != nil {
		return 255
	}
	_, _ = fmt.Fprintf(s.ch.Stderr(), "%s\n", s.nonce) // nobody may listen
	var stdin []byte
	if k.read {
		var err error
		if stdin, err = io.ReadAll(s.stdin); err != nil {
			return 255
		}
	}
	code, err := s.effect(ctx, k, stdin, boot)
	if err != nil {
		return 143
	}
	_, _ = io.WriteString(s.ch, s.out.String())           // nobody may listen
	_, _ = io.WriteString(s.ch.Stderr(), s.errs.String()) // nobody may listen
	return code
}

// begin gives the script a process, which can be ended.
func (s *script) begin() (ctx context.Context, id, boot int) {
	s.h.w.mu.Lock()
	defer s.h.w.mu.Unlock()
	s.h.lastID++
	ctx, cancel := context.WithCancel(s.h.w.ctx)
	s.h.procs[s.h.lastID] = cancel
	return ctx, s.h.lastID, s.h.boot
}

func (s *script) end(id int) {
	s.h.w.mu.Lock()
	defer s.h.w.mu.Unlock()
	if cancel := s.h.procs[id]; cancel != nil {
		cancel()
		delete(s.h.procs, id)
	}
}

var errEnded = errors.New("ended")

// effect waits as long as the script takes, then does what it does.
func (s *script) effect(ctx context.Context, k known, stdin []byte, boot int) (int, error) {
	w := s.h.w
	w.mu.Lock()
	fault := w.faults.script(w, s.h, k.name)
	w.mu.Unlock()
	if !pause(ctx, w.pace(k.takes)+fault.delay) {
		return 0, errEnded
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if s.h.boot != boot || !s.h.up {
		return 0, errEnded
	}
	if fault.code != 0 {
		return s.fails(fault.code, "%s", fault.text), nil
	}
	return k.do(s, stdin), nil
}

// pause waits, and reports whether it did so to the end.
func pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func recognise(text string) (known, bool) {
	for _, k := range scripts {
		if strings.Contains(text, k.mark) {
			return k, true
		}
	}
	return known{}, false
}
