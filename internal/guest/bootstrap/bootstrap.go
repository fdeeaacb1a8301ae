package bootstrap

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/coracle-eks/coracle/internal/guest/imds"
	"github.com/coracle-eks/coracle/internal/guest/node"
	"github.com/coracle-eks/coracle/internal/guest/systemctl"
)

// Script is one run of bootstrap.sh.
type Script struct {
	IMDS           *imds.Client
	Root           string // of the file system; empty means /. Tests have another.
	Stdout, Stderr io.Writer
	// Systemctl controls the machine's units; nil: its init.
	Systemctl func(args ...string) error
	// AWS makes a caller in a region; nil: the instance's.
	AWS func(region string) API
	// Lookup resolves the endpoint of a cluster on an Outpost; nil: the resolver.
	Lookup func(ctx context.Context, host string) ([]string, error)
}

// API is the part of the AWS APIs that the script calls.
type API interface {
	WaitActive(ctx context.Context, name string) (node.Cluster, error)
	PrivateDNSName(ctx context.Context, instanceID string) (string, error)
}

// Main runs the program "eks-bootstrap", which /etc/eks/bootstrap.sh links to.
func Main(args []string, stdout, stderr io.Writer) int {
	s := &Script{IMDS: &imds.Client{}, Stdout: stdout, Stderr: stderr}
	return s.Run(context.Background(), args)
}

func (s *Script) log(format string, args ...any) {
	fmt.Fprintf(s.Stderr, "%s [eks-bootstrap] %s\n", time.Now().Format("2006-01-02T15:04:05-0700"),
		fmt.Sprintf(format, args...))
}

// Run bootstraps the node, and returns the exit status.
func (s *Script) Run(ctx context.Context, args []string) int {
	s.log("INFO: starting...")
	if os.Geteuid() != 0 && s.Root == "" {
		s.log("ERROR: script must be run as root")
		return 1
	}
	for _, a := range args {
		if a == "-h" || a == "--help" {
			printHelp(s.Stdout)
			return 1
		}
	}
	o, err := parseArgs(args, s.log)
	if err == nil {
		err = s.bootstrap(ctx, o)
	}
	if err != nil {
		s.log("ERROR: %v", err)
		return 1
	}
	s.log("INFO: complete!")
	return 0
}

func (s *Script) rootPath(name string) string { return filepath.Join("/", s.Root, name) }

func (s *Script) systemctl(args ...string) error {
	if s.Systemctl != nil {
		return s.Systemctl(args...)
	}
	c := systemctl.Command{Stdout: s.Stdout, Stderr: s.Stderr}
	if args[0] == "start" || args[0] == "restart" {
		return c.Up(args[0], args[len(args)-1], patience)
	}
	if code := c.Systemctl(args); code != 0 {
		return fmt.Errorf("systemctl %s: exit status %d", strings.Join(args, " "), code)
	}
	return nil
}

