package sim

import (
	"encoding/binary"
	"io"
	"net"

	corev1 "k8s.io/api/core/v1"
)

// serveDNS is the cluster's DNS as a control plane reaches it: over TCP, and with one answer to every question.
func (w *World) serveDNS(h *host) {
	l := h.port(domainName+":53", w.dnsRuns)
	w.loops.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			w.loops.Go(func() {
				defer c.Close()
				answerDNS(c)
			})
		}
	})
}

func (w *World) dnsRuns() bool {
	for _, p := range list[*corev1.Pod](w.store, "pods") {
		if p.Labels["app"] == "coredns" && podIsReady(p) && p.DeletionTimestamp == nil {
			return true
		}
	}
	return false
}

// answerDNS answers questions for A with an address, and others with nothing (RFC 1035, 4.2.2).
func answerDNS(c net.Conn) {
	for {
		var size [2]byte
		if _, err := io.ReadFull(c, size[:]); err != nil {
			return
		}
		q := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(c, q); err != nil || len(q) < 12 {
			return
		}
		end := 12
		for end < len(q) && q[end] != 0 {
			end += int(q[end]) + 1
		}
		if end+5 > len(q) {
			return
		}
		answer := append([]byte{}, q[:end+5]...)
		answer[2], answer[3] = 0x84, 0x80 // a response, authoritative, recursion available
		copy(answer[6:12], []byte{0, 0, 0, 0, 0, 0})
		if binary.BigEndian.Uint16(q[end+1:]) == 1 {
			answer[7] = 1
			answer = append(answer, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 30, 0, 4, 10, 96, 0, 1)
		}
		if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...)); err != nil {
			return
		}
	}
}
