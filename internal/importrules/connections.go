package importrules

// Inside are directories of programs that run inside machines, and connect from there.
var Inside = []string{"internal/guest"}

// Reasons of Connections that several places have.
const (
	command    = "a command of the operator, which asks the daemon or the endpoint of the operator's environment"
	inProcess  = "a handler of this process, without the network"
	machineNet = "from a network namespace that has no way to this host"
)

// Connections are the places of the daemon and its commands that connect to something by themselves, each with the
// reason why no user of the AWS APIs or of a cluster leads it to this host or its neighbors. All others use package
// outbound.
var Connections = map[string]string{
	"internal/outbound/client.go Client":      "it is the way to addresses that users chose",
	"internal/outbound/client.go Transport":   "it is the way to addresses that users chose, and to the operator's proxy",
	"internal/outbound/proxy.go through":      "the operator's proxy",
	"internal/outbound/outbound.go newDialer": "it is the way to addresses that users chose",
	"internal/handshake/handshake.go Client":  "on a connection that it is given",

	"internal/admin/client.go Client":    "a unix socket in the data directory",
	"internal/admin/client.go NewClient": "a unix socket in the data directory",
	"cmd/coracle/client.go clientConfig": command,
	"cmd/coracle/up.go checkHealth":      command,

	"internal/controller/capability/ready.go checkReady": "a loopback address, at which a program was told to listen",
	"internal/daemon/capabilities.go capabilityToken":    "it signs, and sends nothing",

	"internal/daemon/api.go clientConfig": inProcess,
	"internal/daemon/issuers.go askIssuer": "the other daemons of root on this host, at the addresses that they gave " +
		"the names of issuers in /etc/hosts",
	"internal/host/image/transport.go storeIn":    inProcess,
	"internal/host/image/transport.go putIndexed": inProcess,
	"internal/host/image/transport.go loadImage":  inProcess,
	"internal/host/image/public.go pullImage":     "it is given the transport of package outbound",

	"internal/forward/upstream.go newTransport": "endpoints that the operator named; nothing in a request chooses another",

	"internal/nodeimage/mirror.go tryGet": "a mirror of Debian, which the operator chooses; what it answers is " +
		"compared with checksums",

	// Nobody else makes clients of API servers: theirs bound what a program that a cluster's administrator runs may
	// answer.
	"internal/kube/client/http.go HTTP": "an API server of this daemon, at the address that the daemon " +
		"gave it; redirects are not followed",
	"internal/kube/clusterproxy/clusterproxy.go newTransport": "an API server of this daemon, at the address that the " +
		"daemon gave it",
	"internal/kube/extensionmetrics/serve.go newTransport": "components of the same control plane, at the addresses " +
		"that the daemon gave them",
	"internal/host/simulated/endpoint.go connectOut": "the daemon's own webhooks, by the exact address",
	"internal/etcd/embedded.go dialEtcd":             "the embedded etcd, or the one that the operator named",

	"internal/host/balancer/health.go probe": "a target of a load balancer, from its own namespace, which has no way " +
		"to this host",
	"internal/host/application/group.go newTransport": "it is given connectFrom",
	"internal/host/endpoint/balancer.go serveHTTP":    "it is given connectFrom",
	"internal/host/endpoint/socket_linux.go connectFrom": "a target of a load balancer, from its own namespace, which " +
		"has no way to this host",
	"internal/host/endpoint/process.go notify": "the unix socket of the endpoint process",
	"internal/host/endpoint/egress.go connect": "names of what is then reached from the namespace of a cluster, " +
		"or of the internet",
	"internal/host/endpoint/egress.go resolverIn": machineNet,
	"internal/host/endpoint/forward.go dialer": "an API server of this daemon; for egress, from a namespace that " +
		"has no way to this host",
	"internal/host/endpoint/upstream.go forwardQuery": "the resolvers of this host's resolv.conf",
	"internal/host/endpoint/upstream.go probe":        "the resolvers of this host's resolv.conf",
	"internal/host/loopdevice/udev.go isRunning":      "the unix socket of the host's udev",
	"internal/host/machine/disks/client.go Connect":   "the unix socket of a machine's launcher, in the data directory",
	"internal/host/machine/nfs/dial.go connect": "from the network namespace of a machine's program, which gets nothing " +
		"of the answer but an error",
	"internal/host/network/namespace.go Dial": machineNet,
}
