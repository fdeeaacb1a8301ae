//go:build linux

package network

import (
	"testing"

	"github.com/coracle-eks/coracle/internal/record"
)

func TestENIsOfAVPCReachEachOther(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	v := w.newVPC("10.0.0.0/16", "100.64.0.0/16")
	near, far, other := w.newSubnet(v, "10.0.1.0/24"), w.newSubnet(v, "10.0.2.0/24"), w.newSubnet(v, "100.64.1.0/24")
	g := []record.SecurityGroup{w.newGroup(v, everything(true), everything(false))}
	a := w.newENI(near, "", 0, g, "10.0.1.10")
	b := w.newENI(near, "", 0, g, "10.0.1.11", "10.0.1.12")
	c := w.newENI(far, "", 0, g, "10.0.2.10")
	d := w.newENI(other, "", 0, g, "100.64.1.10")
	w.plugged(a, b, c, d)
	for _, e := range []struct{ holder, address string }{
		{instanceOf(b), "10.0.1.11:80"}, {instanceOf(c), "10.0.2.10:80"}, {instanceOf(d), "100.64.1.10:80"},
	} {
		w.serve(e.holder, e.address)
		seen, err := w.call(instanceOf(a), "", e.address)
		if err != nil || seen != "10.0.1.10" {
			t.Errorf("to %s: seen as %q, %v", e.address, seen, err)
		}
	}
}
