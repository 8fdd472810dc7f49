package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"github.com/kuberung/kuberung/hosts"
	"github.com/kuberung/kuberung/steps"
)

func statusCommand(p Process) *cli.Command {
	const usage = "say where the cluster stands, what is left over, and who is at work; changes nothing"
	return lookCommand(p, "status", usage, func(ctx context.Context, v view) (err error) {
		status := steps.StatusOf(v.cluster, v.facts, v.session.LookBeside(ctx, v.facts, gone))
		if ctx.Err() != nil {
			return interrupted(ctx)
		}
		if v.inJSON {
			err = writeStatusJSON(p.Out, status)
		} else {
			writeStatus(p.Out, status, v.cluster.File)
		}
		return errors.Join(err, untold(status))
	})
}

// untold is the error of a status that does not say where the cluster stands. A host that could not be asked is part of
// the answer, a cluster that could not be asked is none.
func untold(s steps.Status) error {
	if s.Problem != "" {
		return errors.New("where the cluster stands could not be told: its API could not be asked")
	}
	return nil
}

func writeStatusJSON(w io.Writer, s steps.Status) error {
	return writeJSON(w, struct {
		Schema int `json:"schema"`
		steps.Status
	}{1, s})
}

// writeStatus prints a status for people, on 80 columns unless a name is longer.
func writeStatus(w io.Writer, s steps.Status, file string) {
	fmt.Fprintln(w, headline(s, file))
	if n := len(s.Unasked); n > 0 {
		fmt.Fprintf(w, "%d of %d hosts could not be asked.\n", n, len(s.Hosts))
	}
	fmt.Fprintln(w)
	lock := "nobody has it"
	switch {
	case s.LockErr != "":
		lock = "could not be read: " + s.LockErr
	case s.Lock != nil:
		lock = s.Lock.Text
	}
	paragraph(w, "lock      ", lock)
	paragraph(w, "etcd      ", s.Etcd)
	paragraph(w, "snapshot  ", snapshotLine(s.Snapshot))
	fmt.Fprintln(w)
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "host\tAPI server\tkubelet\tleft to do")
	for _, h := range s.Hosts {
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\n", h.Host, orDash(h.APIServer), orDash(h.Kubelet), leftLine(s, h))
	}
	out.Flush()
	for _, h := range s.Hosts {
		writeNotes(w, h)
	}
	for _, n := range s.Others {
		n.Notes = append([]string{"a node that is not in the cluster file, kubelet " + orDash(n.Kubelet)}, n.Notes...)
		writeNotes(w, n)
	}
}

func headline(s steps.Status, file string) string {
	next := "kuberung upgrade -f " + hosts.Quote(file) + " --to " + s.Target
	way := fmt.Sprintf("%s: %s -> %s, ", s.Cluster, orDash(s.From), s.Target)
	if s.From == s.Target {
		way = fmt.Sprintf("%s: at %s, ", s.Cluster, s.Target)
	}
	switch s.State {
	case steps.Finished:
		return fmt.Sprintf("%s is at %s, nothing is left to do.", s.Cluster, s.Target)
	case steps.AtWork:
		return way + s.Lock.Name + " is at work."
	case steps.NotBegun:
		return way + "not begun.\nTo begin: " + next
	case steps.PartlyDone:
		return way + "partly done, and nobody is at work.\nTo go on: " + next
	case steps.Interrupted:
		return way + "interrupted, and nobody is at work.\nTo go on: " + next
	}
	if s.Problem != "" {
		return s.Cluster + ": the API could not be asked, so only what the hosts say is below."
	}
	return way + "as far as could be told."
}

func snapshotLine(s *steps.Snapshot) string {
	if s == nil {
		return "none on this disk"
	}
	return fmt.Sprintf("of %s, %d MiB: %s", s.At.Local().Format("2006-01-02 15:04"), (s.Size+1<<20-1)>>20, s.Path)
}

// leftLine says in few words what is left of a host: its parts, and of how many rungs.
func leftLine(s steps.Status, h steps.HostStatus) string {
	switch {
	case h.Problem != "":
		return "not known: it could not be asked"
	case s.Problem != "":
		return "not known"
	case len(h.Left) == 0:
		return "nothing"
	}
	rungs := map[string]int{}
	var parts []string
	for _, l := range h.Left {
		if rungs[l.Part]++; rungs[l.Part] == 1 {
			parts = append(parts, l.Part)
		}
	}
	for i, part := range parts {
		if n := rungs[part]; n > 1 {
			parts[i] = fmt.Sprintf("%s (%d rungs)", part, n)
		}
	}
	return strings.Join(parts, ", ")
}

// writeNotes prints what is out of the ordinary with a host, and the steps it is in the middle of.
func writeNotes(w io.Writer, h steps.HostStatus) {
	notes := h.Notes
	if h.Problem != "" {
		notes = append([]string{"could not be asked: " + h.Problem}, notes...)
	}
	if len(notes) == 0 {
		return
	}
	name := h.Host
	if h.Node != "" && h.Node != h.Host {
		name += " (node " + h.Node + ")"
	}
	fmt.Fprintf(w, "\n%s\n", name)
	for _, note := range notes {
		paragraph(w, "  - ", note)
	}
	if len(h.Left) > 0 {
		paragraph(w, "  - ", "next steps: "+strings.Join(h.Left[0].Steps, ", "))
	}
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// paragraph prints a text of several lines with a head before the first. A word that is longer than a line stays whole:
// it may have to be copied.
func paragraph(w io.Writer, head, text string) {
	const columns = 80
	line, indent := head, strings.Repeat(" ", len(head))
	empty := true
	for _, word := range strings.Fields(text) {
		if !empty && len([]rune(line))+1+len([]rune(word)) > columns {
			fmt.Fprintln(w, line)
			line, empty = indent, true
		}
		if !empty {
			line += " "
		}
		line, empty = line+word, false
	}
	fmt.Fprintln(w, strings.TrimRight(line, " "))
}
