package config_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kuberung/kuberung/internal/config"
)

// Each row is a cluster file with mistakes and all that is said about it, without the file's name.
var bad = []struct{ name, file, want string }{
	{"nothing", "", "is empty, there is no cluster in it"},
	{"only a mark", "---\n", "is empty, there is no cluster in it"},
	{"only a comment", "# later\n", "is empty, there is no cluster in it"},
	{"not YAML", "artifacts: a: b\n", "1:13: is not YAML: mapping values are not allowed in this context"},
	{"tab", "ssh:\n\tuser: ops\n", "2:1: is not YAML: found character that cannot start any token (while scanning for the next token)"},
	{"bare asterisk", minimal + "drain:\n  deleteUnmanaged:\n    - *\n", "7:8: is not YAML: did not find expected alphabetic or numeric character (while scanning an alias)"},
	{"a list", "- a\n", "1:1: the cluster file must be keys with values, got a list"},
	{"two documents", minimal + "---\na: 1\n", "5:1: a second document starts here: a cluster file holds one"},
	{"missing keys", "name: x\n", "1:1: artifacts is missing\n1:1: hosts is missing"},

	{"unknown key, near", minimal + "worker: {batch: 1}\n", "5:1: worker is not a known key, did you mean workers?"},
	{"unknown key, other case", minimal + "drain:\n  delete_local_data: []\n", "6:3: drain.delete_local_data is not a known key, did you mean deleteLocalData?"},
	{"unknown key, far", minimal + "workers: {parallelism: 2}\n", "5:11: workers.parallelism is not a known key; known here: batch, climb"},
	{"unknown key in a host", "artifacts: a\nssh: {user: ops}\nhosts:\n- name: a\n  adress: a\n  address: a\n  role: control-plane\n", "5:3: hosts[0].adress is not a known key, did you mean address?"},
	{"merge key", minimal + "drain:\n  <<: {timeout: 1m}\n", "6:3: drain: merging with << is not supported, write the keys out"},
	{"duplicate key", minimal + "workers: {batch: 2}\nworkers: {batch: 3}\n", "6:1: workers is given twice, first at c.yaml:5:1"},
	{"duplicate nested key", minimal + "workers:\n  batch: 2\n  batch: 3\n", "7:3: workers.batch is given twice, first at c.yaml:6:3"},

	{"text for a number", minimal + "workers:\n  batch: two\n", `6:10: workers.batch must be a whole number, got the text "two"`},
	{"quoted number", minimal + "workers: {batch: \"2\"}\n", `5:18: workers.batch must be a whole number, got the text "2"`},
	{"fraction", minimal + "workers: {batch: 1.5}\n", "5:18: workers.batch must be a whole number, got the number 1.5"},
	{"list for a number", minimal + "workers: {batch: [1]}\n", "5:18: workers.batch must be a whole number, got a list"},
	{"no number", minimal + "workers: {batch: }\n", "5:18: workers.batch must be a whole number, got nothing"},
	{"batch of none", minimal + "workers: {batch: 0}\n", "5:18: workers.batch must be at least 1, got 0"},
	{"a climb there is not", minimal + "workers: {climb: twice}\n", `5:18: workers.climb must be each-rung or once, got "twice"`},
	{"text for a section", minimal + "workers: 3\n", "5:10: workers must be keys with values, got the number 3"},
	{"text for a list", minimal + "drain: {deleteLocalData: yes}\n", `5:26: drain.deleteLocalData must be a list, got the text "yes"`},
	{"true for a list", minimal + "drain: {deleteLocalData: true}\n", "5:26: drain.deleteLocalData must be a list, got true"},
	{"number for text", minimal + "name: 7\n", "5:7: name must be text, got the number 7; put it in quotes if it is meant as text"},
	{"section for text", minimal + "data: {a: b}\n", "5:7: data must be text, got keys with values"},
	{"empty text", minimal + "data: ''\n", "5:7: data must not be empty"},
	{"no text", minimal + "data:\n", "5:6: data must be text, got nothing"},
	{"yes for true", minimal + "kubeadm: {certificateRenewal: yes}\n", `5:31: kubeadm.certificateRenewal must be true or false, got the text "yes"`},

	{"minor as target", minimal + "target: 1.36\n", "5:9: target must be a full version such as v1.36.3, got 1.36 without a patch release"},
	{"minor with v as target", minimal + "target: v1.36\n", "5:9: target must be a full version such as v1.36.3, got v1.36 without a patch release"},
	{"major as target", minimal + "target: 1\n", `5:9: target must be a version such as v1.36.3, got "1"`},
	{"word as target", minimal + "target: latest\n", `5:9: target must be a version such as v1.36.3, got "latest"`},
	{"package version as target", minimal + "target: 1.36.2-1.1~deb\n", `5:9: target must be a version such as v1.36.3, got "1.36.2-1.1~deb"`},
	{"leading zero", minimal + "target: v1.036.3\n", `5:9: target must be a version such as v1.36.3, got "v1.036.3"`},
	{"list as target", minimal + "target: [v1.36.3]\n", "5:9: target must be a version such as v1.36.3, got a list"},
	{"no target", minimal + "target:\n", "5:8: target must be a version such as v1.36.3, got nothing"},

	{"duration without unit", minimal + "drain: {timeout: 10}\n", "5:18: drain.timeout must be a duration such as 90s, 10m or 1h30m, got the number 10"},
	{"duration in words", minimal + "timeouts: {gate: 10 minutes}\n", `5:18: timeouts.gate must be a duration such as 90s, 10m or 1h30m, got the text "10 minutes"`},
	{"no duration at all", minimal + "timeouts: {gate: 0s}\n", "5:18: timeouts.gate must be longer than nothing, got 0s"},
	{"negative duration", minimal + "kubeadm: {timeouts: {etcdAPICall: -1m}}\n", "5:35: kubeadm.timeouts.etcdAPICall must be longer than nothing, got -1m"},

	{"pod without namespace", minimal + "drain: {deleteUnmanaged: [web-0]}\n", `5:27: drain.deleteUnmanaged[0] must be a pod as namespace/name, or "*" for all, got "web-0"`},
	{"second pod", minimal + "drain:\n  deleteLocalData:\n    - shop/a\n    - shop/*\n", `8:7: drain.deleteLocalData[1] must be a pod as namespace/name, or "*" for all, got "shop/*"`},
	{"all preflight errors", minimal + "kubeadm: {ignorePreflightErrors: [all]}\n", "5:35: kubeadm.ignorePreflightErrors[0] must name single checks: ignoring all would hide the ones you do not expect"},
	{"joined preflight errors", minimal + "kubeadm: {ignorePreflightErrors: ['Swap,Mem']}\n", `5:35: kubeadm.ignorePreflightErrors[0] must be the name of a preflight check, such as Swap, got "Swap,Mem"`},
	{"relative patches", minimal + "kubeadm: {patches: patches}\n", `5:20: kubeadm.patches must be an absolute path on the hosts, got "patches"`},
	{"home of somebody", minimal + "data: ~bob/x\n", "5:7: data: the home directory of another user (~bob/x) is not looked up, write the path out"},
	{"cluster name", minimal + "name: a/b\n", `5:7: name must be letters, digits, dots, dashes and underscores, got "a/b"`},

	{"no hosts", "artifacts: a\nhosts: []\n", "2:8: hosts is empty: at least one control-plane is needed"},
	{"nothing for hosts", "artifacts: a\nhosts:\n", "2:7: hosts is empty: at least one control-plane is needed"},
	{"hosts by name", "artifacts: a\nhosts: {a: b}\n", "2:8: hosts must be a list, got keys with values"},
	{"host without keys", hosts("-"), "4:2: hosts[0] is empty: a host has a name, an address and a role"},
	{"host as text", hosts("- a"), `4:3: hosts[0] must be keys with values, got the text "a"`},
	{"host half said", hosts("- {name: a}"), "4:3: hosts[0].address is missing\n4:3: hosts[0].role is missing"},
	{"only workers", hosts("- {name: a, address: a, role: worker}"), "4:1: hosts has no host with the role control-plane"},
	{"role", hosts("- {name: a, address: a, role: master}"), `4:31: hosts[0].role must be control-plane or worker, got "master"`},
	{"host name", hosts("- {name: a b, address: a, role: control-plane}"), `4:10: hosts[0].name must be letters, digits, dots, dashes and underscores, got "a b"`},
	{"duplicate name", hosts("- {name: a, address: a, role: control-plane}", "- {name: A, address: b, role: worker}"), "5:3: hosts[1].name A is already the name of the host at c.yaml:4:3"},
	{"duplicate address", hosts("- {name: a, address: 10.0.0.1, role: control-plane}", "- {name: b, address: 10.0.0.1, role: worker}"), "5:3: hosts[1].address 10.0.0.1 is already the address of a at c.yaml:4:3"},
	{"duplicate address, spelt otherwise", hosts("- {name: a, address: '2001:db8::1', role: control-plane}", "- {name: b, address: '2001:0DB8:0::1', role: worker}"), "5:3: hosts[1].address 2001:0DB8:0::1 is already the address of a at c.yaml:4:3"},
	{"address with port", hosts("- {name: a, address: '10.0.0.1:22', role: control-plane}"), `4:22: hosts[0].address must not contain a port, set ssh.port, got "10.0.0.1:22"`},
	{"address in brackets", hosts("- {name: a, address: '[::1]', role: control-plane}"), `4:22: hosts[0].address must be an IPv6 address without brackets, got "[::1]"`},
	{"address out of range", hosts("- {name: a, address: 10.0.0.300, role: control-plane}"), `4:22: hosts[0].address must be an IP address or a DNS name, got "10.0.0.300"`},
	{"address with user", hosts("- {name: a, address: ops@a, role: control-plane}"), `4:22: hosts[0].address must be an IP address or a DNS name, got "ops@a"`},
	{"port", hosts("- {name: a, address: a, role: control-plane, ssh: {port: 70000}}"), "4:58: hosts[0].ssh.port must be at most 65535, got 70000"},
	{"no user and nobody to say it", "artifacts: a\nssh: {config: none}\nhosts:\n- {name: a, address: a, role: control-plane}\n",
		"4:3: hosts[0].ssh.user is missing: with ssh.config none, set it here, or for all hosts under ssh at the top"},

	{"unknown key of ssh", ssh("certficate: a"), "2:7: ssh.certficate is not a known key, did you mean certificate?"},
	{"key of OpenSSH", ssh("identityFile: a"), "2:7: ssh.identityFile is not a known key; known here: user, port, key, certificate, knownHosts, acceptNewHostKeys, config, jump, sudo, sudoPasswordFile, tunnel"},
	{"in the field's spelling", ssh("accept-new-host-keys: true"), "2:7: ssh.accept-new-host-keys is not a known key, did you mean acceptNewHostKeys?"},
	{"certificate", ssh("certificate: [a]"), "2:20: ssh.certificate must be text, got a list"},
	{"accept-new in words", ssh("acceptNewHostKeys: ask"), `2:26: ssh.acceptNewHostKeys must be true or false, got the text "ask"`},
	{"false for no config", ssh("config: false"), "2:15: ssh.config must be text, got false; put it in quotes if it is meant as text"},
	{"tunnel", ssh("tunnel: relais"), `2:15: ssh.tunnel must be forward or relay, got "relais"`},
	{"password in the file", ssh("sudoPassword: secret"), "2:7: ssh.sudoPassword is not a known key; known here: user, port, key, certificate, knownHosts, acceptNewHostKeys, config, jump, sudo, sudoPasswordFile, tunnel"},
	{"password for nothing", ssh("sudo: false, sudoPasswordFile: p"), "2:6: ssh.sudoPasswordFile has no use with sudo: false"},
	{"jump as text", ssh("jump: ops@bastion"), `2:13: ssh.jump must be a list, got the text "ops@bastion"; write [ops@bastion]`},
	{"jump as number", ssh("jump: 3"), "2:13: ssh.jump must be a list, got the number 3"},
	{"hop by keys", ssh("jump: [{host: a}]"), "2:14: ssh.jump[0] must be text, got keys with values"},
	{"no hop", ssh("jump: ['']"), "2:14: ssh.jump[0] must not be empty"},
	{"hop without host", ssh("jump: ['ops@']"), hop("ops@", "")},
	{"hop without user", ssh("jump: ['@a']"), hop("@a", `: the user must be letters, digits, dots, dashes and underscores, got ""`)},
	{"hop as a URL", ssh("jump: ['ssh://a']"), hop("ssh://a", ": the port must be a number from 1 to 65535")},
	{"hop with a bare IPv6 address", ssh("jump: ['2001:db8::1']"), hop("2001:db8::1", "")},
	{"hop with an open bracket", ssh("jump: ['[2001:db8::1']"), hop("[2001:db8::1", "")},
	{"hop with text after the bracket", ssh("jump: ['[2001:db8::1]22']"), hop("[2001:db8::1]22", "")},
	{"hop with no IPv6 in brackets", ssh("jump: ['[a b]']"), hop("[a b]", "")},
	{"hop with an empty port", ssh("jump: ['a:']"), hop("a:", ": the port must be a number from 1 to 65535")},
	{"hop with port 0", ssh("jump: ['a:0']"), hop("a:0", ": the port must be a number from 1 to 65535")},
	{"hop with a port too high", ssh("jump: ['[::1]:65536']"), hop("[::1]:65536", ": the port must be a number from 1 to 65535")},
	{"hops in one text", ssh("jump: ['a,b']"), hop("a,b", "")},
	{"second hop of a host", hosts("- {name: a, address: a, role: control-plane, ssh: {jump: [a, 'b c']}}"),
		`4:62: hosts[0].ssh.jump[1] must be [user@]host[:port], with an IPv6 address in brackets, got "b c"`},
	{"kubeconfig", minimal + "kubeconfig: {}\n", "5:13: kubeconfig must be text, got keys with values"},
	{"kubeconfig, misspelt", minimal + "kubeConfig: a\n", "5:1: kubeConfig is not a known key, did you mean kubeconfig?"},

	{"duplicate address by its default port", hosts("- {name: a, address: a, role: control-plane}", "- {name: b, address: A., role: worker, ssh: {port: 22}}"),
		"5:3: hosts[1].address A. is already the address of a at c.yaml:4:3"},
	{"duplicate address behind one bastion", hosts("- {name: a, address: a, role: control-plane, ssh: {jump: ['x']}}", "- {name: b, address: a, role: worker, ssh: {jump: ['ops@X:22']}}"),
		"5:3: hosts[1].address a is already the address of a at c.yaml:4:3"},
}

