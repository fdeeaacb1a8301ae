// Package freeport chooses TCP ports that stay free while their owner is down.
package freeport

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"sync/atomic"
)

// Ports are chosen below what Linux gives to outgoing connections (32768 and up) and below
// Kubernetes' node ports (30000 and up), so that neither takes one while its owner restarts.
const first, last = 20000, 29999

// given counts the ports that this process was given. Processes that choose at the same time begin at different
// ports and get each next one, because a port is free again until its owner listens: random ones met now and then.
var given atomic.Uint32

// Find returns a loopback port that no process listens on and that is not in taken. It returns another one at each
// call.
func Find(taken ...int) (int, error) {
	const attempts, stride = 200, 64
	for range attempts {
		p := first + (os.Getpid()*stride+int(given.Add(1)))%(last-first+1)
		if slices.Contains(taken, p) {
			continue
		}
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(p)))
		if err != nil {
			continue
		}
		if err := l.Close(); err != nil {
			return 0, err
		}
		return p, nil
	}
	return 0, fmt.Errorf("no free port found between %d and %d on 127.0.0.1 in %d attempts; see: ss -ltnp", first, last,
		attempts)
}
