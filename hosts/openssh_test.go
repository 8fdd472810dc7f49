package hosts

import (
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// sshConfig writes a configuration of ssh with files beside it, and hides the ssh client from those who look for it.
func sshConfig(t *testing.T, text string) (file string, without func()) {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	file = filepath.Join(dir, "config")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(text, "DIR", dir)), 0o600); err != nil {
		t.Fatal(err)
	}
	return file, func() { t.Setenv("PATH", dir) }
}

// both runs a test with the ssh client of this machine, if it has one, and with the library.
func both(t *testing.T, text string, check func(t *testing.T, file string)) {
	t.Run("client", func(t *testing.T) {
		file, _ := sshConfig(t, text)
		check(t, file)
	})
	t.Run("library", func(t *testing.T) {
		file, without := sshConfig(t, text)
		without()
		check(t, file)
	})
}

func completed(t *testing.T, c Config) (Config, *Host, error) {
	t.Helper()
	h := New(c)
	full, err := h.complete(t.Context(), c)
	return full, h, err
}

func TestSSHConfigFills(t *testing.T) {
	both(t, `
Host cp1
  HostName 192.0.2.11
  User ops
  Port 2222
  IdentityFile DIR/there
  IdentityFile DIR/absent
  CertificateFile DIR/there-cert.pub
  IdentitiesOnly yes
  IdentityAgent DIR/agent
  UserKnownHostsFile DIR/known_hosts
  GlobalKnownHostsFile DIR/global
  HostKeyAlias alias
  ProxyJump jump@bastion:2022,[2001:db8::1]:22
`, func(t *testing.T, file string) {
		dir := filepath.Dir(file)
		for _, name := range []string{"there", "there-cert.pub"} {
			if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		got, h, err := completed(t, Config{Address: "cp1", SSHConfig: file})
		if err != nil {
			t.Fatal(err)
		}
		want := Config{
			Address: "192.0.2.11", Port: 2222, User: "ops", SSHConfig: file, HostKeyAlias: "alias", Agent: dir + "/agent",
			KeyFiles: []string{dir + "/there"}, CertificateFiles: []string{dir + "/there-cert.pub"},
			KnownHostsFiles: []string{dir + "/known_hosts", dir + "/global"},
			Jump: []Config{
				{Address: "bastion", Port: 2022, User: "jump", SSHConfig: file},
				{Address: "2001:db8::1", Port: 22, SSHConfig: file},
			},
		}
		if d := cmp.Diff(want, got, cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Dial" }, cmp.Ignore())); d != "" {
			t.Errorf("configuration (-want +got):\n%s", d)
		}
		if h.everyAgentKey {
			t.Error("IdentitiesOnly is not honoured")
		}
	})
}

func TestSSHConfigNeverWins(t *testing.T) {
	both(t, "Host *\n  HostName 192.0.2.99\n  User other\n  Port 99\n  IdentityFile DIR/x\n  UserKnownHostsFile DIR/x\n  HostKeyAlias x\n  ProxyJump x\n  IdentityAgent DIR/x\n",
		func(t *testing.T, file string) {
			given := Config{
				Address: "cp1", SSHConfig: file, User: "ops", Port: 22, KeyFiles: []string{"key"}, KnownHostsFiles: []string{"kh"},
				HostKeyAlias: "mine", Agent: "none", Jump: []Config{{Address: "hop"}},
			}
			got, h, err := completed(t, given)
			if err != nil {
				t.Fatal(err)
			}
			given.Address = "192.0.2.99" // the one thing that ssh_config is for: what a name stands for
			if d := cmp.Diff(given, got, cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Dial" }, cmp.Ignore())); d != "" {
				t.Errorf("configuration (-want +got):\n%s", d)
			}
			if h.everyAgentKey {
				t.Error("a named key file keeps the other keys of the agent back")
			}
		})
}

func TestSSHConfigSaysNothing(t *testing.T) {
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	both(t, "Host other\n  User x\n", func(t *testing.T, file string) {
		got, h, err := completed(t, Config{Address: "cp1", SSHConfig: file})
		if err != nil || got.User != me.Username || got.port() != 22 || len(got.Jump) > 0 || !h.everyAgentKey {
			t.Errorf("got %+v, %v, want %s on port 22", got, err, me.Username)
		}
	})
}

func TestSSHConfigRefused(t *testing.T) {
	both(t, "Host cp1\n  ProxyCommand nc %h %p\n", func(t *testing.T, file string) {
		_, _, err := completed(t, Config{Address: "cp1", SSHConfig: file})
		if err == nil || !strings.Contains(err.Error(), "ProxyCommand") || !strings.Contains(err.Error(), "ssh.jump") {
			t.Errorf("got %v, want a word on ProxyCommand", err)
		}
		if _, _, err := completed(t, Config{Address: "cp1", SSHConfig: file, Jump: []Config{{Address: "hop"}}}); err != nil {
			t.Errorf("with a way of its own: %v", err)
		}
	})
	both(t, "Host cp1\n  Prot 22\n  Port 22 33\n  Match nonsense\n", func(t *testing.T, file string) {
		_, _, err := completed(t, Config{Address: "cp1", SSHConfig: file})
		if err == nil || !strings.Contains(err.Error(), "config") || !strings.Contains(err.Error(), "ssh.config: none") {
			t.Errorf("got %v, want an error that names the file and the way out", err)
		}
	})
	both(t, "Host cp1\n  ProxyJump a@\n", func(t *testing.T, file string) {
		if _, _, err := completed(t, Config{Address: "cp1", SSHConfig: file}); err == nil {
			t.Error("a jump host without a name was taken")
		}
	})
	h := New(Config{Name: "cp1", Address: "cp1", SSHConfig: filepath.Join(t.TempDir(), "absent"), User: "ops"})
	wantError(t, h.Connect(t.Context()), ErrSSHConfig, "configuration", "absent")
}

func TestExpandTokens(t *testing.T) {
	t.Setenv("WHERE", "/keys")
	values := map[byte]string{'%': "%", 'h': "cp1", 'p': "22"}
	for path, want := range map[string]string{
		"plain": "plain", "%h-%p": "cp1-22", "100%%": "100%", "${WHERE}/%h": "/keys/cp1", "$WHERE": "$WHERE", "": "",
	} {
		if got, err := expandTokens(path, values); err != nil || got != want {
			t.Errorf("%q gives %q, %v, want %q", path, got, err, want)
		}
	}
	for _, path := range []string{"%", "a%x", "${NOT_SET_ANYWHERE}"} {
		if got, err := expandTokens(path, values); err == nil {
			t.Errorf("%q gives %q, want an error", path, got)
		}
	}
}

func TestParseHop(t *testing.T) {
	for text, want := range map[string]Config{
		"bastion":                   {Address: "bastion"},
		"ops@bastion":               {Address: "bastion", User: "ops"},
		"ops@bastion:2222":          {Address: "bastion", User: "ops", Port: 2222},
		"ssh://ops@bastion:2222":    {Address: "bastion", User: "ops", Port: 2222},
		"2001:db8::1":               {Address: "2001:db8::1"},
		"[2001:db8::1]":             {Address: "2001:db8::1"},
		"ops@[2001:db8::1]:2222":    {Address: "2001:db8::1", User: "ops", Port: 2222},
		"user@corp.example@bastion": {Address: "bastion", User: "user@corp.example"},
	} {
		got, err := ParseHop(text)
		if d := cmp.Diff(want, got, cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Dial" }, cmp.Ignore())); err != nil || d != "" {
			t.Errorf("%q: %v (-want +got):\n%s", text, err, d)
		}
	}
	for _, text := range []string{"", "@bastion", "ops@", "bastion:0", "bastion:99999", "bastion:ssh", "-oProxyCommand=x", "a b", "a/b"} {
		if got, err := ParseHop(text); err == nil {
			t.Errorf("%q gives %+v, want an error", text, got)
		}
	}
}

func FuzzParseHop(f *testing.F) {
	f.Add("ops@[2001:db8::1]:2222")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := ParseHop(text)
		if err != nil {
			return
		}
		if c.Address == "" || strings.HasPrefix(c.Address, "-") || c.Port < 0 || c.Port > 65535 {
			t.Errorf("%q gives %s port %s", text, c.Address, strconv.Itoa(c.Port))
		}
	})
}
