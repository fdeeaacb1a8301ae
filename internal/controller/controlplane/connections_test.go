package controlplane

import (
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/etcd"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store/storetest"
)

// sockets are endpoints of clusters whose API servers reach their VPC.
type sockets struct{ Endpoints }

func (sockets) EgressSocket(string) string        { return "/run/cluster.sock" }
func (sockets) ManagedEgressSocket(string) string { return "/run/managed.sock" }
func (sockets) ServerSocket(int) string           { return "/run/server.sock" }

// TestControlPlanesConnectToTheirPortsAlone: nothing of a control plane may be led elsewhere by what the users of its
// cluster have it answered.
func TestControlPlanesConnectToTheirPortsAlone(t *testing.T) {
	t.Parallel()
	p := plane{cluster: newCluster("held", "1.35"), minor: "1.35", port: 20001, server: 20002, standby: 20003}
	p.network.interfaces = []ec2types.NetworkInterface{{PrivateIpAddress: aws.String("10.0.0.1")}}
	for name, test := range map[string]struct {
		etcd              []string
		endpoints         Endpoints
		aws               string
		server, successor []int
		cloud             []int
	}{
		"the daemon's etcd": {[]string{"https://127.0.0.1:20004"}, sockets{}, "http://127.0.0.1:4566", []int{20002, 20004},
			[]int{20003, 20004}, []int{4566, 20001}},
		"others, by names": {[]string{"https://one.example.com:2379", "https://two.example.com:2379"}, sockets{},
			"http://[::1]:4566", []int{53, 2379, 20002}, []int{53, 2379, 20003}, []int{4566, 20001}},
		"a port that is not known": {[]string{"https://one.example.com"}, sockets{}, "http://coracle", nil, nil, nil},
		"without an egress selector": {[]string{"https://127.0.0.1:20004"}, noSockets{}, "http://127.0.0.1:4566", nil, nil,
			[]int{4566, 20001}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := New(Options{Store: storetest.New(t), Dir: t.TempDir(), Endpoints: test.endpoints,
				Etcd: &etcd.Connection{Endpoints: test.etcd},
				CloudProvider: func(record.Cluster) (CloudProvider, error) {
					return CloudProvider{Endpoint: test.aws}, nil
				}})
			p := p
			var err error
			if p.keys, err = c.ensureKeys(t.Context(), p.cluster); err != nil {
				t.Fatal(err)
			}
			specs, err := c.renderComponents(p)
			if err != nil {
				t.Fatal(err)
			}
			want := map[string][]int{
				kubeControllerManager: {p.port}, kubeScheduler: {p.port}, cloudControllerManager: test.cloud,
			}
			for _, spec := range specs.others {
				component := componentOf(spec.Name)
				if !slices.Equal(spec.ConnectPorts, want[component]) {
					t.Errorf("%s connects to %v, want %v", component, spec.ConnectPorts, want[component])
				}
				delete(want, component)
			}
			if len(want) > 0 {
				t.Errorf("there are no %v", want)
			}
			if !slices.Equal(specs.apiServer.ConnectPorts, test.server) ||
				!slices.Equal(specs.successor.ConnectPorts, test.successor) {
				t.Errorf("the API servers connect to %v and %v, want %v and %v", specs.apiServer.ConnectPorts,
					specs.successor.ConnectPorts, test.server, test.successor)
			}
		})
	}
}
