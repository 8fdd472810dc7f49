package sim

import (
	"fmt"
	"strconv"
	"strings"
)

// unit is a detached run and its record.
type unit struct {
	id             string
	argv           []string
	live, claimed  bool
	exited         bool
	code           int
	started, ended int64 // by the host's clock
	output         strings.Builder
}

// state is what the scripts of hosts call it.
func (u *unit) state() string {
	switch {
	case u == nil:
		return "none"
	case u.exited:
		return "exited"
	case u.live:
		return "running"
	}
	return "interrupted"
}

// report is a look at a unit as the scripts print it.
func (u *unit) report() string {
	if u == nil {
		return "state=none live=0 claimed=0 rebooted=0 size=0 \n"
	}
	// Nothing but a reboot ends a unit before its end here.
	line := fmt.Sprintf("state=%s live=%d claimed=%d rebooted=%d size=%d id=%s started=%d ", u.state(), number(u.live), number(u.claimed), number(u.state() == "interrupted"), u.output.Len(), u.id, u.started)
	if u.exited {
		line += fmt.Sprintf("code=%d started=%d ended=%d", u.code, u.started, u.ended)
	}
	return line + "\n"
}

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}

// beginUnit finds or starts a unit. Its wrapper, which holds the command, came over standard input.
func beginUnit(s *script, wrapper []byte) int {
	name, id := s.arg(2), s.arg(3)
	old := s.h.units[name]
	if strconv.Itoa(len(wrapper)) != s.arg(4) {
		return s.fails(71, "wrapper arrived incomplete")
	}
	if old != nil && (old.id == id || old.state() == "running" || old.state() == "exited" && !old.claimed) {
		s.printf("%s", old.report())
		return 0
	}
	_, rest, _ := strings.Cut(string(wrapper), "\nset -- ")
	argv, _ := words(rest)
	u := &unit{id: id, argv: argv, live: true, started: s.h.now().Unix()}
	s.h.units[name] = u
	s.h.startKubeadm(name, u, s.by)
	s.printf("%s", u.report())
	return 0
}

func pollUnit(s *script, _ []byte) int {
	u := s.h.units[s.arg(2)]
	s.printf("%s", u.report())
	if u == nil {
		return 0
	}
	from, _ := strconv.Atoi(s.arg(3)) // kuberung sends numbers
	limit, _ := strconv.Atoi(s.arg(4))
	s.printf("%s", piece(u.output.String(), from, limit))
	return 0
}

// piece is output from an offset on; a negative one counts from the end.
func piece(text string, from, limit int) string {
	if from < 0 {
		from = max(0, len(text)+from)
	}
	if from >= len(text) {
		return ""
	}
	return text[from:min(len(text), from+limit)]
}

func claimUnit(s *script, _ []byte) int {
	if u := s.h.units[s.arg(2)]; u != nil && u.exited && u.id == s.arg(3) {
		u.claimed = true
	}
	return 0
}

func forgetUnit(s *script, _ []byte) int {
	if u := s.h.units[s.arg(2)]; u != nil && u.live {
		return s.fails(72, "%s is running", s.arg(2))
	}
	delete(s.h.units, s.arg(2))
	return 0
}
