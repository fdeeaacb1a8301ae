package addon

import (
	"bytes"
	"embed"
	"fmt"
	"net/netip"
	"strings"
	"text/template"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/coracle-eks/coracle/internal/record"
)

//go:embed vpc-cni.yaml kube-proxy.yaml coredns.yaml
var files embed.FS

var templates = template.Must(template.New("").Option("missingkey=error").ParseFS(files, "*.yaml"))

// values are what the templates say of a cluster.
type values struct {
	ClusterName, VPCID string
	Endpoint           string // of the API server, its host in lower case as EKS writes it there
	IPv6               bool
	DNS                string // the address of the service kube-dns

	// Image references. NodeAgent is empty where there is no image of it.
	CNIInit, CNI, NodeAgent, KubeProxy, CoreDNS string
	CNIVersion                                  string // "v1.23.2"
}

// Manifests are the objects that a new cluster gets, in the order in which they are applied. The endpoint is its API server's, images are its
// image references by whatever names: an image is known by the end of its repository, "amazon-k8s-cni".
func Manifests(cluster record.Cluster, endpoint string, images map[string]string) ([]*unstructured.Unstructured, error) {
	v := values{
		ClusterName: cluster.Name, VPCID: cluster.VPCID,
		Endpoint: strings.ToLower(endpoint),
		IPv6:     cluster.IPFamily == ekstypes.IpFamilyIpv6,
	}
	var err error
	if v.DNS, err = dnsAddress(cluster); err != nil {
		return nil, err
	}
	for name, into := range map[string]*string{
		"amazon-k8s-cni-init": &v.CNIInit, "amazon-k8s-cni": &v.CNI, "aws-network-policy-agent": &v.NodeAgent, "kube-proxy": &v.KubeProxy, "coredns": &v.CoreDNS,
	} {
		*into = reference(images, name)
		if *into == "" && into != &v.NodeAgent {
			return nil, fmt.Errorf("there is no image %s for Kubernetes %s", name, cluster.Version)
		}
	}
	// "v1.23.2-eksbuild.1" is EKS's build of the plugin's v1.23.2.
	_, tag, _ := cutLast(v.CNI, ":")
	v.CNIVersion, _, _ = strings.Cut(tag, "-")

	var all []*unstructured.Unstructured
	for _, name := range []string{"vpc-cni.yaml", "kube-proxy.yaml", "coredns.yaml"} {
		var text bytes.Buffer
		if err := templates.ExecuteTemplate(&text, name, v); err != nil {
			return nil, err
		}
		for document := range strings.SplitSeq(text.String(), "\n---\n") {
			o := &unstructured.Unstructured{}
			if err := yaml.UnmarshalStrict([]byte(document), &o.Object); err != nil {
				return nil, fmt.Errorf("%s: %w\n%s", name, err, document)
			}
			all = append(all, o)
		}
	}
	return all, nil
}

// reference is the one whose repository ends with name, with or without a digest.
func reference(images map[string]string, name string) string {
	for _, r := range images {
		repository, _, _ := strings.Cut(r, "@")
		repository, _, _ = cutLast(repository, ":")
		if _, last, found := cutLast(repository, "/"); found && last == name {
			return r
		}
	}
	return ""
}

func cutLast(s, separator string) (before, after string, found bool) {
	if i := strings.LastIndex(s, separator); i >= 0 {
		return s[:i], s[i+len(separator):], true
	}
	return s, "", false
}

// dnsAddress is the tenth address of the service range, where the kubelets of EKS's images look for it.
func dnsAddress(cluster record.Cluster) (string, error) {
	cidr := cluster.ServiceIPv4CIDR
	if cluster.IPFamily == ekstypes.IpFamilyIpv6 {
		cidr = cluster.ServiceIPv6CIDR
	}
	prefix, err := netip.ParsePrefix(cidr)
	if err != nil {
		return "", fmt.Errorf("service range of cluster %s: %w", cluster.Name, err)
	}
	b := prefix.Masked().Addr().AsSlice()
	b[len(b)-1] += 10
	address, _ := netip.AddrFromSlice(b)
	return address.String(), nil
}
