package controlplane

import (
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/hostmemory"
	"github.com/coracle-eks/coracle/internal/kube/authenticator"
	"github.com/coracle-eks/coracle/internal/kube/componentlog"
	"github.com/coracle-eks/coracle/internal/kube/extensionmetrics"
	"github.com/coracle-eks/coracle/internal/process"
	"github.com/coracle-eks/coracle/internal/record"
)

// The components of a control plane, as the bundle's program calls them.
const (
	kubeAPIServer          = "kube-apiserver"
	kubeControllerManager  = "kube-controller-manager"
	kubeScheduler          = "kube-scheduler"
	cloudControllerManager = "aws-cloud-controller-manager"
)

// The controllers' clients may ask this often. Upstream's limit of 20 a second makes the
// controller manager spend four seconds on its service accounts before it does anything else.
const (
	clientQPS   = 300
	clientBurst = 600
)

// plane is the desired state of a control plane.
type plane struct {
	cluster record.Cluster
	minor   string
	program string // the bundle
	port    int    // on 127.0.0.1, for clients; forwarded to server
	server  int    // on which the current API server listens
	standby int    // on which its successor listens; see handover.go
	public  net.IP // the address of its public endpoint; nil where machines have no network
	network network
	keys    keys
	trust   string // the file with the certificate authorities that components trust
	kms     string // the endpoint of its KMS plugin; empty without an encryption config
}

// serverURL returns the URL of the API server for what is on this host.
func (p plane) serverURL() string { return localURL(p.port) }

func localURL(port int) string { return "https://127.0.0.1:" + strconv.Itoa(port) }

// endpoint returns the URL of the API server for users.
func (p plane) endpoint() string {
	if p.public == nil {
		return p.serverURL()
	}
	return "https://" + endpointName(p.cluster)
}

// localIP returns a loopback address of the cluster's own, where its other components have their usual ports. The port
// of the API server is unique on this machine, so the address is too.
func (p plane) localIP() net.IP { return loopback(p.port, 1) }

// loopback returns an address in 127.0.0.0/8 that belongs to a port.
func loopback(port int, n byte) net.IP { return net.IPv4(127, byte(port>>8), byte(port), n).To4() }

// components are the specifications of a control plane's processes.
type components struct {
	apiServer process.Spec
	successor process.Spec // the same at the standby port
	others    []process.Spec
	// configurations are the directories of files that they read.
	configurations []string
}

func (c components) allSpecs() []process.Spec {
	return append([]process.Spec{c.apiServer}, c.others...)
}

// A process is called "<cluster ID>/<component>". API servers have their instance behind it, the beginning of
// the hash of what they run, because two of them run side by side while one takes over.

func (c *Controller) processName(clusterID, component string) string {
	return clusterID + "/" + component
}

func apiServers(clusterID string) string { return clusterID + "/" + kubeAPIServer + "/" }

func instanceOf(process string) string { return process[strings.LastIndexByte(process, '/')+1:] }

func clusterOf(process string) string {
	id, _, _ := strings.Cut(process, "/")
	return id
}

func componentOf(process string) string {
	_, rest, _ := strings.Cut(process, "/")
	component, _, _ := strings.Cut(rest, "/")
	return component
}

