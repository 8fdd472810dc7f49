package hosts

import (
	"bytes"
	"os/exec"
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
func throughShell(t *testing.T, words []string, stdin string) string {
	t.Helper()
	script := "set -- " + Quote(words...) + "\n" + `for w; do printf '%s\0' "$w"; done; cat`
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", loader)
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
	if diff := cmp.Diff(want, throughShell(t, words, "standard\ninput")); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func FuzzRoundTrip(f *testing.F) {
	f.Add("a", "it's", "in")
	f.Add("\\0101%b", "\x81\xff\n", "\n\nx\x00")
	f.Fuzz(func(t *testing.T, a, b, stdin string) {
		words := []string{a, b}
		if checkWords(words) != nil {
			t.Skip("NUL")
		}
		if got, want := throughShell(t, words, stdin), a+"\x00"+b+"\x00"+stdin; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

func FuzzCutFrame(f *testing.F) {
	f.Add([]byte("noise"), []byte("body\nmore"))
	f.Add([]byte("\n\x00"), []byte(""))
	const nonce = "QUJDREVGR0hJSktMTU5PUFFSUw"
	f.Fuzz(func(t *testing.T, noise, body []byte) {
		if bytes.Contains(append(noise, body...), []byte(nonce[:4])) {
			t.Skip("a nonce cannot be guessed")
		}
		all := append(append(bytes.Clone(noise), nonce+" 42\n"...), body...)
		tag, got, ok := cutFrame(all, nonce)
		if !ok || tag != "42" || !bytes.Equal(got, body) {
			t.Errorf("got %q %q %v, want 42 and %q", tag, got, ok, body)
		}
		if _, _, ok := cutFrame(append(bytes.Clone(noise), nonce+" 4"...), nonce); ok {
			t.Error("half a frame line taken for a whole one")
		}
	})
}
