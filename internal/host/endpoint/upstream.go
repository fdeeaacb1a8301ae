package endpoint

import (
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
)

// upstream are the resolvers of this host.
type upstream struct {
	file string // resolv.conf

	mu      sync.Mutex
	read    time.Time // of the file as it was read last
	servers []string
	down    map[string]time.Time // until when a server that did not answer is not asked again
	alive   map[string]time.Time // when a server answered last

	asking atomic.Int32 // queries under way
}

// maxAsking is how many queries wait for the host's resolvers at a time. Each takes a socket of this process, which
// also serves the endpoints of clusters: further ones fail at once.
const maxAsking = 512

const (
	upstreamTime = 1500 * time.Millisecond // for an answer
	// downTime is how long a server that did not answer is left alone. Meanwhile queries fail at once: on a host
	// without a network every wait would be in vain.
	downTime = 15 * time.Second
)

// forwardQuery passes a query on, and is nil when nobody answers.
func (u *upstream) forwardQuery(query *dns.Msg) *dns.Msg {
	if u.asking.Add(1) > maxAsking {
		u.asking.Add(-1)
		return nil
	}
	defer u.asking.Add(-1)
	for _, server := range u.availableServers() {
		udp := dns.Client{Net: "udp", Timeout: upstreamTime, UDPSize: 4096}
		reply, _, err := udp.Exchange(query, server)
		if err == nil && reply.Truncated {
			tcp := dns.Client{Net: "tcp", Timeout: upstreamTime}
			if whole, _, err := tcp.Exchange(query, server); err == nil {
				reply = whole
			}
		}
		u.recordResult(server, err == nil)
		if err == nil && reply.Rcode != dns.RcodeServerFailure && reply.Rcode != dns.RcodeRefused {
			return reply
		}
	}
	return nil
}

// availableServers are the servers to ask. One that was down is asked by one query alone until it has answered.
func (u *upstream) availableServers() (servers []string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.reloadServers()
	now := time.Now()
	for _, s := range u.servers {
		until, down := u.down[s]
		if down && now.Before(until) {
			continue
		}
		if down {
			u.down[s] = now.Add(downTime)
		}
		servers = append(servers, s)
	}
	return servers
}

func (u *upstream) recordResult(server string, answered bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := time.Now()
	if answered {
		delete(u.down, server)
		u.alive[server] = now
		return
	}
	// One that answers others is not down. Anybody can ask for a name whose own servers are silent.
	if now.Sub(u.alive[server]) > downTime {
		u.down[server] = now.Add(downTime)
	}
}

// reloadServers reads the host's resolv.conf when it has changed, as it does when a laptop changes networks.
func (u *upstream) reloadServers() {
	info, err := os.Stat(u.file)
	if err != nil {
		u.servers = nil
		return
	}
	if info.ModTime().Equal(u.read) {
		return
	}
	u.read, u.servers, u.down, u.alive = info.ModTime(), nil, map[string]time.Time{}, map[string]time.Time{}
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
