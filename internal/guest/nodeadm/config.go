// Package nodeadm makes an Amazon Linux 2023 instance a node of a cluster, as nodeadm of the EKS-optimized images does:
// from NodeConfig documents in the user data and in files, to the configuration of containerd and the kubelet, which it
// starts.
//
// https://awslabs.github.io/amazon-eks-ami/nodeadm/
package nodeadm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"net/mail"
	"reflect"
	"strings"

	"dario.cat/mergo"
	"github.com/pelletier/go-toml/v2"
	"sigs.k8s.io/yaml"

	"github.com/coracle-eks/coracle/internal/document"
	"github.com/coracle-eks/coracle/internal/guest/cloudinit"
	"github.com/coracle-eks/coracle/internal/guest/node"
)

// NodeConfig is the document. Its fields are those of node.eks.aws/v1alpha1.
type NodeConfig struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Metadata   map[string]any `json:"metadata,omitempty"`
	Spec       Spec           `json:"spec"`
	// Status is only in the cache: what was found out about the instance.
	Status *Status `json:"status,omitempty"`
}

// Spec is the user's configuration.
type Spec struct {
	Cluster      Cluster         `json:"cluster,omitzero"`
	Containerd   Containerd      `json:"containerd,omitzero"`
	Instance     Instance        `json:"instance,omitzero"`
	Kubelet      Kubelet         `json:"kubelet,omitzero"`
	FeatureGates map[string]bool `json:"featureGates,omitempty"`
}

// Cluster are the coordinates of the cluster.
type Cluster struct {
	Name                 string `json:"name,omitempty"`
	APIServerEndpoint    string `json:"apiServerEndpoint,omitempty"`
	CertificateAuthority []byte `json:"certificateAuthority,omitempty"`
	CIDR                 string `json:"cidr,omitempty"`
	EnableOutpost        *bool  `json:"enableOutpost,omitempty"`
	ID                   string `json:"id,omitempty"`
}

// Containerd changes containerd's configuration (TOML) and the specification on which containers are based.
type Containerd struct {
	Config          string         `json:"config,omitempty"`
	BaseRuntimeSpec map[string]any `json:"baseRuntimeSpec,omitempty"`
}

// Instance changes the machine.
type Instance struct {
	LocalStorage LocalStorage                 `json:"localStorage,omitzero"`
	Environment  map[string]map[string]string `json:"environment,omitempty"`
	Network      Network                      `json:"network,omitzero"`
}

// LocalStorage is for instance store volumes, of which a machine has none.
type LocalStorage struct {
	Strategy       string   `json:"strategy,omitempty"`
	MountPath      string   `json:"mountPath,omitempty"`
	DisabledMounts []string `json:"disabledMounts,omitempty"`
}

// Network changes the machine's resolver.
type Network struct {
	Nameservers []string `json:"nameservers,omitempty"`
	Domains     []string `json:"domains,omitempty"`
}

// Kubelet changes the kubelet's configuration and flags.
type Kubelet struct {
	Config            map[string]any `json:"config,omitempty"`
	Flags             []string       `json:"flags,omitempty"`
	MaxPodsExpression string         `json:"maxPodsExpression,omitempty"`
}

// Status is the data that nodeadm has collected.
type Status struct {
	Instance       node.Instance `json:"instance,omitzero"`
	Defaults       Defaults      `json:"default,omitzero"`
	KubeletVersion string        `json:"kubeletVersion,omitempty"`
}

// Defaults are those of the image.
type Defaults struct {
	SandboxImage string `json:"sandboxImage,omitempty"`
}

const (
	group      = "node.eks.aws"
	apiVersion = group + "/v1alpha1"
	kind       = "NodeConfig"
)

// Features.
const (
	instanceIDNodeName = "InstanceIdNodeName"
	fastImagePull      = "FastImagePull"
)

var (
	errNoConfigInUserData  = errors.New("could not find NodeConfig within UserData")
	errNoConfigInDirectory = errors.New("no config found in directory")
	errNoConfigInChain     = errors.New("no config in chain")
	errDecoding            = errors.New("failed to decode node config")
)

// decodeConfig reads one document, in YAML or JSON.
func decodeConfig(data []byte) (*NodeConfig, error) {
	if err := document.CheckYAML(data); err != nil {
		return nil, fmt.Errorf("%w, couldn't get version/kind; %w", errDecoding, err)
	}
	asJSON, err := yaml.YAMLToJSON(data)
	if err != nil {
		return nil, fmt.Errorf("%w, couldn't get version/kind; json parse error: %w", errDecoding, err)
	}
	var c NodeConfig
	var meta struct{ APIVersion, Kind string }
	if err := json.Unmarshal(asJSON, &meta); err != nil {
		return nil, fmt.Errorf("%w, couldn't get version/kind; json parse error: %w", errDecoding, err)
	}
	switch {
	case meta.Kind == "":
		return nil, fmt.Errorf("%w, Object 'Kind' is missing in '%s'", errDecoding, preview(data))
	case meta.APIVersion == "":
		return nil, fmt.Errorf("%w, Object 'apiVersion' is missing in '%s'", errDecoding, preview(data))
	case meta.APIVersion != apiVersion || meta.Kind != kind:
		return nil, fmt.Errorf("%w, no kind %q is registered for version %q in scheme: it is %s of %s", errDecoding,
			meta.Kind, meta.APIVersion, kind, apiVersion)
	}
	if err := json.Unmarshal(asJSON, &c); err != nil {
		return nil, fmt.Errorf("%w, %w", errDecoding, err)
	}
	return &c, nil
}

