package catalog

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"text/template"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/record"
)

// values are the values that the templates of an add-on can use.
type values struct {
	Cluster   clusterValues
	Namespace string // where the add-on goes
	Version   string // "v1.23.2-eksbuild.1"
	Upstream  string // "v1.23.2"
	Minor     string // the cluster's Kubernetes version, "1.35"
	// Config is the configuration: the user's over the defaults. Defaults themselves cannot speak of it.
	Config map[string]any
}

type clusterValues struct {
	Name, ID, Account, Region, VPCID string
	Partition                        string // "aws"
	Endpoint                         string // of the API server, its host in lower case as EKS writes it in objects
	IPv6                             bool
	DNS                              string // the address of the service kube-dns
}

func (v *Version) templateValues(s RenderOptions) (values, error) {
	out := values{
		Cluster: clusterValues{
			Name: s.Cluster.Name, ID: s.Cluster.ID, Account: s.Cluster.Account, Region: s.Cluster.Region,
			VPCID:     s.Cluster.VPCID,
			Partition: partition(s.Cluster.Region), Endpoint: strings.ToLower(s.Endpoint),
			IPv6: s.Cluster.IPFamily == ekstypes.IpFamilyIpv6,
		},
		Namespace: s.Config.Namespace, Version: v.Version, Upstream: upstream(v.Version), Minor: s.Minor,
	}
	if out.Namespace == "" {
		out.Namespace = v.source.namespace
	}
	var err error
	out.Cluster.DNS, err = dnsAddress(s.Cluster)
	return out, err
}

func partition(region string) string {
	switch {
	case strings.HasPrefix(region, "cn-"):
		return "aws-cn"
	case strings.HasPrefix(region, "us-gov-"):
		return "aws-us-gov"
	}
	return "aws"
}

// dnsAddress returns the tenth address of the service range, which the kubelets of EKS's images use for DNS.
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

// rendering is a version that is being rendered, with its options.
type rendering struct {
	version *Version
	options RenderOptions
}

// functions returns the functions that templates can call. Those of a nil rendering have the right signatures and are
// not called.
func functions(r *rendering) template.FuncMap {
	return template.FuncMap{
		// json writes any value in its place: JSON is YAML.
		"json": func(v any) (string, error) {
			b, err := json.Marshal(v)
			return string(b), err
		},
		// join puts a separator between the items of a list.
		"join": func(list []any, separator string) string {
			words := make([]string, 0, len(list))
			for _, item := range list {
				words = append(words, fmt.Sprint(item))
			}
			return strings.Join(words, separator)
		},
		// pairs writes a map as words such as "a=b", for join.
		"pairs": func(m map[string]any, between string) []any {
			var words []any
			for _, key := range slices.Sorted(maps.Keys(m)) {
				words = append(words, fmt.Sprint(key, between, m[key]))
			}
			return words
		},
		// replace replaces each occurrence of the first in the third, of upstream's manifests say: {{data "all.yaml" |
		// replace "nginx:" "docker.io/library/nginx:"}}.
		"replace": func(old, by, text string) string { return strings.ReplaceAll(text, old, by) },
		// list is its arguments, to range over.
		"list": func(v ...any) []any { return v },
		// image is the reference of one of the version's images, by its name in addon.yaml.
		"image": func(name string) (string, error) {
			image, err := r.version.resolveImage(name, r.options.Cluster.Region)
			return image.Reference, err
		},
		// data is a file that comes with one of the components, by its name in addon.yaml.
		"data": func(name string) (string, error) {
			b, err := r.version.readData(name)
			return string(b), err
		},
	}
}

// resolveImage returns one of the version's images in the registry of a region.
func (v *Version) resolveImage(name, region string) (Image, error) {
	entry, found := v.source.images[name]
	if !found {
		return Image{}, fmt.Errorf("there is no %q below images in addon.yaml", name)
	}
	return entry.resolveImage(v.source.components, v.Addon, cmp.Or(v.source.imageVersions[name], v.Version),
		Registry(region), v.source.private, v.source.file)
}

// readData returns a file that comes with one of the components.
func (v *Version) readData(name string) ([]byte, error) {
	for component, entry := range v.source.components {
		if _, found := entry.Data[name]; !found {
			continue
		}
		if v.source.private {
			component = v.Addon + "/" + component
		}
		build, err := entry.resolveBuild(component, upstream(v.Version), v.source.file)
		switch {
		case err != nil:
			return nil, err
		case build == nil:
			return nil, fmt.Errorf("components.%s.versions: there is no %s, which %s comes with", component,
				upstream(v.Version), name)
		case v.source.data == nil:
			return nil, fmt.Errorf("nobody can read %s of %s", name, component)
		}
		return v.source.data(*build, name)
	}
	return nil, fmt.Errorf("there is no %q below data of the components in addon.yaml", name)
}