// renderComponents writes the configuration files of the components and returns the specifications of their processes.
// The same plane renders the same specifications, in this daemon and in the next.
func (c *Controller) renderComponents(p plane) (components, error) {
	var out components
	write := func(f files) (string, error) {
		dir, err := c.writeConfiguration(p.cluster.ID, f)
		out.configurations = append(out.configurations, dir)
		return dir, err
	}
	trust, err := write(files{"ca.crt": p.keys.trusted.bundle()}) // not all read it again when it changes
	if err != nil {
		return out, err
	}
	p.trust = filepath.Join(trust, "ca.crt")
	apiServer, err := c.apiServerArgs(p, write)
	if err != nil {
		return out, fmt.Errorf("configure %s: %w", kubeAPIServer, err)
	}
	for port, spec := range map[int]*process.Spec{p.server: &out.apiServer, p.standby: &out.successor} {
		*spec = c.baseSpec(p, kubeAPIServer, append(slices.Clone(apiServer), "--secure-port="+strconv.Itoa(port)))
		spec.Env = append(spec.Env, "KUBE_FORWARDED_SOCKET="+c.o.Endpoints.ServerSocket(port))
		if p.provider() != nil && c.o.TrustedCertificates != "" {
			spec.Env = append(spec.Env, "SSL_CERT_FILE="+c.o.TrustedCertificates)
		}
		spec.ConnectPorts = c.apiServerPorts(p, port)
		instance := spec.Hash()[:8]
		spec.Name = apiServers(p.cluster.ID) + instance
		spec.Args = append(spec.Args, "--audit-log-path="+c.clusterDir(p.cluster.ID, "log",
			componentlog.AuditLog(instance)))
	}

	kubeconfigs := files{}
	for component, user := range map[string]struct{ name, certificate string }{
		kubeControllerManager:  {"system:kube-controller-manager", "kube-controller-manager"},
		kubeScheduler:          {"system:kube-scheduler", "kube-scheduler"},
		cloudControllerManager: {userCloudController, "cloud-controller-manager"},
	} {
		if kubeconfigs[component+".kubeconfig"], err = c.kubeconfig(p, user.name, user.certificate); err != nil {
			return out, err
		}
	}
	dir, err := write(kubeconfigs)
	if err != nil {
		return out, err
	}
	kubeconfig := func(component string) string { return filepath.Join(dir, component+".kubeconfig") }

	scheduler, err := schedulerConfiguration(p.cluster, kubeconfig(kubeScheduler))
	if err != nil {
		return out, err
	}
	schedulerDir, err := write(files{"scheduler.yaml": scheduler})
	if err != nil {
		return out, err
	}
	out.others = []process.Spec{
		c.baseSpec(p, kubeControllerManager, c.controllerManagerArgs(p, kubeconfig(kubeControllerManager))),
		c.baseSpec(p, kubeScheduler, append(c.servingFlags(p, 10259),
			"--authorization-kubeconfig="+kubeconfig(kubeScheduler),
			"--config="+filepath.Join(schedulerDir, "scheduler.yaml"),
		)),
	}
	for i := range out.others {
		out.others[i].ConnectPorts = []int{p.port}
	}
	if c.o.CloudProvider == nil {
		return out, nil
	}
	cloud, err := c.o.CloudProvider(p.cluster)
	if err != nil {
		return out, fmt.Errorf("configure %s: %w", cloudControllerManager, err)
	}
	conf, err := write(files{"cloud.conf": cloudConfiguration(p.cluster, cloud.Endpoint)})
	if err != nil {
		return out, err
	}
	spec := c.baseSpec(p, cloudControllerManager, append(c.servingFlags(p, 10258),
		"--kubeconfig="+kubeconfig(cloudControllerManager),
		"--leader-elect=false",
		"--profiling=false",
		"--kube-api-qps="+strconv.Itoa(clientQPS),
		"--kube-api-burst="+strconv.Itoa(clientBurst),
		"--cloud-provider=aws",
		"--cloud-config="+filepath.Join(conf, "cloud.conf"),
		"--cluster-name="+p.cluster.Name,
		"--allocate-node-cidrs=false",
		"--configure-cloud-routes=false",
		// Instances are described in batches that wait a tenth of a second for company: with one node at a time
		// (the default) a hundred that join together would be initialized one after the other.
		"--concurrent-node-syncs=20",
		"--use-service-account-credentials=true",
	))
	spec.ConnectPorts = portsOf(p.port, cloud.Endpoint) // which serves its credentials, too
	spec.Env = append(append(spec.Env, "AWS_EC2_METADATA_DISABLED=true"), cloud.Env...)
	out.others = append(out.others, spec)
	return out, nil
}

