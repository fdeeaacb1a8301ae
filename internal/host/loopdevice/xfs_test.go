//go:build linux

package loopdevice

import (
	"slices"
	"testing"
)

func TestGrowthSteps(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		from, to    uint64
		groupBlocks uint32
		want        []uint64
	}{
		{1000, 5000, 100, []uint64{5000}},
		{1000, 1000, 100, []uint64{1000}},
		{1000, 990, 100, []uint64{990}},
		{1050, 56450, 100, []uint64{26600, 52200, 56450}},
		{1, 2, 0, []uint64{2}},
	} {
		if got := slices.Collect(growthSteps(c.from, c.to, c.groupBlocks)); !slices.Equal(got, c.want) {
			t.Errorf("from %d to %d: %v, want %v", c.from, c.to, got, c.want)
		}
	}
	const groupBlocks = 4096
	at, steps := uint64(25*groupBlocks), 0
	for to := range growthSteps(at, MostXFSGroups*groupBlocks, groupBlocks) {
		if steps++; groupsOf(to, groupBlocks)-groupsOf(at, groupBlocks) > growthGroups {
			t.Fatalf("%d blocks more at once", to-at)
		}
		at = to
	}
	if at != MostXFSGroups*groupBlocks || steps > MostXFSGroups/growthGroups {
		t.Errorf("it has %d blocks in %d steps", at, steps)
	}
}
