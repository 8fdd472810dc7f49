package sim

import (
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// faults are what goes wrong at present. Each is switched on and off by a schedule.
type faults struct {
	scripts  int            // so many of the next scripts fail
	installs int            // counts installations down; the one that makes it 0 fails
	hangs    int            // so many of the next scripts hang
	lost     map[*host]bool // hosts that no connection reaches
	flapping map[*host]bool // API servers that take no connection
	errors   int            // so many of the next requests to the API fail
	refusals int            // so many of the next evictions are refused
	crashes  int            // so many of the next runs of kubeadm fail
	renames  int            // so many of the next swaps of a manifest are cut by a reboot between the two renames
}

// mishap is what becomes of one script.
type mishap struct {
	delay time.Duration
	code  int
	text  string
}

// hanging is longer than any limit there is.
const hanging = 24 * time.Hour

func (f *faults) script(w *World, h *host, name string) mishap {
	switch {
	case name == "kill":
	case name == "install" && f.installs > 0:
		f.installs--
		if f.installs == 0 {
			w.note("fault: %s fails on %s", name, h.name)
			return mishap{code: 1, text: "Input/output error"}
		}
	case f.hangs > 0:
		f.hangs--
		w.note("fault: %s hangs on %s", name, h.name)
		return mishap{delay: hanging}
	case f.scripts > 0:
		f.scripts--
		w.note("fault: %s fails on %s", name, h.name)
		return mishap{code: 1, text: "Input/output error"}
	}
	return mishap{}
}

func (f *faults) unreachable(h *host) bool { return f.lost[h] }
func (f *faults) apiDown(h *host) bool     { return f.flapping[h] }

func (f *faults) api(w *World, h *host, r *http.Request) *apierrors.StatusError {
	if f.errors == 0 {
		return nil
	}
	f.errors--
	w.note("fault: %s %s fails at %s", r.Method, r.URL.Path, h.name)
	return apierrors.NewInternalError(fmt.Errorf("etcdserver: leader changed"))
}

func (f *faults) eviction(w *World) *apierrors.StatusError {
	if f.refusals == 0 {
		return nil
	}
	f.refusals--
	w.note("fault: an eviction is refused")
	if f.refusals%2 == 0 {
		return apierrors.NewInternalError(fmt.Errorf("etcdserver: request timed out"))
	}
	return tooMany("Cannot evict pod as it would violate the pod's disruption budget.", 10)
}

// rename cuts a swap of a manifest in the middle.
func (f *faults) rename(h *host) {
	if f.renames > 0 {
		f.renames--
		h.w.note("fault: %s reboots between two renames", h.name)
		h.reboot(time.Minute)
	}
}

func (f *faults) kubeadm(w *World, h *host) bool {
	if f.crashes == 0 {
		return false
	}
	f.crashes--
	w.note("fault: kubeadm fails on %s", h.name)
	return true
}
