//go:build linux

package launch

import (
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/time/rate"
)

// Init of a machine may ask for a boot as often as it likes, and the host has work with each. Meanwhile the machine can
// be ended.
func TestRebootsOfAMachineTakeTheirTurn(t *testing.T) {
	t.Parallel()
	m := &machine{spec: Spec{Dir: t.TempDir()}, buttons: make(chan os.Signal, 1),
		boots: rate.NewLimiter(rate.Every(time.Hour), 2)}
	for range 2 {
		if again, err := m.awaitBoot(); err != nil || !again {
			t.Fatalf("the machine may not boot, %v", err)
		}
	}
	m.buttons <- unix.SIGTERM
	if again, err := m.awaitBoot(); err != nil || again {
		t.Errorf("a machine with too many boots boots again at once, %v", err)
	}
	if s, err := ReadStatus(m.spec.Dir); err != nil || s.State != PoweredOff {
		t.Errorf("its status is %+v, %v", s, err)
	}
}
