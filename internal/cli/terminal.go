package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/kuberung/kuberung/hosts"
	"github.com/kuberung/kuberung/internal/ui"
)

// terminal asks a person for secrets: on the terminal that the process was started from, whatever its streams are.
type terminal struct {
	open func() (*os.File, error) // nil: there is none
	stop <-chan struct{}

	mu       sync.Mutex // held while something is written
	question string     // what stands on the terminal unanswered; empty: nothing
	tty      *os.File
}

// ask implements [hosts.Ask].
func (t *terminal) ask(ctx context.Context, q hosts.Question) (hosts.Secret, error) {
	if t.open == nil {
		return hosts.Secret{}, fmt.Errorf("%w: there is no terminal", hosts.ErrNobody)
	}
	tty, err := t.open()
	if err != nil {
		return hosts.Secret{}, fmt.Errorf("%w: %w", hosts.ErrNobody, err)
	}
	defer tty.Close()
	restore, err := silence(tty)
	if err != nil {
		return hosts.Secret{}, fmt.Errorf("%w: %s: %w", hosts.ErrNobody, tty.Name(), err)
	}
	defer restore()
	t.show(tty, wording(q))
	line, err := t.answer(ctx, tty)
	t.answered(err == nil)
	if err != nil {
		return hosts.Secret{}, err
	}
	return hosts.NewSecret(strings.TrimSuffix(line, "\n")), nil
}

// wording is the question on the screen; its last line is left open for the answer.
func wording(q hosts.Question) string {
	who := ""
	if q.Host != "" {
		who = q.Host + ": "
	}
	text := ui.Printable(who+q.What) + ": "
	if q.Again != nil {
		text = ui.Printable(who+q.Again.Error()) + "\n" + text
	}
	return text
}

// answer reads a line, until nobody wants it any more.
func (t *terminal) answer(ctx context.Context, tty *os.File) (string, error) {
	type result struct {
		line string
		err  error
	}
	read := make(chan result, 1)
	go func() { // ends with the deadline; where terminals have none it stays behind, with its own file
		line, err := bufio.NewReader(tty).ReadString('\n')
		read <- result{line, err}
	}()
	select {
	case r := <-read:
		if r.err == io.EOF {
			return "", fmt.Errorf("%w: no answer was given", hosts.ErrNobody) // Ctrl-D, or the terminal is gone
		}
		if r.err != nil {
			return "", fmt.Errorf("%w: %w", hosts.ErrNobody, r.err)
		}
		return r.line, nil
	case <-ctx.Done():
		_ = tty.SetReadDeadline(time.Unix(1, 0))
		return "", context.Cause(ctx)
	case <-t.stop:
		_ = tty.SetReadDeadline(time.Unix(1, 0))
		return "", errors.New("stopped")
	}
}

func (t *terminal) show(tty *os.File, text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, _ = io.WriteString(tty, text) // a terminal that is gone is found by the read
	t.tty, t.question = tty, text[strings.LastIndex(text, "\n")+1:]
}

// answered takes the question away. Whoever answers ends its line.
func (t *terminal) answered(ended bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !ended {
		_, _ = io.WriteString(t.tty, "\n")
	}
	t.tty, t.question = nil, ""
}

// beside gives a writer to w that keeps lines on the screen apart from an open question, which then stands below them.
func (t *terminal) beside(w io.Writer) io.Writer {
	if file, ok := w.(*os.File); !ok || !isTerminal(file) {
		return w
	}
	return besideQuestion{t, w}
}

type besideQuestion struct {
	t *terminal
	w io.Writer
}

// Write writes whole lines.
func (b besideQuestion) Write(p []byte) (int, error) {
	b.t.mu.Lock()
	defer b.t.mu.Unlock()
	if b.t.question == "" {
		return b.w.Write(p)
	}
	_, _ = io.WriteString(b.t.tty, "\n")
	n, err := b.w.Write(p)
	_, _ = io.WriteString(b.t.tty, b.t.question)
	return n, err
}
