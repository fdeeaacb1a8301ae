package machine

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/guest/rootfs/boot"
	"github.com/coracle-eks/coracle/internal/record"
)

// Root in a machine makes whatever it likes of the directory that it has in common with its host. The host is not led
// to other files, does not wait, and goes on with the machine.
func TestTheHostIsNotLedByWhatAMachineWrites(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.plug(one)
	h.launch(one, "m5.large")
	h.until(one, "running", inState(ec2types.InstanceStateNameRunning))
	victim := filepath.Join(h.dir, "victim")
	if err := os.WriteFile(victim, []byte("the host's"), 0o644); err != nil {
		t.Fatal(err)
	}
	h.run(one, `cd /run/coracle && rm -rf * .[a-z]*
		for name in .dhcp.json .boot.json other; do ln -s `+victim+` $name; done
		mkfifo dhcp.json boot.json`)
	domain := func(name string) {
		t.Helper()
		key := record.EC2Key(account, region, "dopt-1")
		_, err := record.DHCPOptionsTable(h.store).Modify(t.Context(), key, func(o *record.DHCPOptions) error {
			o.Options = map[string][]string{"domain-name": {name}}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		lease := filepath.Join(h.dir, "machines", one, "dhcp.json")
		eventually.Nil(t, "the lease has the domain "+name, func() error {
			if data, err := os.ReadFile(lease); err != nil || string(data) != `{"domainName":"`+name+`"}` {
				return fmt.Errorf("it is %s, %v", data, err)
			}
			return nil
		})
	}
	domain("first.example")

	for _, report := range []string{
		"ln -sf " + victim + " boot.json",
		"rm -f boot.json; mkdir -p boot.json/not/empty",
		"rm -rf boot.json; mknod boot.json c 1 5",              // /dev/zero
		"rm -f boot.json; truncate -s 1T boot.json",            // an endless report
		`echo '{"network":true,"userData":"odd"}' > boot.json`, // a state that there is not
		`printf '{"network":true,"userData":"failed","failure":"` + // a text that paints on the user's terminal
			`\\u001b[2Jfake\\u0007"}' > .b; mv .b boot.json`,
	} {
		h.run(one, "cd /run/coracle && "+report)
	}
	h.until(one, "reachable", func(m record.Machine) bool { return m.UserData == boot.Failed+":  [2Jfake " })

	// What is left of it does not keep the machine from another boot, which has the lease of now.
	h.run(one, "cd /run/coracle && rm -f boot.json && mkdir -p boot.json/not/empty && ln -sfn "+h.dir+" away")
	domain("second.example")
	h.change(one, func(i *record.Instance) { i.Boot = 2 })
	h.until(one, "rebooted", func(m record.Machine) bool {
		return m.Boot == 2 && m.State == ec2types.InstanceStateNameRunning
	})
	got := h.run(one, "ls -A /run/coracle; cat "+boot.HostDir+"/"+boot.DHCPFile)
	if got != `{"domainName":"second.example"}` {
		t.Errorf("after a reboot: %s", got)
	}
	if data, err := os.ReadFile(victim); err != nil || string(data) != "the host's" {
		t.Errorf("a file of the host is %q, %v", data, err)
	}
}
