package process

import (
	"testing"
	"time"
)

func TestParseCPUTime(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		stat string
		want time.Duration
		ok   bool
	}{
		{"42 (etcd) S 1 42 42 0 -1 4194560 100 0 5 0 250 50 3 4 20 0 9 0 100 1000 10", 3 * time.Second, true},
		{"42 (a) b (c) R) S 1 42 42 0 -1 4194560 100 0 5 0 1 1 0 0 20 0 9 0 100 1000 10", 20 * time.Millisecond, true},
		{"42 (etcd) S 1", 0, false},
		{"42 (etcd) S 1 42 42 0 -1 4194560 100 0 5 0 x 50 3 4", 0, false},
		{"", 0, false},
	} {
		got, ok := parseCPUTime([]byte(test.stat))
		if ok != test.ok || ok && got != test.want {
			t.Errorf("%q: got %v %v, want %v %v", test.stat, got, ok, test.want, test.ok)
		}
	}
}
