package networkpolicyagent

import (
	"errors"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"

	"github.com/coracle-eks/coracle/internal/networkpolicy"
	"github.com/coracle-eks/coracle/internal/testenv"
)

// inUserNamespace is set in the environment of a test that runs in a user namespace, as agents do in machines.
const inUserNamespace = "CORACLE_TEST_USER_NAMESPACE"

// TestOneTenantHoldsUpNoOther runs an agent where it may not have larger buffers than the host's. A pod of the node has
// policies of more ports than any transaction of the kernel takes there, and another one rules that the kernel refuses:
// the policies of a third pod are enforced. What is enforced anew replaces all that was.
func TestOneTenantHoldsUpNoOther(t *testing.T) {
	testenv.NeedsRoot(t)
	if os.Getenv(inUserNamespace) == "" {
		again := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		again.Env = append(os.Environ(), inUserNamespace+"=1")
		again.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
			UidMappings: []syscall.SysProcIDMap{{Size: 1}}, GidMappings: []syscall.SysProcIDMap{{Size: 1}}}
		if out, err := again.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	n := newNetwork(t, false, "server-a", "many-a", "refused-a")
	servers := n.listen("server-a", web)
	refs := map[string]podRef{}
	for name := range n.pods {
		refs[name] = podRef{Namespace: testNamespace, Name: name}
	}
	var many networkpolicy.EndpointInfo
	for i := range 30_000 {
		many.Ports = append(many.Ports, port(udp, int32(2*i+1)))
	}
	allow := func(all ...networkpolicy.EndpointInfo) direction {
		return direction{isolated: true, allow: compile(append(all, everywhere(false, always)), false)}
	}
	large := allow()
	for i := range 8 {
		many.CIDR = netip.AddrFrom4([4]byte{10, 1, byte(i), 0}).String() + "/24"
		large.allow = append(large.allow, compile([]networkpolicy.EndpointInfo{many}, false)...)
	}
	malformed := direction{isolated: true, allow: []rule{{addresses: []span{
		{netip.MustParseAddr("2001:db8::"), netip.MustParseAddr("2001:db8::9")}}}}}
	k := &kernel{flows: flowGroup}
	enforce := func(all map[string]policies) error {
		rules := map[podRef]policies{}
		for name, p := range all {
			rules[refs[name]] = p
		}
		return inNamespace(n.node, func() error { return k.replace(design(nodeAddress(false), rules, true)) })
	}
	all := map[string]policies{"server-a": {ingress: allow()}, "many-a": {ingress: large, egress: large},
		"refused-a": {egress: malformed}}
	var refused refusedError
	for range 2 { // the second time, most is there
		if err := enforce(all); !errors.As(err, &refused) || len(refused) != 1 {
			t.Fatalf("the kernel refuses %v: %v", refused, err)
		}
	}
	if !n.isDropped(servers, n.pods["many-a"], podAddress(false, 0), web) {
		t.Error("the policy of another pod is not enforced")
	}
	all["refused-a"] = policies{egress: allow()}
	all["server-a"] = policies{ingress: allow(networkpolicy.EndpointInfo{CIDR: "10.0.0.0/24"})}
	delete(all, "many-a")
	if err := enforce(all); err != nil {
		t.Fatal(err)
	}
	n.arrives(servers, n.pods["many-a"], podAddress(false, 0), web)
	if !n.isDropped(servers, n.pods["refused-a"], podAddress(false, 0), web) {
		t.Error("a policy that was refused is not enforced later")
	}
	before := n.objects()
	k = &kernel{flows: flowGroup} // of an agent that begins
	if err := enforce(all); err != nil {
		t.Fatal(err)
	}
	if after := n.objects(); len(after) != len(before) || len(after) > 20 || slices.Equal(after, before) {
		t.Errorf("the table has %q, and had %q", after, before)
	}
}

// objects returns the names of the chains and sets of the table.
func (n *network) objects() (all []string) {
	n.t.Helper()
	n.at(n.node, func() error {
		conn, err := connect()
		if err != nil {
			return err
		}
		chains, err := conn.ListChains()
		if err != nil {
			return err
		}
		for _, c := range chains {
			all = append(all, c.Name)
			sets, err := conn.GetSets(c.Table)
			if err != nil {
				return err
			}
			for _, s := range sets {
				if !slices.Contains(all, s.Name) {
					all = append(all, s.Name)
				}
			}
		}
		return nil
	})
	slices.Sort(all)
	return all
}