// baseSpec returns what all components have in common.
func (c *Controller) baseSpec(p plane, component string, args []string) process.Spec {
	memory := memoryLimit(component, hostmemory.Total())
	spec := process.Spec{
		Name: c.processName(p.cluster.ID, component),
		Path: p.program,
		Args: append([]string{component}, args...),
		Env: []string{
			"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
			"HOME=" + c.clusterDir(p.cluster.ID),
			"TZ=UTC", // in which EKS's components log
			// Hardly collect garbage while the component starts, which takes a tenth of a second off
			// the birth of a cluster; and after ten seconds, later on a busy host, at 25 % of what lives
			// (KUBE_GOGC is our bundles' own): most of an idle control plane's memory is garbage at Go's
			// 100 %. A busy one goes back to that by itself.
			"GOGC=400",
			"KUBE_GOGC=25",
			goMemoryLimit(memory),
		},
		Dir:         c.clusterDir(p.cluster.ID),
		Log:         c.clusterDir(p.cluster.ID, "log", component+".log"),
		LogLimit:    -1, // package logshipper trims it, when it is shipped
		Grace:       15 * time.Second,
		OOMScoreAdj: process.ControlPlaneOOMScoreAdj,
		MemoryLimit: memory,
	}
	return spec
}

// servingFlags returns the flags of the port on which a component other than kube-apiserver serves its health.
func (c *Controller) servingFlags(p plane, port int) []string {
	return []string{
		"--bind-address=" + p.localIP().String(),
		"--secure-port=" + strconv.Itoa(port),
		"--tls-cert-file=" + c.clusterDir(p.cluster.ID, "pki", "health.crt"),
		"--tls-private-key-file=" + c.clusterDir(p.cluster.ID, "pki", "health.key"),
		"--client-ca-file=" + p.trust,
		"--authentication-skip-lookup=true",
		"--v=2",
	}
}

// healthURL returns the URL of the health of a component.
func healthURL(p plane, component string) string {
	return componentURL(p.localIP(), component, "/healthz")
}

// componentURL returns the URL of a path of a component other than kube-apiserver.
func componentURL(ip net.IP, component, path string) string {
	ports := map[string]string{kubeControllerManager: "10257", cloudControllerManager: "10258", kubeScheduler: "10259"}
	return "https://" + net.JoinHostPort(ip.String(), ports[component]) + path
}

// MetricsAPI returns what serves the metrics of a control plane to its API server. dir is that of [Options].
func MetricsAPI(dir string, seen record.ControlPlane) extensionmetrics.Config {
	ip := plane{port: seen.Port}.localIP()
	return extensionmetrics.Config{Dir: filepath.Join(dir, seen.ClusterID, "pki"), Components: map[string]string{
		extensionmetrics.ControllerManager: componentURL(ip, kubeControllerManager, "/metrics"),
		extensionmetrics.Scheduler:         componentURL(ip, kubeScheduler, "/metrics"),
	}}
}

// webhooks returns the cluster's webhooks; none where there are none for any cluster.
func (c *Controller) webhooks(p plane) (hooks Webhooks, err error) {
	if c.o.Webhooks == nil {
		return hooks, nil
	}
	if hooks, err = c.o.Webhooks(p.cluster); err != nil {
		return hooks, fmt.Errorf("the webhooks of cluster %s: %w", p.cluster.Name, err)
	}
	return hooks, nil
}

