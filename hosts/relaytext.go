package hosts

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"strconv"
)

// codeNoRelay is the exit status of relayText on a host that has no program for it.
const codeNoRelay = 66

var errNoRelay = errors.New("the host has none of socat, bash with /dev/tcp, python3 and nc to carry the connection: install one, or let sshd forward connections (AllowTcpForwarding yes)")

// relayText runs the first program there is that joins standard input and output to a TCP connection to host "$1",
// port "$2", of the address family "$3" (4, 6 or empty). Each says on standard error that it is connected, before any
// byte flows. "$4" is for bash, "$5" for python3.
const relayText = `
has() { command -v "$1" >/dev/null 2>&1; }
if has socat; then
	case $1 in *:*) at="[$1]" ;; *) at=$1 ;; esac
	exec socat -d -d -b 65536 STDIO "TCP$3:$at:$2"
fi
# Some builds of bash have no /dev/tcp. Nobody listens on port 1; the error tells.
if [ -z "$3" ] && has bash; then
	case $(bash -c 'exec 3<>/dev/tcp/127.0.0.1/1' 2>&1) in
	*"No such file"*) ;;
	*) exec bash -c "$4" bash "$1" "$2" ;;
	esac
fi
if has python3; then exec python3 -c "$5" "$1" "$2" "$3"; fi
if has ncat; then exec ncat -v ${3:+"-$3"} "$1" "$2"; fi
if has nc; then
	case $(nc -h 2>&1) in *"Shutdown the network socket"*) half=-N ;; *) half= ;; esac
	exec nc -v $half ${3:+"-$3"} "$1" "$2"
fi
exit 66`

// saysConnected is what the programs say then: ours, socat, ncat, and the three kinds of nc.
var saysConnected = regexp.MustCompile(`(?m)^connected$|starting data transfer loop|^Ncat: Connected to|succeeded!$|[ )]open$`)

// relayNotes are what the programs write besides the words of their errors: ours, and socat.
var relayNotes = regexp.MustCompile(`(?m)^connected\n|^\S+ \S+ socat\[\d+\] (E |[^E].*\n?)`)

// relayBash ends with our side, or when the peer's bytes have ended and are written. A copy to the peer that breaks
// does not end it: the peer may have answered before it hung up.
const relayBash = `
exec 3<>"/dev/tcp/$1/$2" || exit 1
exec 4<&0
echo connected >&2
cat <&3 3<&- 4<&- &
down=$!
cat <&4 >&3 3<&- 4<&- 2>/dev/null &
up=$!
exec 3<&- 4<&- </dev/null
wait -n || wait $down 2>/dev/null
code=$?
kill $up $down 2>/dev/null
exit $code`

const relayPython = `
import os, socket, sys, threading
family = {'4': socket.AF_INET, '6': socket.AF_INET6}.get(sys.argv[3], 0)
why = 'no address'
try:
    found = socket.getaddrinfo(sys.argv[1], int(sys.argv[2]), family, socket.SOCK_STREAM)
except OSError as e:
    sys.exit('look up %s: %s' % (sys.argv[1], e))
for f, t, p, _, address in found:
    s = socket.socket(f, t, p)
    try:
        s.connect(address)
        break
    except OSError as e:
        why = e
        s.close()
else:
    sys.exit('connect: %s' % why)
sys.stderr.write('connected\n')
sys.stderr.flush()
def up():
    try:
        while True:
            b = os.read(0, 65536)
            if not b:
                os._exit(0)
            s.sendall(b)
    except OSError:
        pass
threading.Thread(target=up, daemon=True).start()
try:
    while True:
        b = s.recv(65536)
        if not b:
            os._exit(0)
        sys.stdout.buffer.write(b)
        sys.stdout.buffer.flush()
except OSError as e:
    sys.exit(str(e))`

// hostName is what a host may be called in an address; a zone of IPv6 as well. socat would read more into a comma.
var hostName = regexp.MustCompile(`^[a-zA-Z0-9_]([a-zA-Z0-9._-]*[a-zA-Z0-9_.])?$`)

// relayArgs checks an address and gives the arguments of relayText.
func relayArgs(network, address string) ([]string, error) {
	family, ok := map[string]string{"tcp": "", "tcp4": "4", "tcp6": "6"}[network]
	if !ok {
		return nil, fmt.Errorf("network %q: only tcp goes through SSH", network)
	}
	host, portText, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil || port == 0 {
		return nil, fmt.Errorf("address %s: %q is not a port", address, portText)
	}
	ip, err := netip.ParseAddr(host)
	switch {
	case err != nil && !hostName.MatchString(host), err == nil && ip.Zone() != "" && !hostName.MatchString(ip.Zone()):
		return nil, fmt.Errorf("address %s: %q is neither an IP address nor a host name", address, host)
	case err == nil && (network == "tcp4" && !ip.Is4() || network == "tcp6" && ip.Is4()):
		return nil, fmt.Errorf("address %s is not one of %s", address, network)
	case err == nil:
		family = "" // the address says it
	}
	return []string{host, strconv.FormatUint(port, 10), family, relayBash, relayPython}, nil
}
