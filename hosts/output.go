package hosts

import (
	"bytes"
	"strconv"
	"strings"
	"sync"
	"time"
)

// output collects one stream of a remote program. The program's own output starts after a line that begins
// with a nonce; what login shells and banners print before it is noise.
type output struct {
	nonce string
	stir  chan<- struct{} // told, without waiting, of every write

	mu    sync.Mutex
	buf   bytes.Buffer
	began time.Time // when the first byte of the program's own output came
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	select {
	case o.stir <- struct{}{}:
	default:
	}
	n, err := o.buf.Write(p)
	if o.began.IsZero() {
		if _, body, started := cutFrame(o.buf.Bytes(), o.nonce); started && len(body) > 0 {
			o.began = time.Now()
		}
	}
	return n, err
}

// firstByte is when the program's own output began; zero if it has not.
func (o *output) firstByte() time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.began
}

// framed returns the rest of the nonce's line and all that follows it, as collected so far.
// Without a nonce (yet), started is false and body is everything.
func (o *output) framed() (tag string, body []byte, started bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := bytes.Clone(o.buf.Bytes())
	return cutFrame(all, o.nonce)
}

// cutFrame finds the first complete line that holds nonce.
func cutFrame(all []byte, nonce string) (tag string, body []byte, started bool) {
	_, rest, ok := bytes.Cut(all, []byte(nonce))
	if !ok {
		return "", all, false
	}
	line, body, ok := bytes.Cut(rest, []byte("\n"))
	if !ok {
		return "", all, false
	}
	return strings.TrimSpace(string(line)), body, true
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
