package endpoint

import (
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/miekg/dns"
)

// upstream are the resolvers of this host.
type upstream struct {
	file string // resolv.conf

	mu      sync.Mutex
	read    time.Time // of the file as it was read last
	servers []string
	health  map[string]*health // by server

	asking int // queries under way
}

// health is the known health of a server.
type health struct {
	down     bool
	probing  bool
	silences int       // probes in a row that got no answer
	probed   time.Time // when it was asked last
	answered time.Time // when it last answered anybody
}

// maxAsking is the number of queries that wait for the host's resolvers at a time. Each takes a socket of this process,
// which also serves the endpoints of clusters: further queries fail at once.
const maxAsking = 512

const (
	upstreamTime = 1500 * time.Millisecond // for an answer
	// probeInterval is the interval at which a server that is down is probed. Meanwhile queries fail at once: on a host
	// without a network every wait would be in vain.
	probeInterval = time.Second
	// maxSilences is the number of consecutive probes without an answer after which a server is down: a packet may be
	// lost.
	maxSilences = 3
	// unansweredTime is the additional time for which an unanswered query counts: the host's resolver goes on with it,
	// and has a limited number of queries as well.
	unansweredTime = 10 * time.Second
)

// acquire reports whether one who has that many queries under way may ask one more, and counts it for both. They may
// have as many as are free for others: however many VPCs ask for what nobody answers, one more finds a place.
func (u *upstream) acquire(mine *int) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if *mine >= maxAsking-u.asking {
		return false
	}
	*mine++
	u.asking++
	return true
}

func (u *upstream) release(mine *int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	*mine--
	u.asking--
}

// forwardQuery passes a query on, and is nil when nobody answers.
func (u *upstream) forwardQuery(query *dns.Msg) *dns.Msg {
	for _, server := range u.availableServers() {
		udp := dns.Client{Net: "udp", Timeout: upstreamTime, UDPSize: 4096}
		reply, _, err := udp.Exchange(query, server)
		if err != nil {
			u.probe(server)
			continue
		}
		u.recordAnswer(server)
		if reply.Truncated {
			tcp := dns.Client{Net: "tcp", Timeout: upstreamTime}
			if whole, _, err := tcp.Exchange(query, server); err == nil {
				reply = whole
			}
		}
		if reply.Rcode != dns.RcodeServerFailure && reply.Rcode != dns.RcodeRefused {
			return reply
		}
	}
	return nil
}

// availableServers returns the servers to ask: those that are not down.
func (u *upstream) availableServers() (servers []string) {
	u.mu.Lock()
	u.reloadServers()
	var down []string
	for _, s := range u.servers {
		if h := u.health[s]; h != nil && h.down {
			down = append(down, s)
		} else {
			servers = append(servers, s)
		}
	}
	u.mu.Unlock()
	for _, s := range down {
		u.probe(s)
	}
	return servers
}

// probe finds out whether a server is down, by a question of our own: anybody can ask for a name whose own servers are
// silent. It does not wait.
func (u *upstream) probe(server string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	h := u.healthOf(server)
	if h.probing || time.Since(h.probed) < probeInterval {
		return
	}
	h.probing = true
	begun := time.Now()
	go func() {
		client := dns.Client{Net: "udp", Timeout: upstreamTime}
		_, _, err := client.Exchange(new(dns.Msg).SetQuestion(".", dns.TypeNS), server)
		u.mu.Lock()
		defer u.mu.Unlock()
		h.probing, h.probed = false, time.Now()
		if err == nil || h.answered.After(begun) {
			h.silences = 0
		} else {
			h.silences++
		}
		h.down = h.silences >= maxSilences
	}()
}

// recordAnswer records that a server is alive, whatever its answer.
func (u *upstream) recordAnswer(server string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	h := u.healthOf(server)
	h.answered, h.down, h.silences = time.Now(), false, 0
}

// healthOf returns what is known of a server; mu is held.
func (u *upstream) healthOf(server string) *health {
	h := u.health[server]
	if h == nil {
		h = &health{}
		u.health[server] = h
	}
	return h
}

// reloadServers reads the host's resolv.conf when it has changed, as it does when a laptop changes networks.
func (u *upstream) reloadServers() {
	info, err := os.Stat(u.file)
	if err != nil {
		u.read, u.servers = time.Time{}, nil
		return
	}
	if info.ModTime().Equal(u.read) {
		return
	}
	u.read, u.servers, u.health = info.ModTime(), nil, map[string]*health{}
	config, err := dns.ClientConfigFromFile(u.file)
	if err != nil {
		return
	}
	for _, s := range config.Servers {
		if at := net.JoinHostPort(s, config.Port); !slices.Contains(u.servers, at) {
			u.servers = append(u.servers, at)
		}
	}
}
