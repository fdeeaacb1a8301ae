// Package importrules holds the table of allowed imports between packages. Its test enforces the table.
//
// ARCHITECTURE.md tells why. The table is about the imports that a package itself makes (not
// those of its tests): what it may not reach directly it cannot reach through a neighbor
// either, because the neighbor is in the table as well.
package importrules

import "strings"

// Module is the path of this module.
const Module = "github.com/coracle-eks/coracle/"

// Rule has the imports that are allowed to the packages below a directory.
type Rule struct {
	// Dir is the directory, with all below it.
	Dir string
	// Ours are the directories of this module whose packages it may import, beside its own.
	Ours []string
	// Never are packages, with all below them, that it must not import, whatever Ours says.
	Never []string
	// Why is the reason, for whoever the test stops.
	Why string
}

// outside is the list of packages with which a program reaches beyond the store: processes, network configuration,
// Kubernetes.
var outside = []string{"os/exec", "k8s.io/client-go", "github.com/vishvananda/netlink", "golang.org/x/sys"}

// Controllers is the directory of the controllers. They do not import each other: what two of them share is in a
// package that reconciles nothing.
const Controllers = "internal/controller"

// eksShared are the packages below the parts of the EKS API.
var eksShared = []string{"internal/aws/eks/exception", "internal/aws/eks/principal", "internal/aws/eks/resource",
	"internal/aws/wire", "internal/record", "internal/store"}

// eksPart is the reason that no part of the EKS API imports another.
const eksPart = "a part of the EKS API; what it needs of another part it is given at construction, as an interface"

// ec2Shared are the packages below the parts of the EC2 API.
var ec2Shared = []string{"internal/aws/ec2/resource", "internal/aws/wire", "internal/record", "internal/region",
	"internal/store"}

// ec2Part is the reason that a part of the EC2 API imports only the parts below it, which are named in its line.
const ec2Part = "a part of the EC2 API; it imports only parts whose resources its own are made of"

