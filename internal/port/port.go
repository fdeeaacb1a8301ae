// Package port chooses TCP ports that stay free while their owner is down.
package port

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports are chosen below what Linux gives to outgoing connections (32768 and up) and below
// Kubernetes' node ports (30000 and up), so that neither takes one while its owner restarts.
const first, last = 20000, 29999

// Free is a loopback port that nobody listens on and that is not in taken.
func Free(taken ...int) (int, error) {
	const attempts = 200
next:
	for range attempts {
		p := first + rand.IntN(last-first+1)
		for _, t := range taken {
			if p == t {
				continue next
			}
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
