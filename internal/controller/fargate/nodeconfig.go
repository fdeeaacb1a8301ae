package fargate

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/coracle-eks/coracle/internal/fargate"
	guest "github.com/coracle-eks/coracle/internal/guest/fargate"
)

// nodeConfig returns the function that makes the configuration of the pod's node, once its address is known: all that
// the node has to know of its cluster, as the user data of a managed node group says it.
func (p *podPass) nodeConfig(ctx context.Context, pod *corev1.Pod, volumes map[string]string,
	logging *fargate.Logging) (func(address, nodeName, zone string) ([]byte, error), error) {
	plane, err := p.c.planes.Get(ctx, p.cluster.Key())
	if err != nil {
		return nil, err
	}
	if plane.Value.ClusterID != p.cluster.ID || plane.Value.Endpoint == "" {
		return nil, fmt.Errorf("cluster %s has no endpoint", p.cluster.Name)
	}
	row := p.pod.Value
	config := guest.Config{
		Cluster: p.cluster.Name, Region: p.cluster.Region, Endpoint: plane.Value.Endpoint,
		CertificateAuthority: base64.StdEncoding.EncodeToString(plane.Value.CertificateAuthority),
		ServiceCIDR:          p.cluster.ServiceIPv4CIDR,
		PodUID:               row.UID,
		CPU:                  row.CPU, Memory: row.Memory, Version: plane.Value.Version,
		EFSVolumes: volumes, NFS: fargate.NFSSources(pod),
	}
	if p.isIPv6() {
		config.ServiceCIDR = p.cluster.ServiceIPv6CIDR
	}
	if logging != nil {
		namespace, err := p.server.scheduler.CoreV1().Namespaces().Get(ctx, row.Namespace, metav1.GetOptions{})
		if err != nil {
			return nil, fmt.Errorf("read namespace %s: %w", row.Namespace, err)
		}
		config.Logging = &guest.Logging{
			Files: logging.Data, PodName: row.Name, Namespace: row.Namespace, PodUID: row.UID,
			PodLabels: metadata(pod.Labels), PodAnnotations: metadata(pod.Annotations),
			NamespaceLabels: metadata(namespace.Labels), NamespaceAnnotations: metadata(namespace.Annotations),
		}
	}
	return func(address, nodeName, zone string) ([]byte, error) {
		config := config
		config.Address, config.NodeName, config.Zone = address, nodeName, zone
		config.ProviderID = "aws:///" + zone + "/" + row.ID + "/" + nodeName
		return json.Marshal(config)
	}, nil
}

// isIPv6 reports whether the cluster's nodes and pods have IPv6 addresses.
func (p *podPass) isIPv6() bool { return p.cluster.IPFamily == ekstypes.IpFamilyIpv6 }

// maxMetadata is the maximum size in bytes of the labels, or annotations, of an object that a node is told: they are
// kept with the machine, and an API server may return any number.
const maxMetadata = 16 << 10

// metadata returns the labels or annotations that fit, in the order of their keys.
func metadata(all map[string]string) map[string]string {
	kept, size := map[string]string{}, 0
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if size+len(key)+len(all[key]) <= maxMetadata {
			kept[key], size = all[key], size+len(key)+len(all[key])
		}
	}
	return kept
}

// uidOf returns a UID as Kubernetes has it.
func uidOf(uid string) types.UID { return types.UID(uid) }
