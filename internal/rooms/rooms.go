// Package rooms says who may import whom, and its test enforces it.
//
// ARCHITECTURE.md tells why. The table is about the imports that a package itself makes (not
// those of its tests): what it may not reach directly it cannot reach through a neighbour
// either, because the neighbour is in the table as well.
package rooms

import "strings"

// Module is the path of this module.
const Module = "github.com/coracle-eks/coracle/"

// Rule is what the packages of a room may import.
type Rule struct {
	// Room is a directory with all below it.
	Room string
	// Ours are the rooms of this module that it may import, beside itself.
	Ours []string
	// Never are packages, with all below them, that it must not import, whatever Ours says.
	Never []string
	// Why is the reason, for whoever the test stops.
	Why string
}

// world is how a program reaches beyond the store: processes, the network's insides, Kubernetes.
var world = []string{"os/exec", "k8s.io/client-go", "github.com/vishvananda/netlink", "golang.org/x/sys"}

// Rules is the table. The longest Room that fits a package is its room.
var Rules = []Rule{
	{"internal/outbound", nil, world,
		"connections to addresses that users chose; it knows none of them"},
	{"internal/store", nil, append([]string{"github.com/aws"}, world...),
		"the store keeps facts and knows none of them"},
	{"internal/record", []string{"internal/store"}, world,
		"rows are facts, without behaviour"},
	{"internal/metrics", nil, append([]string{"github.com/aws"}, world...), "a registry; who measures declares"},
	{"internal/reconcile", []string{"internal/metrics", "internal/store"}, []string{"os/exec", "github.com/aws"},
		"the controller runtime knows no controller"},

	{"internal/aws/wire", []string{"internal/metrics", "internal/region"}, world,
		"wire serves protocols and knows no service"},
	{"internal/aws/wire/modelgen", []string{"internal/aws/wire"}, []string{"k8s.io"},
		"a generator, not part of the program"},
	{"internal/aws", []string{"internal/aws/wire", "internal/logs/events", "internal/logs/insights", "internal/logs/pattern", "internal/record", "internal/store", "internal/instancetype", "internal/ami", "internal/region", "internal/host/image", "internal/catalogue", "kubernetes", "internal/outbound"}, world,
		"the front validates, authorises and records; it never reaches the world"},

	{"internal/logs/word", nil, world, "it cuts text"},
	{"internal/logs/events", []string{"internal/durable", "internal/logs/word"}, []string{"os/exec", "github.com/aws", "k8s.io", "github.com/vishvananda/netlink"},
		"a second store, for what is too much for etcd; it knows groups and streams by number"},
	{"internal/logs/insights", []string{"internal/logs/word"}, append([]string{"github.com/aws"}, world...), "a language, pure"},
	{"internal/logs/pattern", []string{"internal/logs/word"}, append([]string{"github.com/aws"}, world...), "a language, pure"},
	{"internal/logs/query", []string{"internal/crash", "internal/durable", "internal/logs", "internal/record", "internal/reconcile", "internal/store"}, world, "a controller over the two stores"},
	{"internal/logs/lifecycle", []string{"internal/logs/events", "internal/record", "internal/reconcile", "internal/store"}, world, "a controller over the two stores"},
	{"internal/aws/ec2/lifecycle", []string{"internal/aws/ec2", "internal/record", "internal/reconcile", "internal/store"}, world, "a controller over the store alone; EC2 writes its own rows"},
	{"internal/aws/autoscaling/group", []string{"internal/crash", "internal/instancetype", "internal/record", "internal/reconcile", "internal/store"}, world, "a controller that is a client of EC2, through the SDK"},
	{"internal/instancetype", nil, world, "public data"},
	{"internal/document", nil, append([]string{"github.com/aws"}, world...), "it measures texts: pure"},
	{"internal/ami", []string{"kubernetes"}, world, "public data"},
	{"internal/region", nil, world, "public data"},
	{"internal/catalogue", []string{"internal/document", "internal/record", "kubernetes", "node"}, world, "public data, and the user's own beside it"},
	{"internal/host", []string{"internal/ami", "internal/catalogue", "internal/cluster/bundle", "internal/connlimit", "internal/crash", "internal/document", "internal/durable", "internal/filelock", "internal/guest/cloudinit", "internal/guest/rootfs", "internal/instancetype", "internal/kube/client", "internal/outbound", "internal/pki", "internal/port", "internal/process", "internal/reconcile",
		"internal/record", "internal/store", "kubernetes", "node"}, nil, "what stands in for Amazon's hardware; it is told what is wanted by the store"},
	{"internal/guest", []string{"internal/ami", "internal/document", "internal/durable", "internal/instancetype"}, nil, "what runs inside a machine: it knows its metadata and user data, and nothing of the daemon"},
	{"internal/host/usernamespace", nil, []string{"github.com/aws", "k8s.io", "os/exec"}, "it knows the kernel, and no machine"},
	{"cmd/node", []string{"internal/descriptor", "internal/guest", "internal/host/machine/launch"}, nil, "wiring of what runs on a machine"},
	{"internal/kube/client", []string{"internal/outbound"}, []string{"github.com/aws", "os/exec"}, "clients of API servers, whosever"},
	{"internal/kube/managedfields", nil, append([]string{"github.com/aws"}, world...), "it decodes managed fields: pure"},
	{"internal/audit", []string{"internal/kube/managedfields", "internal/logs/insights"}, []string{"os/exec", "k8s.io/client-go", "github.com/vishvananda/netlink"}, "a client of CloudWatch Logs, like everybody's"},

	{"internal/cluster", []string{"internal/store", "internal/record", "internal/reconcile", "internal/process", "internal/etcd", "internal/kube", "internal/logs/events",
		"internal/pki", "internal/port", "internal/crash", "internal/document", "internal/durable", "internal/aws/eks/accesspolicy", "internal/instancetype", "internal/ami", "internal/host/image", "internal/catalogue", "kubernetes", "internal/outbound", "internal/filelock", "internal/environment"}, nil,
		"controllers talk to AWS services as clients do, through the SDK"},

	{"internal/process", []string{"internal/crash"}, []string{"github.com/aws"}, "it runs programs, whichever"},
	{"internal/crash", nil, nil, "every room may be crashed"},
	{"internal/environment", nil, world, "it chooses names"},
	{"internal/descriptor", nil, []string{"os/exec", "github.com/aws", "k8s.io"}, "it marks file descriptors"},
	{"internal/durable", nil, []string{"os/exec", "github.com/aws", "k8s.io"}, "it replaces files, whosever"},
	{"internal/filelock", nil, []string{"os/exec", "github.com/aws", "k8s.io"}, "it locks a file, whosever"},
	{"internal/etcd", []string{"internal/durable", "internal/pki", "internal/port"}, []string{"github.com/aws", "k8s.io"}, "it runs etcd, whatever is in it"},
	{"internal/pki", []string{"internal/durable"}, []string{"github.com/aws", "k8s.io"}, "it makes certificates, whosever"},
	{"internal/port", nil, world, "it chooses a number"},
	{"internal/connlimit", nil, world, "it counts connections"},
	{"internal/datadir", []string{"internal/durable"}, []string{"os/exec", "github.com/aws", "k8s.io"}, "it names files"},
	{"internal/fields", []string{"internal/kube/managedfields"}, world, "it reads managed fields and prints them: pure"},
	{"internal/admin", []string{"internal/fields"}, world, "the commands' wire: both of its ends are elsewhere"},
	{"internal/backup", []string{"internal/datadir", "internal/etcd"}, world, "it packs files and a snapshot"},
	{"internal/doctor", []string{"internal/admin", "internal/cluster/bundle", "internal/datadir", "internal/host/program", "internal/host/usernamespace", "internal/process"}, []string{"github.com/aws", "k8s.io"},
		"it looks at the host and changes nothing"},
	{"internal/version", nil, world, "it is one string"},
	{"internal/rooms", nil, nil, "this table"},
	{"internal/eventually", nil, world, "it waits, in tests"},
	{"internal/store/storetest", []string{"internal/eventually", "internal/store"}, world, "part of tests"},
	{"internal/cluster/apiservertest", []string{"internal/eventually", "internal/port", "internal/record", "internal/store/storetest", "kubernetes"}, nil, "part of tests"},

	{"internal/daemon", []string{"internal", "kubernetes"}, []string{Module + "internal/eventually"},
		"the one place that knows the AWS services and the cluster controllers at once"},
	{"cmd/coracle", []string{"internal/admin", "internal/audit", "internal/cluster/bundle", "internal/crash", "internal/daemon", "internal/datadir", "internal/descriptor", "internal/etcd", "internal/fields", "internal/host/endpoint", "internal/host/program", "internal/version", "kubernetes"}, world,
		"flags and wiring only"},

	{"kubernetes", nil, append([]string{"k8s.io"}, world...),
		"it lists versions; the programs themselves are modules of their own"},
	{"node", nil, append([]string{"k8s.io"}, world...),
		"it lists programs; they are a module of their own"},
	{"test", []string{"internal", "test", "kubernetes", "node"}, nil, "tests use what they test"},
}

// Of is the rule for a package, given by its directory; false when it is in no room.
func Of(dir string) (rule Rule, found bool) {
	for _, r := range Rules {
		if within(dir, r.Room) && len(r.Room) >= len(rule.Room) {
			rule, found = r, true
		}
	}
	return rule, found
}

// Allows reports whether a package of the room may import path.
func (r Rule) Allows(path string) bool {
	for _, never := range r.Never {
		if within(path, never) {
			return false
		}
	}
	if dir, ours := strings.CutPrefix(path, Module); ours {
		if within(dir, r.Room) {
			return true
		}
		for _, room := range r.Ours {
			if within(dir, room) {
				return true
			}
		}
		return false
	}
	return true
}

func within(path, room string) bool {
	return path == room || strings.HasPrefix(path, room+"/")
}
