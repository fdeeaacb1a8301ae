//go:build linux

package machine

import (
	"strings"
	"testing"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/guest/rootfs/boot"
	"github.com/coracle-eks/coracle/internal/host/machine/launch"
	"github.com/coracle-eks/coracle/internal/process"
	"github.com/coracle-eks/coracle/internal/record"
)

// What a machine says of its boot is up to its root: little of it is kept, and not often.
func TestReportsOfMachinesAreBounded(t *testing.T) {
	t.Parallel()
	units := make([]string, 1000)
	for i := range units {
		units[i] = strings.Repeat("ü", 30) + ".service"
	}
	m := evaluateStatus(record.Machine{}, launch.Status{State: launch.Running}, process.Status{},
		boot.Report{Network: true, UserData: boot.Failed, Failure: "exit status 1", FailedUnits: units})
	if n := len(m.UserData); n > maxReport+4 || n < maxReport-4 || !strings.HasSuffix(m.UserData, " ...") ||
		!strings.HasPrefix(m.UserData, "failed: exit status 1; units that did not start: ü") {
		t.Errorf("%d bytes are kept: %.80s", n, m.UserData)
	}
	m = evaluateStatus(record.Machine{}, launch.Status{State: launch.Running}, process.Status{}, boot.Report{Network: true,
		FailingUnits: []boot.FailingUnit{{Name: "kubelet.service", Error: "no such flag"},
			{Name: "b.service", Error: strings.Repeat("x", 2*maxReport)}}})
	if n := len(m.Failing); n > maxReport+4 || m.FailingSince.IsZero() || m.InstanceStatus != ec2types.SummaryStatusOk ||
		!strings.HasPrefix(m.Failing, "kubelet.service fails again and again: no such flag; b.service fails") {
		t.Errorf("%d bytes are kept: %.80s", n, m.Failing)
	}
	m = evaluateStatus(m, launch.Status{State: launch.Running}, process.Status{}, boot.Report{Network: true})
	if m.Failing != "" || !m.FailingSince.IsZero() {
		t.Errorf("it has recovered, and is failing since %s: %s", m.FailingSince, m.Failing)
	}
	c := &Controller{}
	written := 0
	for range 1000 {
		if c.mayWrite("i-1") {
			written++
		}
	}
	if written < writesAtOnce || written > writesAtOnce+10 || !c.mayWrite("i-2") {
		t.Errorf("%d of 1000 changes are written", written)
	}
}