// Rules is the table. The longest Dir that contains a package applies to it.
var Rules = []Rule{
	{"internal/handshake", nil, append([]string{"github.com/aws"}, outside...), "it bounds what is read: pure"},
	{"internal/outbound", []string{"internal/handshake"}, outside,
		"connections to addresses that users chose; it knows none of them"},
	{"internal/store", nil, append([]string{"github.com/aws"}, outside...),
		"the store keeps records and knows none of them"},
	{"internal/record", []string{"internal/amazonaccount", "internal/store"}, outside,
		"records are data, without behavior"},
	{"internal/metrics", nil, append([]string{"github.com/aws"}, outside...), "a registry; who measures declares"},
	{"internal/datapoint", nil, append([]string{"github.com/aws"}, outside...), "data points; it knows no metric"},
	{"internal/sizedcache", nil, append([]string{"github.com/aws"}, outside...), "a cache; it knows no values"},
	{"internal/regexsize", nil, append([]string{"github.com/aws"}, outside...), "it measures expressions: pure"},
	{"internal/fargate/fluentbit", []string{"internal/regexsize"}, append([]string{"github.com/aws"}, outside...),
		"a configuration language, pure"},
	{"internal/fargate/capability", nil, append([]string{"github.com/aws", "k8s.io"}, outside...), "names, pure"},
	{"internal/fargate/fargatenode", nil, append([]string{"github.com/aws", "k8s.io"}, outside...),
		"names and digests, pure"},
	{"internal/recovery", nil, append([]string{"github.com/aws"}, outside...), "goroutines; it knows no work"},
	{"internal/turn", nil, append([]string{"github.com/aws"}, outside...), "places; it knows no work"},
	{"internal/reconcile", []string{"internal/metrics", "internal/recovery", "internal/store"},
		[]string{"os/exec", "github.com/aws"}, "the controller runtime knows no controller"},

	{"internal/aws/wire", []string{"internal/metrics", "internal/region", "internal/store",
		"internal/turn"}, outside,
		"wire serves protocols and knows no service"},
	{"internal/aws/wire/sigv4", []string{"internal/region"}, append([]string{"go.etcd.io"}, outside...),
		"signatures are computed of a request alone"},
	{"internal/aws", []string{"internal/amazonaccount",
		"internal/ami", "internal/catalog", "internal/instancetype", "internal/outbound",
		"internal/record",
		"internal/regexsize", "internal/region", "internal/sizedcache", "internal/store", "kubernetes"}, outside,
		"the API layer validates, authorizes, and records the desired state; it imports no controller and reaches " +
			"nothing else"},
	{"internal/aws/logs", []string{"internal/aws/iam/policy", "internal/aws/wire", "internal/logs", "internal/record",
		"internal/store"}, outside,
		"the API layer of CloudWatch Logs: log events are too large for the store, so it reads and appends them " +
			"where they are"},
	{"internal/aws/cloudtrail", []string{"internal/amazonaccount", "internal/aws/iam/identity", "internal/aws/wire",
		"internal/logs/events", "internal/metrics"}, outside,
		"the API layer of CloudTrail: events are too large for the store, so it writes and reads them where log events are"},
	{"internal/aws/cloudwatch", []string{"internal/aws/wire", "internal/datapoint"}, outside,
		"the API layer of CloudWatch: data points are a write a minute each, so it reads them where they are"},
	{"internal/aws/cloudformation", []string{"internal/aws/wire", "internal/cloudformation", "internal/record",
		"internal/store"}, outside,
		"the API layer of CloudFormation: it checks templates, and records what a stack is to have"},
	{"internal/aws/efs", []string{"internal/aws/ec2/networkinterface", "internal/aws/ec2/resource", "internal/aws/iam",
		"internal/aws/wire", "internal/filesystem", "internal/record", "internal/region", "internal/store"}, outside,
		"the API layer of EFS; mount targets have network interfaces of EC2, and are made with them at once"},
	{"internal/aws/ecr", []string{"internal/aws/iam", "internal/aws/wire", "internal/host/image", "internal/record",
		"internal/region", "internal/store"}, outside,
		"the API layer of the registry: images are too large for the store, so it reads and writes them where they are"},

	{"internal/aws/eks/exception", []string{"internal/aws/wire"}, outside,
		"the errors of the EKS API, which every part returns"},
	{"internal/aws/eks/principal", []string{"internal/aws/eks/exception", "internal/aws/iam/policy",
		"internal/aws/wire",
		"internal/record", "internal/store"}, outside, "the IAM users and roles that requests of the EKS API name"},
	{"internal/aws/eks/resource", []string{"internal/aws/eks/exception", "internal/aws/eks/principal",
		"internal/aws/wire",
		"internal/record", "internal/store"}, outside, "what the parts of the EKS API share is below all of them"},
	{"internal/aws/eks/accesspolicy", nil, append([]string{"github.com/aws"}, outside...),
		"the access policies are data"},
	{"internal/aws/eks/access", append([]string{"internal/aws/eks/accesspolicy"}, eksShared...), outside, eksPart},
	{"internal/aws/eks/addon", append([]string{"internal/catalog"}, eksShared...), outside, eksPart},
	{"internal/aws/eks/capability", append([]string{"internal/aws/eks/accesspolicy"}, eksShared...), outside, eksPart},
	{"internal/aws/eks/cluster", append([]string{"internal/aws/iam/policy", "internal/region", "internal/turn",
		"kubernetes"}, eksShared...), outside, eksPart},
	{"internal/aws/eks/fargate", append([]string{"internal/ami", "internal/fargate"}, eksShared...), outside, eksPart},
	{"internal/aws/eks/nodegroup", append([]string{"internal/ami", "internal/instancetype", "kubernetes"},
		eksShared...), outside,
		eksPart},
	{"internal/aws/eks/podidentity", eksShared, outside, eksPart},
	{"internal/aws/eks/subscription", eksShared, outside, eksPart},
	{"internal/aws/eks/tagging", eksShared, outside, eksPart},
	{"internal/aws/eks/update", eksShared, outside, eksPart},
	{"internal/aws/eksauth", []string{"internal/aws/eks/principal", "internal/aws/eks/resource",
		"internal/aws/iam/identity",
		"internal/aws/iam/policy", "internal/aws/wire", "internal/record", "internal/store"}, outside,
		"the API layer of EKS Auth; who verifies tokens is given to it"},
	{"internal/aws/elb", []string{"internal/aws/ec2/networkinterface", "internal/aws/ec2/resource", "internal/aws/wire",
		"internal/balancing", "internal/record", "internal/regexsize", "internal/store"}, outside,
		"the API layer of load balancers, which have network interfaces of EC2, and are made with them at once"},
	{"internal/balancing", []string{"internal/record", "internal/store"}, outside,
		"where load balancers lead, by the records: the network, the proxy, DNS and the API ask it"},
	{"internal/vpcrule", []string{"internal/record"}, outside,
		"what the rules of VPCs match: pure. The network makes kernel rules of it, and reachability follows packets"},
	{"internal/reachability", []string{"internal/balancing", "internal/record", "internal/store", "internal/vpcrule"},
		outside, "which way a packet would take, by the records"},
	{"internal/aws/apierror", nil, outside, "it reads errors of SDK clients: pure"},
	{"internal/aws/awstest", []string{"internal/aws/wire"}, outside, "what the tests of all services share"},
	{"internal/aws/iam/iamtest", []string{"internal/aws/iam", "internal/aws/sts", "internal/aws/wire", "internal/outbound",
		"internal/store", "test/awsclient"}, outside, "the fixture of the tests of IAM, STS and what they decide for"},
	{"internal/aws/eks/ekstest", append([]string{"internal/aws/awstest", "internal/aws/ec2", "internal/aws/eks",
		"internal/aws/kms", "internal/catalog",
		"internal/store/storetest", "test/awsclient"}, eksShared...), outside, "the fixture of the tests of the EKS API"},

	{"internal/aws/ec2/resource", append([]string{"internal/vpcrule"}, ec2Shared[1:]...), outside, "what the parts of the EC2 API share is below all of them"},
	{"internal/aws/ec2/keypair", ec2Shared, outside, ec2Part},
	{"internal/aws/ec2/volume", append([]string{"internal/instancetype"}, ec2Shared...), outside, ec2Part},
	{"internal/aws/ec2/snapshot", append([]string{"internal/aws/ec2/volume"}, ec2Shared...), outside, ec2Part},
	{"internal/aws/ec2/image", append([]string{"internal/ami"}, ec2Shared...), outside, ec2Part},
	{"internal/aws/ec2/placementgroup", ec2Shared, outside, ec2Part},
	{"internal/aws/ec2/tagging", ec2Shared, outside, ec2Part},
	{"internal/aws/ec2/securitygroup", ec2Shared, outside, ec2Part},
	{"internal/aws/ec2/networkinterface", append([]string{"internal/instancetype"}, ec2Shared...), outside, ec2Part},
	{"internal/aws/ec2/networkinsights", append([]string{"internal/reachability", "internal/vpcrule"}, ec2Shared...),
		outside, ec2Part},
	{"internal/aws/ec2/vpc",
		append([]string{"internal/aws/ec2/networkinterface", "internal/aws/ec2/securitygroup"}, ec2Shared...), outside,
		ec2Part},
	{"internal/aws/ec2/offering", append([]string{"internal/instancetype"}, ec2Shared...), outside, ec2Part},
	{"internal/aws/ec2/launchtemplate",
		append([]string{"internal/aws/ec2/image", "internal/aws/ec2/offering", "internal/ami"}, ec2Shared...), outside,
		ec2Part},
	{"internal/aws/ec2/instance",
		append([]string{"internal/ami", "internal/aws/ec2/image", "internal/aws/ec2/launchtemplate",
			"internal/aws/ec2/networkinterface", "internal/aws/ec2/volume", "internal/fargate/fargatenode",
			"internal/instancetype"}, ec2Shared...),
		outside, ec2Part},
	{"internal/aws/ec2/fleet",
		append([]string{"internal/ami", "internal/aws/ec2/image", "internal/aws/ec2/instance",
			"internal/aws/ec2/launchtemplate", "internal/aws/ec2/offering", "internal/instancetype"}, ec2Shared...),
		outside, ec2Part},
	{"internal/aws/ec2/account", ec2Shared, outside, ec2Part},
	{"internal/aws/ec2/ec2test", append([]string{"internal/aws/awstest", "internal/aws/ec2", "internal/aws/kms",
		"internal/store/storetest", "test/awsclient"}, ec2Shared...), outside, "the fixture of the tests of the EC2 API"},

	{"internal/logs/tokenizer", nil, outside, "it cuts text"},
	{"internal/logs/events", []string{"internal/diskspace", "internal/durable", "internal/logs/tokenizer"},
		[]string{"os/exec", "github.com/aws", "k8s.io", "github.com/vishvananda/netlink"},
		"a second store, for what is too much for etcd; it knows groups and streams by number"},
	{"internal/logs/vended", []string{"internal/diskspace"}, append([]string{"github.com/aws"}, outside...),
		"files between the process that forwards and the daemon; it knows logs by their types"},
	{"internal/logs/insights", []string{"internal/logs/tokenizer", "internal/regexsize"},
		append([]string{"github.com/aws"}, outside...),
		"a language, pure"},
	{"internal/logs/pattern", []string{"internal/logs/tokenizer", "internal/regexsize"},
		append([]string{"github.com/aws"}, outside...),
		"a language, pure"},
	{"internal/cloudformation/template", []string{"internal/cloudformation/schema", "internal/document",
		"internal/regexsize"}, append([]string{"github.com/aws"}, outside...), "a language, pure"},
	{"internal/cloudformation/plan", []string{"internal/cloudformation/schema", "internal/cloudformation/template"},
		append([]string{"github.com/aws"}, outside...), "it compares resources: pure"},
	{"internal/cloudformation/stackpolicy", nil, append([]string{"github.com/aws"}, outside...), "a language, pure"},
	{"internal/cloudformation/revision", []string{"internal/cloudformation/plan", "internal/cloudformation/template",
		"internal/record"}, outside, "records of stacks in the terms of templates: pure"},
	{"internal/cloudformation/lookup", []string{"internal/cloudformation/template"}, outside,
		"what templates refer to: a client of AWS services for the API layer and the controller of stacks"},
	{"internal/cloudformation/schema", nil, append([]string{"github.com/aws"}, outside...), "public data"},
	{"internal/instancetype", nil, outside, "public data"},
	{"internal/document", nil, append([]string{"github.com/aws"}, outside...), "it measures texts: pure"},
	{"internal/amazonaccount", nil, append([]string{"github.com/aws"}, outside...), "public data"},
	{"internal/ami", []string{"internal/amazonaccount", "kubernetes"}, outside, "public data"},
	{"internal/region", nil, outside, "public data"},
	{"internal/filesystem", []string{"internal/record"}, outside,
		"what is asked and granted when a file system is mounted: pure"},
	{"internal/fargate", []string{"internal/record"}, outside, "what Fargate does with pods: pure"},
	{"internal/s3name", nil, append([]string{"github.com/aws"}, outside...), "it reads names: pure"},
	{"internal/forward", []string{"internal/aws/wire", "internal/connlimit", "internal/outbound",
		"internal/s3name"}, outside,
		"it sends requests on to endpoints of the operator's, and knows their services"},
	{"internal/catalog", []string{"internal/amazonaccount",
		"internal/document", "internal/record", "kubernetes", "node"}, outside,
		"public data, and the user's own beside it"},
	{"internal/host", []string{"internal/amazonaccount", "internal/ami", "internal/balancing",
		"internal/catalog", "internal/connlimit", "internal/crash",
		"internal/diskspace", "internal/document", "internal/durable", "internal/filelock", "internal/kube/client",
		"internal/kube/extensionmetrics", "internal/guest/cloudinit", "internal/guest/rootfs", "internal/handshake", "internal/instancetype",
		"internal/logs/vended", "internal/outbound",
		"internal/pki", "internal/freeport", "internal/process", "internal/reconcile",
		"internal/filesystem", "internal/hostmemory",
		"internal/record", "internal/recovery", "internal/regexsize", "internal/s3name",
		"internal/sizedcache", "internal/store", "internal/turn", "internal/vpcrule",
		"internal/upstream",
		"kubernetes", "node"}, nil,
		"what stands in for Amazon's hardware; it is told what is wanted by the store"},
	{"internal/host/machine/machinetest", []string{"internal/filelock", "internal/guest/rootfs", "internal/host",
		"internal/nodeimage",
		"internal/process", "internal/testenv", "internal/upstream"}, nil,
		"part of tests"},
	{"internal/guest", []string{"internal/amazonaccount", "internal/ami", "internal/document", "internal/durable",
		"internal/fargate/capability", "internal/fargate/fargatenode", "internal/fargate/fluentbit",
		"internal/filelock", "internal/instancetype"}, nil,
		"what runs inside a machine: it knows its metadata and user data, and nothing of the daemon"},
	{"internal/guest/csidriver/csidrivertest", []string{"internal/eventually", "internal/guest/csidriver"}, nil,
		"part of tests"},
	{"internal/guest/efsmount", []string{"internal/guest/imds", "internal/host/machine/nfs"},
		[]string{"os/exec", "k8s.io"},
		"mount.efs: it calls mount(2) with the options that the launcher reads"},
	{"internal/guest/fargatemount", []string{"internal/guest/efsmount", "internal/guest/fargate",
		"internal/guest/podvolume", "internal/guest/rootfs/boot"}, []string{"os/exec", "k8s.io"},
		"mount of a Fargate machine: it validates command lines, and becomes mount(8) or mount.efs"},
	{"internal/upstream", []string{"internal/catalog", "internal/durable", "internal/environment",
		"internal/filelock", "internal/nodeimage", "kubernetes", "node"},
		[]string{"github.com/aws", "k8s.io"}, "it finds and builds programs, and runs none of them"},
	{"internal/nodeimage", []string{"internal/durable", "node"}, []string{"github.com/aws", "k8s.io", "os/exec"},
		"it makes an archive of packages, and runs none of them"},
	{"internal/host/trust", []string{"internal/durable", "internal/host/rundir"}, []string{"github.com/aws", "k8s.io"},
		"it knows trust stores, and no daemon"},
	{"internal/host/usernamespace", nil, []string{"github.com/aws", "k8s.io", "os/exec"},
		"it knows the kernel, and no machine"},
	{"internal/networkpolicy", nil, append([]string{"github.com/aws"}, outside...),
		"the objects between the network policy controller and the agents on nodes: pure"},
	{"internal/guest/networkpolicyagent", []string{"internal/durable", "internal/guest/csidriver",
		"internal/guest/imds", "internal/kube/client", "internal/networkpolicy"}, []string{"os/exec"},
		"the network policy agent of a node: it watches the cluster with the bounds of all clients"},
	{"cmd/csi", []string{"internal/guest/csidriver", "internal/guest/ebscsi", "internal/guest/efscsi",
		"internal/guest/efsmount", "internal/guest/networkpolicyagent"}, nil,
		"wiring of what CSI drivers and the network policy agent run"},
	{"cmd/runc", []string{"internal/guest/containertrust"}, []string{"github.com/aws", "k8s.io"},
		"what stands before runc: it starts for each command in a container"},
	{"cmd/node", []string{"internal/descriptor", "internal/guest", "internal/host/machine/launch"}, nil,
		"wiring of what runs on a machine"},
	{"internal/kube/client", []string{"internal/document", "internal/outbound"}, []string{"github.com/aws", "os/exec"},
		"clients of API servers, of any cluster"},
	{"internal/kube/awsauth", []string{"internal/document", "internal/kube/client", "internal/turn"},
		[]string{"github.com/aws", "os/exec"}, "it edits one ConfigMap, for any controller"},
	{"internal/kube/eviction", []string{"internal/kube/client"}, []string{"github.com/aws", "os/exec"},
		"it evicts pods, for any controller"},
	{"internal/kube/managedfields", nil, append([]string{"github.com/aws"}, outside...),
		"it decodes managed fields: pure"},
	{"internal/terminal", nil, outside, "text; it knows no terminal"},
	{"internal/audit", []string{"internal/kube/managedfields", "internal/logs/insights", "internal/terminal"},
		[]string{"os/exec", "k8s.io/client-go", "github.com/vishvananda/netlink"},
		"a client of CloudWatch Logs, like everybody's"},

	{Controllers, []string{"internal/ami", "internal/aws/apierror", "internal/balancing", "internal/catalog",
		"internal/crash", "internal/diskspace", "internal/document", "internal/durable", "internal/fargate/fargatenode",
		"internal/instancetype", "internal/kube", "internal/logs", "internal/networkpolicy", "internal/reconcile",
		"internal/record", "internal/recovery", "internal/store", "internal/turn"},
		[]string{"os/exec", "github.com/vishvananda/netlink"},
		"controllers reconcile the records of the store; they call AWS services as clients do, through the SDK"},
	{"internal/controller/clusterinsight", []string{"internal/catalog", "internal/kube", "internal/reconcile",
		"internal/record", "internal/store", "kubernetes"}, []string{"os/exec", "github.com/vishvananda/netlink"},
		"a controller that also reads the audit log, where the API server writes it"},
	{"internal/controller/capability", []string{"internal/catalog", "internal/durable", "internal/kube/client",
		"internal/process", "internal/reconcile", "internal/record", "internal/store",
		"internal/upstream"}, []string{"os/exec", "github.com/vishvananda/netlink"},
		"a controller that also builds and runs programs: those of EKS capabilities"},
	{"internal/controller/controlplane", []string{"internal/aws/apierror", "internal/crash", "internal/durable",
		"internal/etcd",
		"internal/hostmemory", "internal/kube",
		"internal/pki", "internal/freeport", "internal/process", "internal/reconcile", "internal/record", "internal/recovery",
		"internal/store", "internal/turn",
		"internal/upstream"}, []string{"os/exec", "github.com/vishvananda/netlink"},
		"a controller that also runs processes: the components of control planes"},
	{"internal/controller/clustermetrics", []string{"internal/kube", "internal/metrics", "internal/reconcile",
		"internal/record", "internal/store"}, []string{"github.com/aws", "os/exec", "github.com/vishvananda/netlink"},
		"a controller that writes metrics alone"},
	{"internal/controller/fargate", []string{"internal/aws/apierror", "internal/crash", "internal/fargate",
		"internal/guest/fargate",
		"internal/kube", "internal/reconcile", "internal/record", "internal/recovery", "internal/store"},
		[]string{"os/exec", "github.com/vishvananda/netlink"},
		"a controller that also configures nodes: it writes what their guest reads"},
	{"internal/controller/filesystem", []string{"internal/crash", "internal/datadir", "internal/diskspace",
		"internal/durable", "internal/host/filetree", "internal/reconcile", "internal/record", "internal/store"},
		[]string{"os/exec", "k8s.io/client-go", "github.com/vishvananda/netlink"},
		"a controller that also makes and removes directories: the content of file systems"},
	{"internal/controller/logshipper", []string{"internal/crash", "internal/diskspace", "internal/kube/componentlog",
		"internal/logs/events", "internal/process", "internal/reconcile", "internal/record", "internal/store"},
		[]string{"os/exec", "k8s.io/client-go", "github.com/vishvananda/netlink"},
		"a controller that also reads the output of processes"},
	{"internal/controller/resourceusage", []string{"internal/datapoint", "internal/diskspace", "internal/host/filetree",
		"internal/instancetype", "internal/process", "internal/reconcile", "internal/record", "internal/store"},
		[]string{"os/exec", "k8s.io/client-go", "github.com/vishvananda/netlink"},
		"a controller that also reads the kernel and the data directory, and writes data points alone"},
	{"internal/controller/stack", []string{"internal/cloudformation", "internal/crash", "internal/reconcile",
		"internal/record", "internal/sizedcache", "internal/store", "internal/turn"},
		[]string{"os/exec", "k8s.io/client-go", "github.com/vishvananda/netlink"},
		"the controller of stacks: a client of the services whose resources stacks have"},
	{"internal/controller/stack/resource", nil, outside,
		"handlers of resource types are clients of AWS services, and of nothing else: they keep nothing"},
	{"internal/controller/stack/resource/resourcetest", []string{"internal/aws/awstest", "internal/aws/wire",
		"internal/cloudformation/schema", "internal/controller/stack/resource", "internal/store", "test/awsclient"},
		outside, "what the tests of the handlers of resource types share"},

	{"internal/kube/apiserver", []string{"internal/kube/client", "internal/reconcile", "internal/record",
		"internal/recovery", "internal/store"},
		[]string{"github.com/aws", "os/exec"}, "connections to the API servers of clusters, for any controller"},
	{"internal/console", []string{"internal/originguard", "internal/record", "internal/store"}, outside,
		"the console's files, sign-in, and requests for API servers; who signs, verifies and sends on is given to it"},
	{"internal/kube/clusterproxy", []string{"internal/connlimit", "internal/originguard", "internal/record",
		"internal/store"},
		[]string{"github.com/aws", "os/exec"},
		"it sends requests on to API servers, whoever asks"},
	{"internal/kube/authenticator", []string{"internal/aws/eks/accesspolicy", "internal/document",
		"internal/fargate/fargatenode", "internal/kube", "internal/pki",
		"internal/record", "internal/recovery", "internal/store", "internal/turn"}, []string{"os/exec"},
		"webhooks: they answer API servers from the store, and reconcile nothing"},
	{"internal/kube/kmsplugin", []string{"internal/record", "internal/store"}, []string{"os/exec", "k8s.io/client-go"},
		"it answers API servers by AWS KMS, through the SDK, and reconciles nothing"},
	{"internal/kube/podidentity", []string{"internal/document", "internal/kube/client", "internal/kube/clientcache",
		"internal/record",
		"internal/recovery", "internal/sizedcache", "internal/turn"},
		[]string{"os/exec"}, "an admission webhook: it answers API servers from what they store, and reconciles nothing"},
	{"internal/kube/fargate", []string{"internal/fargate", "internal/record", "internal/store", "internal/turn"}, outside,
		"admission webhooks: they answer API servers from the store, and reconcile nothing"},
	{"internal/kube/vpcresource", []string{"internal/kube/client", "internal/kube/clientcache",
		"internal/kube/securitygrouppolicy", "internal/record", "internal/turn"}, []string{"github.com/aws", "os/exec"},
		"admission webhooks: they answer API servers from what they store, and reconcile nothing"},
	{"internal/kube/clientcache", []string{"internal/kube/client", "internal/record"},
		[]string{"github.com/aws", "os/exec"}, "clients of the API servers of clusters, for any webhook"},
	{"internal/kube/securitygrouppolicy", nil, append([]string{"github.com/aws"}, outside...),
		"which policies select a pod: pure"},
	{"internal/kube/servicerole", []string{"internal/amazonaccount"}, []string{"os/exec"},
		"it makes tokens, and knows no store"},
	{"internal/kube/extensionmetrics", nil, append([]string{"github.com/aws"}, outside...),
		"it answers API servers by the metrics of their control planes, and keeps nothing"},
	{"internal/kube/componentlog", nil, append([]string{"github.com/aws"}, outside...), "it names files"},
	{"internal/kube/nodename", nil, outside, "it names nodes: pure"},

	{"internal/process", []string{"internal/crash"}, []string{"github.com/aws"}, "it runs programs, whichever"},
	{"internal/pid1", nil, []string{"github.com/aws", "k8s.io"}, "it knows the kernel, and one program: itself"},
	{"internal/crash", nil, nil, "any package may have crash points"},
	{"internal/environment", nil, outside, "it chooses names"},
	{"internal/descriptor", nil, []string{"os/exec", "github.com/aws", "k8s.io"}, "it marks file descriptors"},
	{"internal/durable", nil, []string{"os/exec", "github.com/aws", "k8s.io"}, "it replaces files of any component"},
	{"internal/filelock", nil, []string{"os/exec", "github.com/aws", "k8s.io"}, "it locks any file"},
	{"internal/diskspace", nil, []string{"github.com/aws", "k8s.io"}, "it measures disks"},
	{"internal/etcd", []string{"internal/diskspace", "internal/durable", "internal/pki", "internal/freeport"},
		[]string{"github.com/aws", "k8s.io"}, "it runs etcd, whatever is in it"},
	{"internal/pki", []string{"internal/durable"}, []string{"github.com/aws", "os/exec"},
		"it issues certificates for any component"},
	{"internal/freeport", nil, outside, "it chooses a number"},
	{"internal/connlimit", []string{"internal/hostmemory"}, outside, "it counts connections"},
	{"internal/originguard", nil, outside, "it wraps handlers, whatever they answer"},
	{"internal/datadir", []string{"internal/diskspace", "internal/durable"},
		[]string{"os/exec", "github.com/aws", "k8s.io"},
		"it names files"},
	{"internal/fields", []string{"internal/document", "internal/kube/managedfields", "internal/terminal"}, outside,
		"it reads managed fields and prints them: pure"},
	{"internal/admin", []string{"internal/fields", "internal/terminal"}, outside,
		"the commands' wire: both of its ends are elsewhere"},
	{"internal/backup", []string{"internal/datadir", "internal/etcd"}, outside, "it packs files and a snapshot"},
	{"internal/doctor", []string{"internal/admin", "internal/datadir", "internal/diskspace", "internal/host/preflight",
		"internal/host/usernamespace",
		"internal/process",
		"internal/upstream"}, []string{"github.com/aws", "k8s.io"},
		"it looks at the host and changes nothing"},
	{"internal/hostmemory", nil, []string{"os/exec", "github.com/aws", "k8s.io"}, "it asks the kernel one number"},
	{"internal/version", nil, outside, "it is one string"},
	{"internal/importrules", nil, nil, "this table"},
	{"internal/eventually", nil, outside, "it waits, in tests"},
	{"internal/testenv", nil, append([]string{"github.com/aws"}, outside...), "part of tests"},
	{"internal/store/storetest", []string{"internal/eventually", "internal/store"}, outside, "part of tests"},
	{"internal/kube/apiservertest", []string{"internal/eventually", "internal/freeport", "internal/record",
		"internal/store/storetest", "internal/testenv", "kubernetes"}, nil, "part of tests"},

	{"internal/daemon", []string{"internal", "kubernetes"}, []string{Module + "internal/eventually"},
		"the one place that knows the AWS services and the cluster controllers at once"},
	{"internal/inspect", []string{"internal/admin", "internal/aws/eks/principal", "internal/aws/eks/resource",
		"internal/aws/iam/identity", "internal/aws/iam/policy", "internal/catalog", "internal/controller/addon",
		"internal/kube/client",
		"internal/fields", "internal/outbound", "internal/record", "internal/store"}, []string{"os/exec"},
		"it reads objects for coracle fields and coracle identity, and changes none"},
	{"internal/status", []string{"internal/admin", "internal/balancing",
		"internal/connlimit", "internal/datadir", "internal/diskspace",
		"internal/etcd",
		"internal/host/filetree", "internal/host/machine", "internal/hostmemory", "internal/instancetype",
		"internal/logs/events", "internal/metrics",
		"internal/process", "internal/reconcile", "internal/record", "internal/store", "internal/version"},
		[]string{"os/exec", "k8s.io", "github.com/vishvananda/netlink"}, "it reports, and changes nothing"},
	{"internal/demo", []string{"internal/audit", "internal/environment", "internal/host/image", "internal/upstream",
		"kubernetes"},
		[]string{"k8s.io/client-go", "github.com/vishvananda/netlink", "golang.org/x/sys"},
		"it shows what users can do, as they would"},
	{"internal/reset", []string{"internal/datadir", "internal/host", "internal/process"},
		[]string{"os/exec", "github.com/aws", "k8s.io"}, "it removes what may be broken, and needs none of it to work"},
	{"cmd/coracle", []string{"internal/admin", "internal/audit", "internal/aws/wire", "internal/backup",
		"internal/crash", "internal/daemon", "internal/datadir", "internal/demo", "internal/descriptor",
		"internal/doctor", "internal/environment", "internal/etcd", "internal/fields", "internal/host/endpoint",
		"internal/host/machine", "internal/host/trust", "internal/pid1", "internal/process", "internal/reset",
		"internal/upstream", "internal/version",
		"kubernetes"},
		[]string{"k8s.io/client-go", "github.com/vishvananda/netlink", "golang.org/x/sys"},
		"the commands: clients of the daemon and of its data directory"},

	{"coracletest", []string{"internal/kube/authenticator/authenticatortest", "internal/freeport"}, nil,
		"it is part of other people's programs: it runs the coracle program, and imports none of it"},
	{"kubernetes", nil, append([]string{"k8s.io"}, outside...),
		"it lists versions; the programs themselves are modules of their own"},
	{"node", nil, append([]string{"k8s.io"}, outside...),
		"it lists programs; they are a module of their own"},
	{"hack", []string{"internal/aws/wire", "internal/catalog", "internal/durable", "internal/nodeimage",
		"internal/upstream", "kubernetes", "node"}, nil,
		"what builds the project, and is no part of it"},
	{"test", []string{"internal", "test", "kubernetes", "node"}, nil, "tests use what they test"},
}

// Of returns the rule for a package, given by its directory; false when no rule covers it.
func Of(dir string) (rule Rule, found bool) {
	for _, r := range Rules {
		if isWithinPath(dir, r.Dir) && len(r.Dir) >= len(rule.Dir) {
			rule, found = r, true
		}
	}
	return rule, found
}

// Allows reports whether a package to which the rule applies may import path.
func (r Rule) Allows(path string) bool {
	for _, never := range r.Never {
		if isWithinPath(path, never) {
			return false
		}
	}
	if dir, ours := strings.CutPrefix(path, Module); ours {
		if isWithinPath(dir, r.Dir) {
			return true
		}
		for _, allowed := range r.Ours {
			if isWithinPath(dir, allowed) {
				return true
			}
		}
		return false
	}
	return true
}

// ControllerOf returns the name of the controller that a directory belongs to, "" when it belongs to none.
func ControllerOf(dir string) string {
	below, ok := strings.CutPrefix(dir, Controllers+"/")
	if !ok {
		return ""
	}
	name, _, _ := strings.Cut(below, "/")
	return name
}

func isWithinPath(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, dir+"/")
}
