package hosts

import (
	"bytes"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestQuote(t *testing.T) {
	for _, c := range []struct {
		words []string
		want  string
	}{
		{nil, ""},
		{[]string{""}, "''"},
		{[]string{"kubeadm", "--v=5"}, "kubeadm --v=5"},
		{[]string{"a b", "c"}, "'a b' c"},
		{[]string{"it's"}, `'it'"'"'s'`},
		{[]string{"$HOME", "`id`", `\`, "!x", "~"}, "'$HOME' '`id`' '\\' '!x' '~'"},
		{[]string{"a\nb", "ü"}, "'a\nb' 'ü'"},
		{[]string{"*", "-n", "a=b", "#"}, "'*' -n a=b '#'"},
	} {
		if got := Quote(c.words...); got != c.want {
			t.Errorf("%q: got %s, want %s", c.words, got, c.want)
		}
	}
}

func TestLoaderIsPortable(t *testing.T) {
	// What fish, csh and POSIX shells disagree on must not occur between the quotes of the one line that a
	// login shell parses, and no quote but the outer pair.
	if strings.ContainsAny(loader, "\\!\n\x00") || strings.Count(loader, "'") != 2 {
		t.Errorf("loader %s means different things to different shells", loader)
	}
}

// throughShell runs the loader as a login shell would and prints every argument followed by NUL.
func throughShell(t *testing.T, shell string, words []string, stdin string) string {
	t.Helper()
	script := "set -- " + Quote(words...) + "\n" + `for w; do printf '%s\0' "$w"; done; cat`
	cmd := exec.CommandContext(t.Context(), shell, "-c", loader)
	cmd.Stdin = strings.NewReader(oneLine(script) + stdin)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%q: %v", words, err)
	}
	return string(out)
}

func TestRoundTrip(t *testing.T) {
	words := []string{"", " ", "'", `"`, `\`, `\\`, `\n`, `\0101`, "%s%%", "a\nb\n", "\n", "\t", "$(id)", "`id`", "${x}", "!", "~root", "*", "-", "--", "é\x81\xff", "\x01\x7f", "a'b\"c\\d"}
	for b := 1; b < 256; b++ {
		words = append(words, string([]byte{byte(b)}), string([]byte{'x', byte(b), 'y'}))
	}
	want := strings.Join(words, "\x00") + "\x00standard\ninput"
	for shell := range loginShells(t) {
		if diff := cmp.Diff(want, throughShell(t, shell, words, "standard\ninput")); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", shell, diff)
		}
	}
}

func FuzzRoundTrip(f *testing.F) {
	f.Add("a", "it's", "in")
	f.Add("\\0101%b", "\x81\xff\n", "\n\nx\x00")
	f.Fuzz(func(t *testing.T, a, b, stdin string) {
		words := []string{a, b}
		if checkWords(words) != nil {
			return // NUL
		}
		if got, want := throughShell(t, "/bin/sh", words, stdin), a+"\x00"+b+"\x00"+stdin; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

func TestCutFrame(t *testing.T) {
	for all, want := range map[string][2]string{
		"NONCE 42\nbody\n":   {"42", "body\n"},
		"Welcome!NONCE 42\n": {"42", ""},
		"NONCE\r\nbody":      {"", "body"},
		"+ printf %s NONCE $$; printf\nNONCE 42\nbody": {"42", "body"},
		"NONCE 1\nNONCE 2\n":                           {"1", "NONCE 2\n"},
	} {
		tag, body, started := cutFrame([]byte(all), "NONCE")
		if got := [2]string{tag, string(body)}; !started || got != want {
			t.Errorf("%q: got %q, %v, want %q", all, got, started, want)
		}
	}
	for _, all := range []string{"", "NONC", "NONCE", "NONCE 4", "NONCE x\n", "nonce 42\n"} {
		if _, body, started := cutFrame([]byte(all), "NONCE"); started || string(body) != all {
			t.Errorf("%q: started with %q", all, body)
		}
	}
}

func FuzzCutFrame(f *testing.F) {
	f.Add([]byte("noise"), []byte("body\nmore"))
	f.Add([]byte("\n\x00"), []byte(""))
	f.Add([]byte("+ echo NONCE $$; echo NON"), []byte("NONCE 1\n"))
	const nonce = "NONCE"
	framed := regexp.MustCompile(`NONCE[\pZ\pC]*[0-9]*[\pZ\pC]*\n`) // a little more than is taken for a frame
	f.Fuzz(func(t *testing.T, noise, body []byte) {
		if framed.Match(noise) || framed.Match(append(bytes.Clone(noise), '\n')) {
			return // nobody else says where the program begins
		}
		all := append(append(bytes.Clone(noise), nonce+" 42\n"...), body...)
		tag, got, ok := cutFrame(all, nonce)
		if !ok || tag != "42" || !bytes.Equal(got, body) {
			t.Errorf("got %q %q %v, want 42 and %q", tag, got, ok, body)
		}
		if _, got, ok := cutFrame(append(bytes.Clone(noise), nonce+" 4"...), nonce); ok {
			t.Errorf("half a frame line taken for a whole one, with the body %q", got)
		}
		if _, got, _ := cutFrame(body, nonce); !bytes.HasSuffix(body, got) {
			t.Errorf("%q is not the end of what came", got)
		}
	})
}