// writeAPIServerFiles writes the kubeconfigs of the webhooks, and the other configuration of kube-apiserver to dir.
// tokenFlags are the flags of the token webhook; none without one.
func (c *Controller) writeAPIServerFiles(p plane, write func(files) (string, error)) (
	dir string, tokenFlags []string, err error) {
	hooks, err := c.webhooks(p)
	if err != nil {
		return "", nil, err
	}
	hookDir, err := write(files{"authentication.kubeconfig": hooks.Authentication,
		"authorization.kubeconfig": hooks.Authorization, "admission.kubeconfig": hooks.Admission})
	if err != nil {
		return "", nil, err
	}
	authorizationHook := ""
	if len(hooks.Authorization) > 0 {
		authorizationHook = filepath.Join(hookDir, "authorization.kubeconfig")
	}
	configuration := files{"audit.yaml": auditPolicy}
	socket, _ := c.egressSockets(p.cluster.ID)
	if configuration["authentication.yaml"], err = authentication(p, socket != ""); err != nil {
		return "", nil, err
	}
	if configuration["authorization.yaml"], err = authenticator.AuthorizationConfiguration(
		authorizationHook); err != nil {
		return "", nil, err
	}
	if configuration["encryption.yaml"], err = encryption(p.keys.encryption, p.kms); err != nil {
		return "", nil, err
	}
	configuration["admission.yaml"] = admission(hooks, filepath.Join(hookDir, "admission.kubeconfig"))
	if len(hooks.Authentication) > 0 {
		tokenFlags = authenticator.TokenWebhookFlags(filepath.Join(hookDir, "authentication.kubeconfig"))
	}
	dir, err = write(configuration)
	return dir, tokenFlags, err
}

