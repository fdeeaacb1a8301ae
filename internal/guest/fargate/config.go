package fargate

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"strings"

	"github.com/coracle-eks/coracle/internal/fargate/fargatenode"
)

// Config describes the node of a Fargate pod. The Fargate controller writes it, the host puts it as JSON into
// boot.FargateFile.
type Config struct {
	Cluster              string `json:"cluster"` // its name
	Region               string `json:"region"`
	Zone                 string `json:"zone"`                 // "eu-west-1a"
	NodeName             string `json:"nodeName"`             // "fargate-ip-10-0-1-2.eu-west-1.compute.internal"
	Address              string `json:"address"`              // of the node and the pod, of the cluster's IP family
	Endpoint             string `json:"endpoint"`             // "https://…"
	CertificateAuthority string `json:"certificateAuthority"` // of the cluster, PEM in base64, as DescribeCluster has it
	ServiceCIDR          string `json:"serviceCidr"`          // of the cluster's IP family
	ProviderID           string `json:"providerId"`           // "aws:///eu-west-1a/<capacity ID>/fargate-ip-10-0-1-2…"

	// PodUID is the UID of the pod that the node is for. Containers of other pods are refused: see containerguard.
	PodUID string `json:"podUID"`

	// Labels and Taints ("key=value:effect") are those of the node beyond what every Fargate node has.
	Labels map[string]string `json:"labels,omitempty"`
	Taints []string          `json:"taints,omitempty"`

	CPU     int64  `json:"cpu"`               // millicores, of the machine
	Memory  int64  `json:"memory"`            // MiB, of the machine
	Version string `json:"version,omitempty"` // of Kubernetes, "1.35"; empty: that of the image

	// EFSVolumes are the digests (fargatenode.VolumeDigest) of the persistent volumes of the driver efs.csi.aws.com that
	// the pod was scheduled with, by their names; NFS are its sources of NFS, "SERVER:PATH". The machine mounts no others.
	EFSVolumes map[string]string `json:"efsVolumes,omitempty"`
	NFS        []string          `json:"nfs,omitempty"`
	// Logging has the pod's logs routed; nil when logging is disabled.
	Logging *Logging `json:"logging,omitempty"`
}

// Logging is what the log router routes, and to where.
// https://docs.aws.amazon.com/eks/latest/userguide/fargate-logging.html
type Logging struct {
	// Files is the data of the ConfigMap aws-logging: output.conf, filters.conf, parsers.conf, flb_log_cw.
	Files     map[string]string `json:"files"`
	PodName   string            `json:"podName"`
	Namespace string            `json:"namespace"` // of the pod
	PodUID    string            `json:"podUID,omitempty"`
	// Metadata of the pod and its namespace, for the filter kubernetes.
	PodLabels            map[string]string `json:"podLabels,omitempty"`
	PodAnnotations       map[string]string `json:"podAnnotations,omitempty"`
	NamespaceLabels      map[string]string `json:"namespaceLabels,omitempty"`
	NamespaceAnnotations map[string]string `json:"namespaceAnnotations,omitempty"`
}

// routerFile is the file of the log router, a logrouter.Config: the Logging, and what it needs to know of the node.
type routerFile struct {
	Logging
	Cluster              string `json:"cluster"`
	Region               string `json:"region"`
	NodeName             string `json:"nodeName"`
	PodIP                string `json:"podIP"`
	Endpoint             string `json:"endpoint"`
	CertificateAuthority string `json:"certificateAuthority"`
}

// ownTaint is the taint of every Fargate node.
const ownTaint = fargatenode.ComputeType + "=fargate:NoSchedule"

// Parse reads and checks a Config.
func Parse(data []byte) (Config, error) {
	var c Config
	if err := json.Unmarshal(data, &c); err != nil {
		return c, fmt.Errorf("read the configuration of the Fargate node: %w", err)
	}
	return c, c.check()
}

func (c Config) check() error {
	for name, value := range map[string]string{"cluster": c.Cluster, "region": c.Region, "zone": c.Zone,
		"endpoint": c.Endpoint, "certificateAuthority": c.CertificateAuthority, "providerId": c.ProviderID,
		"podUID": c.PodUID} {
		if value == "" || strings.ContainsAny(value, "\n\"") {
			return fmt.Errorf("read the configuration of the Fargate node: %s is %q", name, value)
		}
	}
	if !strings.HasPrefix(c.NodeName, fargatenode.NamePrefix) {
		return fmt.Errorf("read the configuration of the Fargate node: nodeName is %q, which does not begin with %s",
			c.NodeName, fargatenode.NamePrefix)
	}
	address, err := netip.ParseAddr(c.Address)
	if err != nil {
		return fmt.Errorf("read the configuration of the Fargate node: %w", err)
	}
	services, err := netip.ParsePrefix(c.ServiceCIDR)
	if err != nil {
		return fmt.Errorf("read the configuration of the Fargate node: %w", err)
	}
	if address.Is4() != services.Addr().Is4() {
		return errors.New("read the configuration of the Fargate node: address and serviceCidr are of different IP " +
			"families")
	}
	return nil
}

// isIPv6 reports whether the cluster's IP family is IPv6.
func (c Config) isIPv6() bool { return strings.Contains(c.ServiceCIDR, ":") }

// nodeLabels returns the labels with which the kubelet registers: among them its host name, which is not the node's
// name.
func (c Config) nodeLabels() map[string]string {
	labels := map[string]string{
		fargatenode.ComputeType:                    "fargate",
		"kubernetes.io/hostname":                   strings.TrimPrefix(c.NodeName, fargatenode.NamePrefix),
		"topology.kubernetes.io/region":            c.Region,
		"topology.kubernetes.io/zone":              c.Zone,
		"failure-domain.beta.kubernetes.io/region": c.Region,
		"failure-domain.beta.kubernetes.io/zone":   c.Zone,
	}
	maps.Copy(labels, c.Labels)
	return labels
}

// nodeTaints returns the taints with which the kubelet registers.
func (c Config) nodeTaints() []string { return append([]string{ownTaint}, c.Taints...) }