func (s *Script) bootstrap(ctx context.Context, o options) error {
	image, err := node.ReadImage(s.Root)
	if err != nil {
		return err
	}
	version := node.KubeletVersion(image)
	s.log("INFO: Using kubelet version %s", strings.TrimPrefix(version, "v"))
	s.log("INFO: Using containerd as the container runtime")
	if o.values["--local-disks"] != "" {
		s.log("INFO: --local-disks is ignored: the instance types of this machine's host have no instance store volumes")
	}
	if err := s.IMDS.Wait(ctx); err != nil {
		return err
	}
	instance, err := node.Describe(ctx, s.IMDS)
	if err != nil {
		return err
	}
	domain, err := s.IMDS.Meta(ctx, "services/domain")
	if err != nil {
		return err
	}
	api := API(node.AWS{Region: instance.Region, IMDS: s.IMDS, Warn: s.log})
	if s.AWS != nil {
		api = s.AWS(instance.Region)
	}
	if err := s.cluster(ctx, &o, api); err != nil {
		return err
	}
	family := o.values["--ip-family"]
	if family == "" {
		family = "ipv4"
	}
	s.log("INFO: Using IP family: %s", family)

	ca, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(o.values["--b64-cluster-ca"]), ""))
	if err != nil {
		return fmt.Errorf("--b64-cluster-ca is not base64: %w", err)
	}
	if block, _ := pem.Decode(ca); block == nil {
		return errors.New("--b64-cluster-ca has no PEM certificate in it")
	}
	if u, err := url.Parse(o.values["--apiserver-endpoint"]); err != nil || u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("--apiserver-endpoint is not an https URL: %q", o.values["--apiserver-endpoint"])
	}
	if err := node.WriteFile(s.Root, "/etc/kubernetes/pki/ca.crt", string(ca), 0o644); err != nil {
		return err
	}
	name, kubeconfig := o.cluster, "/var/lib/kubelet/kubeconfig"
	if o.values["--enable-local-outpost"] == "true" {
		if name = o.values["--cluster-id"]; name == "" {
			return errors.New("Cluster ID is required when local outpost support is enabled")
		}
		if err := s.writeHosts(ctx, o.values["--apiserver-endpoint"]); err != nil {
			return err
		}
		kubeconfig = "/var/lib/kubelet/bootstrap-kubeconfig"
		o.values["--kubelet-extra-args"] = strings.TrimSpace("--bootstrap-kubeconfig " + kubeconfig + " " +
			o.values["--kubelet-extra-args"])
		if err := os.Remove(s.rootPath("/var/lib/kubelet/kubeconfig")); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	if err := node.WriteFile(s.Root, kubeconfig, node.Kubeconfig(o.values["--apiserver-endpoint"], name,
		instance.Region), 0o644); err != nil {
		return err
	}

	dns, err := s.clusterDNS(ctx, o, family, instance.MAC)
	if err != nil {
		return err
	}
	maxPods, err := s.maxPods(instance.Type)
	if err != nil {
		return err
	}
	if err := s.kubeletConfig(o, instance, dns, maxPods); err != nil {
		return err
	}
	ip, err := node.NodeIP(ctx, s.IMDS, instance.MAC, family == "ipv6")
	if err != nil {
		return err
	}
	hostname, err := api.PrivateDNSName(ctx, instance.ID)
	if err != nil {
		return fmt.Errorf("failed to retrieve PrivateDnsName: %w", err)
	}
	pause := s.pauseImage(o, instance.Region, domain, image.SandboxImage)
	kubeletArgs := "--node-ip=" + ip
	if !node.AtLeast(version, "1.35") { // removed from the kubelet then
		kubeletArgs += " --pod-infra-container-image=" + pause
	}
	kubeletArgs += " --v=2 --hostname-override=" + hostname + " --cloud-provider=external"
	if o.values["--use-max-pods"] != "false" {
		kubeletArgs += " --max-pods=" + strconv.Itoa(maxPods)
	}
	if err := s.writeUnits(kubeletArgs, o.values["--kubelet-extra-args"]); err != nil {
		return err
	}
	if err := s.containerd(o, pause); err != nil {
		return err
	}
	for _, args := range [][]string{{"daemon-reload"}, {"enable", "kubelet"}, {"start", "kubelet"}} {
		if err := s.systemctl(args...); err != nil {
			return err
		}
	}
	return nil
}

// cluster fills what was not given from DescribeCluster.
func (s *Script) cluster(ctx context.Context, o *options, api API) error {
	if o.values["--b64-cluster-ca"] != "" && o.values["--apiserver-endpoint"] != "" {
		return nil
	}
	s.log("INFO: --b64-cluster-ca or --apiserver-endpoint is not defined, describing cluster...")
	attempts := 3
	if n, err := strconv.Atoi(o.values["--aws-api-retry-attempts"]); err == nil {
		attempts = n
	}
	var c node.Cluster
	for attempt := 0; ; attempt++ {
		if attempt > 0 {
			s.log("INFO: Attempt %d of %d", attempt, attempts)
		}
		var err error
		if c, err = api.WaitActive(ctx, o.cluster); err == nil {
			break
		}
		s.log("%v", err)
		if attempt == attempts {
			return errors.New("Exhausted retries while describing cluster!")
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Duration(1<<attempt) * time.Second):
		}
	}
	o.values["--b64-cluster-ca"], o.values["--apiserver-endpoint"] = c.CertificateAuthority.Data, c.Endpoint
	o.values["--service-ipv4-cidr"], o.values["--service-ipv6-cidr"] = c.KubernetesNetwork.ServiceIpv4Cidr,
		c.KubernetesNetwork.ServiceIpv6Cidr
	if o.values["--ip-family"] == "" {
		o.values["--ip-family"] = c.KubernetesNetwork.IPFamily
	}
	if c.ID != "" {
		o.values["--cluster-id"] = c.ID
	}
	if o.values["--enable-local-outpost"] == "" && len(c.Outpost.OutpostArns) > 0 {
		o.values["--enable-local-outpost"] = "true"
	}
	return nil
}