// hosts is a cluster file with these hosts, the first of them on line 4.
func hosts(lines ...string) string {
	return "artifacts: a\nssh: {user: ops}\nhosts:\n" + strings.Join(lines, "\n") + "\n"
}

// ssh is a cluster file with this for all hosts.
func ssh(text string) string {
	return "artifacts: a\nssh: {" + text + "}\nhosts:\n- {name: a, address: a, role: control-plane}\n"
}

// hop is what is said of a wrong hop, the first of ssh.
func hop(text, why string) string {
	return fmt.Sprintf("2:14: ssh.jump[0] must be [user@]host[:port], with an IPv6 address in brackets, got %q%s", text, why)
}

func TestBadFiles(t *testing.T) {
	for _, tt := range bad {
		t.Run(tt.name, func(t *testing.T) {
			c, err := config.Parse("c.yaml", []byte(tt.file), "/srv")
			if _, ok := errors.AsType[*config.Errors](err); !ok || c != nil {
				t.Fatalf("Parse gives %v, %v, want no cluster and an *Errors", c, err)
			}
			want := strings.Split(tt.want, "\n")
			for i, line := range want {
				separator := ":"
				if strings.HasPrefix(line, "is empty") {
					separator = ": "
				}
				want[i] = "c.yaml" + separator + line
			}
			if d := cmp.Diff(want, strings.Split(err.Error(), "\n")); d != "" {
				t.Errorf("errors (-want +got):\n%s", d)
			}
		})
	}
}

