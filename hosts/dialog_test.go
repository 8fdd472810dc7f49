package hosts

import (
	"bytes"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

func testDialog() *dialog { return &dialog{one: "ONE", two: "TWO"} }

// hold lets a dialog hear text in pieces of one byte at most where stills says so, and gives the moves.
func hold(d *dialog, pieces ...string) (moves []move) {
	said := ""
	for _, p := range pieces {
		still := p == still
		if !still {
			said += p
		}
		m := d.next([]byte(said), still)
		if m == tellIt {
			d.tell([]byte(said))
		}
		if m != hearMore {
			moves = append(moves, m)
		}
		if m == ready || m == wrong {
			break
		}
	}
	return moves
}

const still = "\x00still"

func TestDialog(t *testing.T) {
	for name, c := range map[string]struct {
		said []string // still: nothing for a while
		want []move
	}{
		"asks":                         {[]string{"ONE%TWO", "ONETWO\n"}, []move{tellIt, ready}},
		"asks after a lecture":         {[]string{"We trust you know your password:\n", "ONE%TWO", "\nONETWO\n"}, []move{tellIt, ready}},
		"does not ask":                 {[]string{"ONETWO\n"}, []move{ready}},
		"noise":                        {[]string{"Welcome!", "ONE%TWO", "Last login: never\n", "ONETWO\n"}, []move{tellIt, ready}},
		"wrong":                        {[]string{"ONE%TWO", "Sorry, try again.\nONE%TWO"}, []move{tellIt, wrong}},
		"wrong, says so":               {[]string{"ONE%TWO", "sudo-rs: Authentication failed, try again.\n"}, []move{tellIt, wrong}},
		"wrong, asks again":            {[]string{"ONE%TWO", "\nONE%TWO"}, []move{tellIt, wrong}},
		"PAM's own prompt":             {[]string{"LDAP Password: ", still, "\nONETWO\n"}, []move{tellIt, ready}},
		"PAM's, wrong":                 {[]string{"Password for ops@CORP: ", still, "Password for ops@CORP: ", still}, []move{tellIt, wrong}},
		"sudo-rs":                      {[]string{"[sudo: ONE%%TWO] Password: ", still, "\nONETWO\n"}, []move{tellIt, ready}},
		"noise like a question":        {[]string{"warning, Password: ", still, "ONE%TWO", "\nONETWO\n"}, []move{tellIt, ready}},
		"noise like a question, wrong": {[]string{"warning, Password: ", still, "ONE%TWO", "Sorry, try again.\nONE%TWO"}, []move{tellIt, wrong}},
		"noise like a question, asks":  {[]string{"warning, Password: ", still, "ONE%TWO", "\nONE%TWO"}, []move{tellIt, wrong}},
		"more than a prompt":           {[]string{"Your password: ", "expires soon\n", still, "ONETWO\n"}, []move{ready}},
		"a line that is over":          {[]string{"Password: \n", still}, nil},
		"another question":             {[]string{"Verification code: ", still}, nil},
		"a shell that traces":          {[]string{"+ sudo -p " + testDialog().argument() + " -- /bin/sh -c " + testDialog().shell() + "\n", still}, nil},
		"half a prompt":                {[]string{"ONE%TW", still}, nil},
	} {
		if got := hold(testDialog(), c.said...); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
		var bytewise []string
		for _, p := range c.said {
			if p == still {
				bytewise = append(bytewise, p)
				continue
			}
			bytewise = append(bytewise, strings.Split(p, "")...)
		}
		if got := hold(testDialog(), bytewise...); !slices.Equal(got, c.want) {
			t.Errorf("%s, byte by byte: got %v, want %v", name, got, c.want)
		}
	}
}

// What a password would do that reached the shell: nothing.
func TestDialogShellTakesOnlyOurLine(t *testing.T) {
	d := newDialog()
	for line, want := range map[string]string{
		d.key() + `echo "ran $((1 + 1))"`: "ran 2\n",
		"echo ran":                        "",
		"":                                "",
	} {
		cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", d.shell())
		cmd.Stdin = strings.NewReader(line + "\n")
		var said bytes.Buffer
		cmd.Stderr = &said
		if out, err := cmd.Output(); err != nil || string(out) != want || said.String() != d.ready()+"\n" {
			t.Errorf("%q: got %q, %q, %v, want %q", line, out, said.String(), err, want)
		}
	}
}

func FuzzPrompt(f *testing.F) {
	f.Add([]byte("Welcome"), []byte("lecture\n"), uint8(3), false)
	f.Add([]byte("ONE"), []byte("%TWO Password: "), uint8(1), true)
	f.Fuzz(func(t *testing.T, before, after []byte, size uint8, quiet bool) {
		d := testDialog()
		if len(before)+len(after) > 1<<10 {
			return // too long to be heard byte by byte
		}
		if bytes.Contains(before, []byte("ONE")) || bytes.Contains(after, []byte("ONE")) || tryAgain.Match(after) {
			return // nonces cannot be guessed
		}
		all := string(before) + d.prompt() + string(after) + d.ready() + "\n"
		var pieces []string
		for step := max(int(size), 1); all != ""; all = all[min(step, len(all)):] {
			pieces = append(pieces, all[:min(step, len(all))])
			if quiet {
				pieces = append(pieces, still)
			}
		}
		got := hold(d, pieces...)
		told := 0
		for _, m := range got {
			if m == tellIt {
				told++
			}
		}
		switch {
		case told > 1:
			t.Errorf("the password would be told twice: %v", got)
		case !quiet && !slices.Equal(got, []move{tellIt, ready}) && !slices.Equal(got, []move{ready}):
			t.Errorf("got moves %v, want the password told at most once, then ready", got)
		case d.answered > 0 && !quiet && d.answered < len(before)+len(d.prompt()):
			t.Errorf("the password would be told before sudo has asked")
		}
	})
}