// apiServerArgs returns the command line of kube-apiserver: that of EKS, as far as its log shows it.
func (c *Controller) apiServerArgs(p plane, write func(files) (string, error)) ([]string, error) {
	cluster := p.cluster
	dir, tokenFlags, err := c.writeAPIServerFiles(p, write)
	if err != nil {
		return nil, err
	}
	keyFiles, err := p.keys.serviceAccount.files()
	if err != nil {
		return nil, err
	}
	tokenKeys, err := write(keyFiles) // other keys are another API server, which reads them at its start
	if err != nil {
		return nil, err
	}
	advertise, err := advertiseAddress(p)
	if err != nil {
		return nil, err
	}
	pki := func(name string) string { return c.clusterDir(cluster.ID, "pki", name) }
	issuer := cluster.Issuer()
	args := []string{
		"--admission-control-config-file=" + filepath.Join(dir, "admission.yaml"),
		"--advertise-address=" + advertise,
		"--allow-privileged=true",
		"--api-audiences=https://kubernetes.default.svc",
		"--audit-log-format=json",
		// Files are removed as soon as they are shipped, or not wanted: 500 MiB are for the time of a daemon's absence.
		"--audit-log-maxbackup=10",
		"--audit-log-maxsize=" + strconv.Itoa(componentlog.AuditMaxSize),
		// The longest event of CloudWatch Logs; a longer one loses its request and response, and says so.
		"--audit-log-truncate-enabled=true",
		"--audit-log-truncate-max-event-size=" + strconv.Itoa(componentlog.MaxMessage),
		"--audit-policy-file=" + filepath.Join(dir, "audit.yaml"),
		"--authentication-config=" + filepath.Join(dir, "authentication.yaml"),
		"--authorization-config=" + filepath.Join(dir, "authorization.yaml"),
		"--bind-address=127.0.0.1",
		"--client-ca-file=" + p.trust,
		// The last two are on by themselves (kubernetes/source): an API server without them is not to start.
		"--enable-admission-plugins=NodeRestriction,ExtendedResourceToleration,CoracleBuiltInGroups,CoracleOwnNames",
		"--enable-aggregator-routing=true",
		"--encryption-provider-config=" + filepath.Join(dir, "encryption.yaml"),
		// The endpoints of the service "kubernetes" are the cluster's network interfaces; see bootstrap.go.
		"--endpoint-reconciler-type=none",
		"--etcd-prefix=" + etcdPrefix(cluster.ID),
		"--etcd-servers=" + strings.Join(c.o.Etcd.Endpoints, ","),
		// The etcd compacts itself: the clusters cannot, because they may only see their own keys.
		"--etcd-compaction-interval=0",
		"--etcd-count-metric-poll-period=0",
		"--etcd-db-metric-poll-interval=0",
		"--event-ttl=" + eventTTL(cluster),
		"--kubelet-certificate-authority=" + p.trust,
		"--kubelet-client-certificate=" + pki("kube-apiserver-kubelet-client.crt"),
		"--kubelet-client-key=" + pki("kube-apiserver-kubelet-client.key"),
		"--kubelet-preferred-address-types=InternalIP,Hostname,ExternalIP",
		"--profiling=false",
		"--proxy-client-cert-file=" + pki("front-proxy-client.crt"),
		"--proxy-client-key-file=" + pki("front-proxy-client.key"),
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-client-ca-file=" + pki("front-proxy-ca.crt"),
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-uid-headers=X-Remote-Uid", // aggregated API servers ask with it what a user may do
		"--requestheader-username-headers=X-Remote-User",
		"--service-account-issuer=" + issuer,
		"--service-account-jwks-uri=" + issuer + "/keys",
		"--service-account-key-file=" + filepath.Join(tokenKeys, "sa.pub"),
		"--service-account-max-token-expiration=" + maxTokenLife.String(),
		"--service-account-signing-key-file=" + filepath.Join(tokenKeys, "sa.key"),
		"--service-cluster-ip-range=" + serviceRange(cluster),
		// A request on a connection that was made just before the new server took over is still served.
		"--shutdown-delay-duration=1s",
		// Watches through a server that makes way end soon instead of when it is killed.
		"--shutdown-watch-termination-grace-period=1s",
		"--tls-cert-file=" + pki("kube-apiserver.crt"),
		"--tls-cipher-suites=TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
		"--tls-min-version=VersionTLS12",
		"--tls-private-key-file=" + pki("kube-apiserver.key"),
		"--v=2",
	}
	if c.o.Etcd.CAFile != "" {
		args = append(args, "--etcd-cafile="+c.o.Etcd.CAFile)
	}
	if pair, err := c.etcdCertificate(cluster.ID); err != nil {
		return nil, err
	} else if pair {
		args = append(args, "--etcd-certfile="+pki("apiserver-etcd-client.crt"), "--etcd-keyfile="+
			pki("apiserver-etcd-client.key"))
	}
	args = append(args, tokenFlags...)
	if socket, managed := c.egressSockets(cluster.ID); socket != "" {
		dir, err := write(files{"egress.yaml": egressConfiguration(socket, managed)})
		if err != nil {
			return nil, err
		}
		args = append(args, "--egress-selector-config-file="+filepath.Join(dir, "egress.yaml"))
	}
	if k := cluster.KubeAPIServer; k != nil && k.ServiceNodePortRange != nil {
		args = append(args, fmt.Sprintf("--service-node-port-range=%d-%d", k.ServiceNodePortRange.MinPort,
			k.ServiceNodePortRange.MaxPort))
	}
	return args, nil
}

// egressSockets returns the sockets by which the API server reaches what is in its VPC, and the rest. They are empty
// where nobody serves them.
func (c *Controller) egressSockets(clusterID string) (cluster, managed string) {
	if socket := c.o.Endpoints.EgressSocket(clusterID); socket != "" || c.o.EgressSockets == nil {
		return socket, c.o.Endpoints.ManagedEgressSocket(clusterID)
	}
	return c.o.EgressSockets(clusterID)
}

// advertiseAddress returns the private address of the cluster's first network interface.
func advertiseAddress(p plane) (string, error) {
	for _, ip := range p.network.addresses() {
		if (ip.To4() != nil) == (p.cluster.ServiceIPv6CIDR == "") {
			return ip.String(), nil
		}
	}
	if all := p.network.addresses(); len(all) > 0 {
		return all[0].String(), nil
	}
	return "", fmt.Errorf("the cluster's network interfaces have no address")
}

