package hosts

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"
)

// outputLimit is how much one stream may say; what it says is held in memory.
const outputLimit = 64 << 20

var errTooMuch = fmt.Errorf("it says more than %d MiB", outputLimit>>20)

// output collects one stream of a remote program. The program's own output starts after a line that ends
// with a nonce; what login shells, banners and sudo print before it is noise.
type output struct {
	nonce string
	stir  chan<- struct{} // told, without waiting, of every write
	flood chan<- struct{} // told, without waiting, if there is one, of more than anybody can want
	begun chan struct{}   // closed, if there is one, when the program runs

	mu    sync.Mutex
	runs  bool // the nonce's line has come
	full  bool // there was more
	buf   bytes.Buffer
	began time.Time // when the first byte of the program's own output came
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := len(p)
	if o.buf.Len()+n > outputLimit { // the rest is heard, or the program would wait for us, but not kept
		o.full = true
		select {
		case o.flood <- struct{}{}:
		default:
		}
		return n, nil
	}
	o.buf.Write(p)
	if o.began.IsZero() {
		o.look()
	}
	select {
	case o.stir <- struct{}{}:
	default:
	}
	return n, nil
}

// whole is an error if there was more output than is kept.
func (o *output) whole() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.full {
		return errTooMuch
	}
	return nil
}

// look notes that the program runs, and that its own output has begun.
func (o *output) look() {
	_, body, started := cutFrame(o.buf.Bytes(), o.nonce)
	if started && !o.runs {
		o.runs = true
		if o.begun != nil {
			close(o.begun)
		}
	}
	if started && len(body) > 0 {
		o.began = time.Now()
	}
}

// firstByte is when the program's own output began; zero if it has not.
func (o *output) firstByte() time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.began
}

// all is what was collected so far, noise included.
func (o *output) all() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	return bytes.Clone(o.buf.Bytes())
}

// framed returns the rest of the nonce's line and all that follows it, as collected so far.
// Without a nonce (yet), started is false and body is everything.
func (o *output) framed() (tag string, body []byte, started bool) {
	return cutFrame(o.all(), o.nonce)
}

// cutFrame finds the first line that ends with nonce, or with nonce and a number, which is the tag. The nonce alone
// is not enough: a shell that traces what it reads prints it as well.
func cutFrame(all []byte, nonce string) (tag string, body []byte, started bool) {
	for rest := all; ; {
		_, after, ok := bytes.Cut(rest, []byte(nonce))
		if !ok {
			return "", all, false
		}
		line, body, ok := bytes.Cut(after, []byte("\n"))
		if tag := strings.TrimSpace(string(line)); ok && strings.Trim(tag, "0123456789") == "" {
			return tag, body, true
		}
		rest = after
	}
}

// pid is the remote shell's process id, if it has said so.
func (o *output) pid() (int, bool) {
	tag, _, started := o.framed()
	if !started {
		return 0, false
	}
	n, err := strconv.Atoi(tag)
	return n, err == nil && n > 1
}
