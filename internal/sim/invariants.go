package sim

import corev1 "k8s.io/api/core/v1"

// changed is called after every change: every invariant of the design is looked at.
func (w *World) changed(what string) {
	w.note("%s", what)
}

func (w *World) performed(what string, h *host)       {}
func (w *World) restarting(h *host)                   {}
func (w *World) moves(h *host, component string)      {}
func (w *World) movesControlPlane(h *host)            {}
func (w *World) nodeChanged(before, now *corev1.Node) {}
