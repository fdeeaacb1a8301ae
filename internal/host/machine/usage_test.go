//go:build linux

package machine

import (
	"strings"
	"testing"
)

func TestNetworkCounters(t *testing.T) {
	t.Parallel()
	const devices = `Inter-|   Receive                                 |  Transmit
 face |bytes packets errs drop fifo frame compressed multicast|bytes packets errs drop fifo colls carrier compressed
    lo:  900  9 0 0 0 0 0 0  900  9 0 0 0 0 0 0
  eth0: 1000 10 0 0 0 0 0 0 2000 20 0 0 0 0 0 0
  eth1:    5  1 0 0 0 0 0 0    7  2 0 0 0 0 0 0
eni123: 4000 40 0 0 0 0 0 0 4000 40 0 0 0 0 0 0
  ethx: 4000 40 0 0 0 0 0 0 4000 40 0 0 0 0 0 0
  eth2: 1 1
`
	var m Measurement
	m.readNetwork(strings.NewReader(devices))
	if want := (Measurement{Network: true, In: 1005, Out: 2007, PacketsIn: 11, PacketsOut: 22}); m != want {
		t.Errorf("got %+v, want %+v", m, want)
	}
	var none Measurement
	none.readNetwork(strings.NewReader("lo: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0\n"))
	if none.Network {
		t.Error("a machine without network interfaces has counters of them")
	}
}

func TestBlockStat(t *testing.T) {
	t.Parallel()
	got, ok := parseBlockStat("   100      0   2048      5     30      1    512      9      0     14     14\n")
	if want := (DiskActivity{ReadOps: 100, WriteOps: 30, ReadBytes: 1 << 20, WriteBytes: 256 << 10}); !ok || got != want {
		t.Errorf("got %+v %v, want %+v", got, ok, want)
	}
	for _, text := range []string{"", "1 2 3", "a b c d e f g h"} {
		if _, ok := parseBlockStat(text); ok {
			t.Errorf("%q was read", text)
		}
	}
}