func preview(data []byte) string {
	text := strings.Join(strings.Fields(string(data)), " ")
	return text[:min(len(text), 200)]
}

// parseConfig reads user data or a file: a MIME archive with NodeConfig parts among others, or one document.
func parseConfig(data []byte) (*NodeConfig, error) {
	data, err := cloudinit.Decode(data)
	if err != nil {
		return nil, err
	}
	message, err := mail.ReadMessage(bytes.NewReader(data))
	if err != nil {
		return decodeConfig(data)
	}
	mediaType, params, err := mime.ParseMediaType(message.Header.Get("Content-Type"))
	if err != nil || !strings.HasPrefix(mediaType, "multipart/") {
		return decodeConfig(data)
	}
	var configs []*NodeConfig
	parts := multipart.NewReader(message.Body, params["boundary"])
	for {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if part.Header.Get("Content-Type") == "" {
			continue
		}
		partType, _, err := mime.ParseMediaType(part.Header.Get("Content-Type"))
		if err != nil {
			return nil, err
		}
		if partType != cloudinit.NodeConfig {
			continue
		}
		content, err := io.ReadAll(part)
		if err == nil {
			content, err = cloudinit.Decode(content)
		}
		if err != nil {
			return nil, err
		}
		c, err := decodeConfig(content)
		if err != nil {
			return nil, err
		}
		configs = append(configs, c)
	}
	if len(configs) == 0 {
		return nil, errNoConfigInUserData
	}
	return mergeConfigs(configs)
}

// mergeConfigs puts documents together: a later one's settings take the place of an earlier one's, but flags come after
// flags, and the kubelet's configuration, containerd's and the base specification are merged within.
func mergeConfigs(configs []*NodeConfig) (*NodeConfig, error) {
	merged := *configs[0]
	for _, c := range configs[1:] {
		if err := merged.Spec.merge(c.Spec); err != nil {
			return nil, fmt.Errorf("failed to merge node configs: %w", err)
		}
	}
	return &merged, nil
}

func (s *Spec) merge(with Spec) error {
	flags := append(s.Kubelet.Flags[:len(s.Kubelet.Flags):len(s.Kubelet.Flags)], with.Kubelet.Flags...)
	kubelet, err := mergeMaps(s.Kubelet.Config, with.Kubelet.Config)
	if err != nil {
		return err
	}
	spec, err := mergeMaps(s.Containerd.BaseRuntimeSpec, with.Containerd.BaseRuntimeSpec)
	if err != nil {
		return err
	}
	containerd, err := mergeTOML(s.Containerd.Config, with.Containerd.Config)
	if err != nil {
		return err
	}
	if err := mergo.Merge(s, with, mergo.WithOverride); err != nil {
		return err
	}
	s.Kubelet.Flags, s.Kubelet.Config, s.Containerd.BaseRuntimeSpec, s.Containerd.Config = flags, kubelet, spec,
		containerd
	return nil
}

// mergeMaps merges src over dst, neither of which it changes.
func mergeMaps(dst, src map[string]any) (map[string]any, error) {
	if len(dst) == 0 || len(src) == 0 {
		if len(dst) == 0 {
			return src, nil
		}
		return dst, nil
	}
	merged := deepCopyMap(dst)
	if err := mergo.Merge(&merged, deepCopyMap(src), mergo.WithOverride); err != nil {
		return nil, err
	}
	return merged, nil
}

// deepCopyMap copies a map with the maps in it.
func deepCopyMap(m map[string]any) map[string]any {
	c := maps.Clone(m)
	for k, v := range c {
		if inner, ok := v.(map[string]any); ok {
			c[k] = deepCopyMap(inner)
		}
	}
	return c
}

// mergeTOML merges two documents; one without the other stays as it was written.
func mergeTOML(dst, src string) (string, error) {
	if dst == "" || src == "" {
		return dst + src, nil
	}
	a, err := decodeTOML(dst)
	if err != nil {
		return "", err
	}
	b, err := decodeTOML(src)
	if err != nil {
		return "", err
	}
	merged, err := mergeMaps(a, b)
	if err != nil {
		return "", err
	}
	data, err := toml.Marshal(merged)
	return string(data), err
}

func decodeTOML(text string) (map[string]any, error) {
	var decoded map[string]any
	err := document.CheckTOML([]byte(text))
	if err == nil {
		err = toml.Unmarshal([]byte(text), &decoded)
	}
	if err != nil {
		return nil, fmt.Errorf("containerd config: %w", err)
	}
	return decoded, nil
}

// validate returns an error for a missing field.
func (c *NodeConfig) validate() error {
	switch cluster := c.Spec.Cluster; {
	case cluster.Name == "":
		return errors.New("Name is missing in cluster configuration")
	case cluster.APIServerEndpoint == "":
		return errors.New("Apiserver endpoint is missing in cluster configuration")
	case cluster.CertificateAuthority == nil:
		return errors.New("Certificate authority is missing in cluster configuration")
	case cluster.CIDR == "":
		return errors.New("CIDR is missing in cluster configuration")
	case cluster.EnableOutpost != nil && *cluster.EnableOutpost && cluster.ID == "":
		return errors.New("cluster ID must be provided for outposts")
	}
	return nil
}

func equalSpecs(a, b Spec) bool {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	var m, n any
	return json.Unmarshal(x, &m) == nil && json.Unmarshal(y, &n) == nil && reflect.DeepEqual(m, n)
}
