package freeport

import (
	"fmt"
	"net"
	"testing"
)

func TestFind(t *testing.T) {
	t.Parallel()
	var taken []int
	for range 200 {
		p, err := Find()
		if err != nil {
			t.Fatal(err)
		}
		if p < first || p > last {
			t.Errorf("port %d is not between %d and %d", p, first, last)
		}
		for _, other := range taken {
			if p == other {
				t.Errorf("port %d was taken", p)
			}
		}
		taken = append(taken, p)
	}
	next := taken[len(taken)-1] + 1
	if p, err := Find(next); err != nil || p == next {
		t.Errorf("the port is %d, %v, want another one than that", p, err)
	}
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", taken[0]))
	if err != nil {
		t.Errorf("a free port cannot be listened on: %v", err)
	} else {
		l.Close()
	}
}