func eventTTL(cluster record.Cluster) string {
	if k := cluster.KubeAPIServer; k != nil && k.EventTtl != nil {
		return *k.EventTtl
	}
	return "60m"
}

func serviceRange(cluster record.Cluster) string {
	if cluster.IPFamily == ekstypes.IpFamilyIpv6 {
		return cluster.ServiceIPv6CIDR
	}
	return cluster.ServiceIPv4CIDR
}

func (c *Controller) controllerManagerArgs(p plane, kubeconfig string) []string {
	cluster := p.cluster
	pki := func(name string) string { return c.clusterDir(cluster.ID, "pki", name) }
	args := append(c.servingFlags(p, 10257),
		"--kubeconfig="+kubeconfig,
		"--authorization-kubeconfig="+kubeconfig, // who may read the metrics is asked of the API server
		"--allocate-node-cidrs=false",
		"--cluster-name="+cluster.Name,
		"--cluster-signing-cert-file="+pki("ca.crt"),
		"--cluster-signing-key-file="+pki("ca.key"),
		"--configure-cloud-routes=false",
		"--kube-api-qps="+strconv.Itoa(clientQPS),
		"--kube-api-burst="+strconv.Itoa(clientBurst),
		// One instance runs at a time, and renewing a lease every two seconds in each of
		// hundreds of idle clusters would be most of their work.
		"--leader-elect=false",
		// It takes the not-ready taint off a new node in these passes; upstream's five seconds are most of what a pod
		// would wait for one.
		"--node-monitor-period=1s",
		"--profiling=false",
		"--root-ca-file="+p.trust,
		"--service-account-private-key-file="+pki("sa.key"),
		"--use-service-account-credentials=true",
	)
	if k := cluster.KubeController; k != nil {
		if h := k.HorizontalPodAutoscalerControllerConfig; h != nil && h.HorizontalPodAutoscalerSyncPeriod != nil {
			args = append(args, "--horizontal-pod-autoscaler-sync-period="+*h.HorizontalPodAutoscalerSyncPeriod)
		}
		if g := k.PodGcControllerConfig; g != nil && g.TerminatedPodGcThreshold != nil {
			args = append(args, "--terminated-pod-gc-threshold="+strconv.Itoa(int(*g.TerminatedPodGcThreshold)))
		}
	}
	return args
}

// cloudConfiguration returns the configuration of the AWS cloud provider, which would otherwise ask the metadata
// service of its machine.
func cloudConfiguration(cluster record.Cluster, endpoint string) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "[Global]\nRegion = %s\nVPC = %s\nSubnetID = %s\nKubernetesClusterID = %s\n",
		cluster.Region, cluster.VPCID, cluster.SubnetIDs[0], cluster.Name)
	for i, service := range []string{"ec2", "elasticloadbalancing", "autoscaling", "kms", "sts"} {
		fmt.Fprintf(&b, "[ServiceOverride \"%d\"]\nService = %s\nRegion = %s\nURL = %s\nSigningRegion = %s\n",
			i+1, service, cluster.Region, endpoint, cluster.Region)
	}
	return []byte(b.String())
}

// scoringStrategy returns the NodeResourcesFit strategy that the user asked for.
func scoringStrategy(config *ekstypes.NodeResourcesFitConfig) (map[string]any, error) {
	s := config.ScoringStrategy
	if s == nil {
		return map[string]any{"type": "LeastAllocated"}, nil
	}
	out := map[string]any{"type": string(s.Type)}
	var resources []any
	for _, r := range s.Resources {
		if r.Name == nil {
			return nil, fmt.Errorf("a resource of the scoring strategy has no name")
		}
		resources = append(resources, map[string]any{"name": *r.Name, "weight": r.Weight})
	}
	if len(resources) > 0 {
		out["resources"] = resources
	}
	return out, nil
}