// writeHosts stores the addresses of the endpoint, for when the Outpost is disconnected.
func (s *Script) writeHosts(ctx context.Context, endpoint string) error {
	u, err := url.Parse(endpoint)
	if err != nil {
		return err
	}
	lookup := s.Lookup
	if lookup == nil {
		lookup = net.DefaultResolver.LookupHost
	}
	addresses, err := lookup(ctx, u.Hostname())
	if err != nil {
		return err
	}
	f, err := os.OpenFile(s.rootPath("/etc/hosts"), os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	for _, a := range addresses {
		if _, err := fmt.Fprintf(f, "%s\t%s\n", a, u.Hostname()); err != nil {
			return err
		}
	}
	return nil
}

// clusterDNS returns the addresses of kube-dns.
func (s *Script) clusterDNS(ctx context.Context, o options, family, mac string) ([]string, error) {
	if given := o.values["--dns-cluster-ip"]; given != "" {
		return strings.Split(given, ","), nil
	}
	if family == "ipv6" {
		cidr := o.values["--service-ipv6-cidr"]
		if cidr == "" {
			return nil,
				errors.New("One of --service-ipv6-cidr or --dns-cluster-ip must be provided when --ip-family is ipv6")
		}
		dns, err := node.ClusterDNS(cidr)
		return []string{dns}, err
	}
	if cidr := o.values["--service-ipv4-cidr"]; cidr != "" && cidr != "None" {
		dns, err := node.ClusterDNS(cidr)
		if err != nil {
			return nil, fmt.Errorf("--service-ipv4-cidr: %w", err)
		}
		s.log("INFO: Detected SERVICE_IPV4_CIDR='%s'. Will set DNS_CLUSTER_IP as '%s'.", cidr, dns)
		return []string{dns}, nil
	}
	s.log("INFO: No --service-ipv4-cidr set, will try to determine DNS_CLUSTER_IP by VPC IPV4 CIDR Blocks from IMDS.")
	cidrs, err := s.IMDS.Meta(ctx, "network/interfaces/macs/"+mac+"/vpc-ipv4-cidr-blocks")
	if err != nil {
		return nil, err
	}
	for _, c := range strings.Fields(cidrs) {
		if strings.HasPrefix(c, "10.") {
			s.log("INFO: Detected VPC CIDR (IPv4) in 10.0.0.0/8 range. Will set DNS_CLUSTER_IP as '172.20.0.10'.")
			return []string{"172.20.0.10"}, nil
		}
	}
	s.log("INFO: Detected no VPC CIDR (IPv4) in 10.0.0.0/8 range. Will set DNS_CLUSTER_IP as '10.100.0.10'.")
	return []string{"10.100.0.10"}, nil
}

// maxPods returns the number of pods of an instance type in /etc/eks/eni-max-pods.txt.
func (s *Script) maxPods(instanceType string) (int, error) {
	const file = "/etc/eks/eni-max-pods.txt"
	data, err := os.ReadFile(s.rootPath(file))
	if err != nil {
		return 0, err
	}
	for _, line := range strings.Split(string(data), "\n") {
		if name, count, ok := strings.Cut(line, " "); ok && name == instanceType {
			return strconv.Atoi(strings.TrimSpace(count))
		}
	}
	if n, ok := node.MaxPods(instanceType); ok {
		s.log("INFO: No entry for type '%s' in %s. Will attempt to auto-discover value.", instanceType, file)
		return n, nil
	}
	return 0, fmt.Errorf("no entry for type '%s' in %s", instanceType, file)
}

// kubeletConfig completes /etc/kubernetes/kubelet/kubelet-config.json, with what the user has changed in it.
func (s *Script) kubeletConfig(o options, instance node.Instance, dns []string, maxPods int) error {
	const file = "/etc/kubernetes/kubelet/kubelet-config.json"
	data, err := os.ReadFile(s.rootPath(file))
	if err != nil {
		return err
	}
	var config map[string]any
	if err := json.Unmarshal(data, &config); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	config["clusterDNS"] = dns
	config["evictionHard"] = map[string]string{"memory.available": "100Mi", "nodefs.available": "10%",
		"nodefs.inodesFree": "5%"}
	config["kubeReserved"] = map[string]string{"cpu": fmt.Sprintf("%dm", node.ReservedCPU(node.CPUs())),
		"ephemeral-storage": "1Gi", "memory": fmt.Sprintf("%dMi", node.ReservedMemory(maxPods))}
	config["providerID"] = instance.ProviderID()
	if o.values["--use-max-pods"] != "false" {
		config["maxPods"] = maxPods
	}
	if strings.Contains(o.values["--kubelet-extra-args"], "--reserved-cpus") {
		s.log("INFO: --kubelet-extra-args includes --reserved-cpus, so kube/system-reserved cgroups will not be used.")
	} else {
		config["systemReservedCgroup"], config["kubeReservedCgroup"] = "/system", "/runtime"
	}
	node.FitKubelet(config, s.Root)
	node.ReportVolumesEarly(config)
	text, err := json.MarshalIndent(config, "", "  ")
	if err != nil {
		return err
	}
	return node.WriteFile(s.Root, file, string(text)+"\n", 0o644)
}

// pauseImage returns the image of the sandbox.
func (s *Script) pauseImage(o options, region, domain, image string) string {
	account, tag := o.values["--pause-container-account"], o.values["--pause-container-version"]
	if account == "" && tag == "" && image != "" {
		return image
	}
	if tag == "" {
		if tag = image[strings.LastIndexByte(image, ':')+1:]; tag == "" {
			tag = "3.10"
		}
	}
	return registry(region, domain, account) + "/eks/pause:" + tag
}

// writeUnits writes the kubelet's unit with its flags.
func (s *Script) writeUnits(kubeletArgs, extra string) error {
	unit, err := os.ReadFile(s.rootPath("/etc/eks/containerd/kubelet-containerd.service"))
	if err != nil {
		return err
	}
	if err := node.WriteFile(s.Root, "/etc/systemd/system/kubelet.service", string(unit), 0o644); err != nil {
		return err
	}
	const dir = "/etc/systemd/system/kubelet.service.d/"
	if err := node.WriteFile(s.Root, dir+"10-kubelet-args.conf", "[Service]\nEnvironment='KUBELET_ARGS="+kubeletArgs+
		"'\n", 0o644); err != nil {
		return err
	}
	if extra == "" {
		return nil
	}
	return node.WriteFile(s.Root, dir+"30-kubelet-extra-args.conf", "[Service]\nEnvironment='KUBELET_EXTRA_ARGS="+extra+
		"'\n", 0o644)
}

// containerd writes containerd's configuration and starts it with that, unless it has it already.
func (s *Script) containerd(o options, pause string) error {
	if o.values["--enable-docker-bridge"] == "true" {
		s.log("WARNING: Flag --enable-docker-bridge was set but will be ignored as it's not relevant to containerd")
	}
	if o.values["--docker-config-json"] != "" {
		s.log("WARNING: Flag --docker-config-json was set but will be ignored as it's not relevant to containerd")
	}
	const template, file = "/etc/eks/containerd/containerd-config.toml", "/etc/containerd/config.toml"
	source := template
	if given := o.values["--containerd-config-file"]; given != "" {
		source = given
	}
	config, err := os.ReadFile(s.rootPath(source))
	if err != nil {
		return fmt.Errorf("--containerd-config-file: %w", err)
	}
	config = bytes.ReplaceAll(config, []byte("SANDBOX_IMAGE"), []byte(pause))
	if err := node.WriteFile(s.Root, template, string(config), 0o644); err != nil {
		return err
	}
	unit, err := os.ReadFile(s.rootPath("/etc/eks/containerd/sandbox-image.service"))
	if err != nil {
		return err
	}
	if current, err := os.ReadFile(s.rootPath(file)); err == nil && bytes.Equal(current, config) {
		return nil
	}
	if err := node.WriteFile(s.Root, file, string(config), 0o644); err != nil {
		return err
	}
	if err := node.WriteFile(s.Root, "/etc/systemd/system/sandbox-image.service", string(unit), 0o644); err != nil {
		return err
	}
	for _, args := range [][]string{{"daemon-reload"}, {"enable", "containerd", "sandbox-image"},
		{"restart", "containerd"}, {"start", "sandbox-image"}} {
		if err := s.systemctl(args...); err != nil {
			return err
		}
	}
	return nil
}

// patience is the time that a daemon may take to start, with its own attempts.
const patience = 2 * time.Minute