func TestAllMistakesAtOnceInTheOrderOfTheFile(t *testing.T) {
	_, err := config.Parse("c.yaml", []byte(`hosts:
  - {name: a, adress: a, role: boss}
worker: 2
workers: {batch: 0}
target: 1.36
`), "/srv")
	list, ok := errors.AsType[*config.Errors](err)
	if !ok {
		t.Fatalf("error is %v, want an *Errors", err)
	}
	var lines []int
	for _, e := range list.List {
		lines = append(lines, e.At.Line)
	}
	// artifacts is missing; address is missing, adress is unknown, boss is no role; and one for each line after that.
	if d := cmp.Diff([]int{1, 2, 2, 2, 3, 4, 5}, lines); d != "" {
		t.Errorf("lines (-want +got):\n%s\n%v", d, err)
	}
}

func TestOneAddressOfTwoHosts(t *testing.T) {
	for name, file := range map[string]string{
		"two ports": hosts(
			"- {name: a, address: 127.0.0.1, role: control-plane, ssh: {port: 2201}}",
			"- {name: b, address: 127.0.0.1, role: worker, ssh: {port: 2202}}"),
		"two private networks": hosts(
			"- {name: a, address: 10.0.0.1, role: control-plane, ssh: {jump: [berlin]}}",
			"- {name: b, address: 10.0.0.1, role: worker, ssh: {jump: [paris]}}",
			"- {name: c, address: 10.0.0.1, role: worker}"),
	} {
		if _, err := config.Parse("c.yaml", []byte(file), "/srv"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWithoutAHomeDirectory(t *testing.T) {
	t.Setenv("HOME", "")
	_, err := config.Parse("c.yaml", []byte("data: ~/x\n"+minimal), "/srv")
	want := "c.yaml:1:7: data starts with ~, but the home directory is not known: HOME is not set"
	if err == nil || err.Error() != want {
		t.Errorf("error is\n%v\nwant\n%s", err, want)
	}
}

// FuzzParse holds that no file crashes the reader and that every complaint has a place in it.
func FuzzParse(f *testing.F) {
	f.Add(minimal)
	for _, tt := range bad {
		f.Add(tt.file)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := config.Parse("c.yaml", []byte(text), "/srv")
		if (c == nil) == (err == nil) {
			t.Fatalf("Parse gives %v and %v, want one of them", c, err)
		}
		list, ok := errors.AsType[*config.Errors](err)
		if err != nil && (!ok || len(list.List) == 0) {
			t.Fatalf("error is %#v, want an *Errors that is not empty", err)
		}
	})
}
