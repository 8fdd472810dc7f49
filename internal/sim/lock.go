package sim

import (
	"path"
	"strconv"
	"time"
)

// hostLock is the lock of a host as its file tells it. It counts from the host's boot.
type hostLock struct {
	id, note string
	term     int // seconds
	at       time.Time
	boot     int
}

const neverBooted = 8000 // seconds that a host had been up when the world began

// age is that of the lock in seconds; one from before the last boot is as old as that.
func (h *host) lockAge() int {
	if h.lock.boot != h.boot {
		return int(time.Since(h.bootedAt()).Seconds())
	}
	return int(time.Since(h.lock.at).Seconds())
}

func (h *host) bootedAt() time.Time {
	if h.booted.IsZero() {
		return h.w.began.Add(-neverBooted * time.Second)
	}
	return h.booted
}

func (s *script) tellLock(word string) int {
	l := s.h.lock
	if l.id == "" {
		s.printf("%s 0 0 \n\n", word)
		return 0
	}
	s.printf("%s %d %d %s\n%s\n", word, s.h.lockAge(), l.term, l.id, l.note)
	return 0
}

func takeLock(s *script, _ []byte) int {
	l, me, over := s.h.lock, s.arg(2), s.arg(5)
	if l.id != "" && s.h.lockAge() <= l.term && l.id != me && l.id != over {
		return s.tellLock("held")
	}
	term, _ := strconv.Atoi(s.arg(3)) // kuberung sends numbers
	s.h.lock = hostLock{id: me, note: s.arg(4), term: term, at: time.Now(), boot: s.h.boot}
	return s.tellLock("taken")
}

func renewLock(s *script, _ []byte) int {
	if s.h.lock.id != s.arg(2) {
		return s.tellLock("lost")
	}
	s.h.lock.at, s.h.lock.boot = time.Now(), s.h.boot
	return s.tellLock("renewed")
}

func dropLock(s *script, _ []byte) int {
	if s.h.lock.id == s.arg(2) {
		s.h.lock = hostLock{}
	}
	return s.tellLock("dropped")
}

func readLock(s *script, _ []byte) int { return s.tellLock("found") }

// keepFlags keeps the kubelet's flags as they were.
func keepFlags(s *script, _ []byte) int {
	if keep := path.Join(s.arg(2), "kubeadm-flags.env"); s.h.files[keep] == nil && s.h.files[s.arg(1)] != nil {
		s.h.write(keep, s.h.files[s.arg(1)].data, "0644")
	}
	return 0
}
