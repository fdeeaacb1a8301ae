package nodegroup

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"net/mail"
	"net/netip"
	"net/textproto"
	"slices"
	"strings"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/pelletier/go-toml/v2"
	"sigs.k8s.io/yaml"

	"github.com/coracle-eks/coracle/internal/ami"
	"github.com/coracle-eks/coracle/internal/document"
)

// boot is the configuration that a node needs to find its cluster.
type boot struct {
	Cluster     string
	Endpoint    string
	Authority   []byte // PEM
	ServiceCIDR string
	IPv6        bool
	MaxPods     int // 0: the image reckons
	Labels      map[string]string
	Taints      []ekstypes.Taint
}

// errNotMIME is EKS's error for user data that it cannot merge with its own.
var errNotMIME = errors.New("User data was not in the MIME multipart format.")

// userData returns what a node boots by: the user's part, if there is one, with EKS's own after it.
// https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html#launch-template-user-data
func (b boot) userData(family ami.Family, users []byte) ([]byte, error) {
	switch family {
	case ami.Bottlerocket:
		return b.bottlerocketTOML(users)
	case ami.AL2023:
		config, err := b.nodeConfig()
		if err != nil {
			return nil, err
		}
		return archive(users, "application/node.eks.aws", config)
	}
	return archive(users, `text/x-shellscript; charset="us-ascii"`, b.bootstrapScript())
}

// bootstrapScript calls bootstrap.sh of Amazon Linux 2.
func (b boot) bootstrapScript() []byte {
	var extra []string
	extra = append(extra, "--node-labels="+joinPairs(b.Labels))
	if len(b.Taints) > 0 {
		extra = append(extra, "--register-with-taints="+taintList(b.Taints))
	}
	if b.MaxPods > 0 {
		extra = append(extra, fmt.Sprintf("--max-pods=%d", b.MaxPods))
	}
	var s strings.Builder
	fmt.Fprintf(&s, "#!/bin/bash\nset -ex\nB64_CLUSTER_CA=%s\nAPI_SERVER_URL=%s\nK8S_CLUSTER_DNS_IP=%s\n",
		base64.StdEncoding.EncodeToString(b.Authority), b.Endpoint, b.clusterDNSIP())
	fmt.Fprintf(&s,
		"/etc/eks/bootstrap.sh %s --kubelet-extra-args '%s' --b64-cluster-ca $B64_CLUSTER_CA --apiserver-endpoint "+
			"$API_SERVER_URL --dns-cluster-ip $K8S_CLUSTER_DNS_IP",
		b.Cluster, strings.Join(extra, " "))
	if b.MaxPods > 0 {
		s.WriteString(" --use-max-pods false")
	}
	if b.IPv6 {
		fmt.Fprintf(&s, " --ip-family ipv6 --service-ipv6-cidr %s", b.ServiceCIDR)
	}
	s.WriteString("\n")
	return []byte(s.String())
}

// nodeConfig returns the document of nodeadm on Amazon Linux 2023.
func (b boot) nodeConfig() ([]byte, error) {
	flags := []string{"--node-labels=" + joinPairs(b.Labels)}
	if len(b.Taints) > 0 {
		flags = append(flags, "--register-with-taints="+taintList(b.Taints))
	}
	config := map[string]any{"clusterDNS": []string{b.clusterDNSIP()}}
	if b.MaxPods > 0 {
		config["maxPods"] = b.MaxPods
	}
	text, err := yaml.Marshal(map[string]any{
		"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig",
		"spec": map[string]any{
			"cluster": map[string]any{
				"name": b.Cluster, "apiServerEndpoint": b.Endpoint,
				"certificateAuthority": base64.StdEncoding.EncodeToString(b.Authority), "cidr": b.ServiceCIDR,
			},
			"kubelet": map[string]any{"config": config, "flags": flags},
		},
	})
	return append([]byte("---\n"), text...), err
}

// bottlerocketTOML merges EKS's settings over the user's, for Bottlerocket.
func (b boot) bottlerocketTOML(users []byte) ([]byte, error) {
	err := document.CheckTOML(users)
	tables := map[string]any{}
	if err == nil {
		err = toml.Unmarshal(users, &tables)
	}
	if err != nil {
		return nil, fmt.Errorf("User data was not in the TOML format: %w.", err)
	}
	table := func(in map[string]any, name string) (map[string]any, error) {
		if in[name] == nil {
			in[name] = map[string]any{}
		}
		t, ok := in[name].(map[string]any)
		if !ok {
			return nil, fmt.Errorf("User data was not in the TOML format: %s is not a table.", name)
		}
		return t, nil
	}
	settings, err := table(tables, "settings")
	if err != nil {
		return nil, err
	}
	kubernetes, err := table(settings, "kubernetes")
	if err != nil {
		return nil, err
	}
	kubernetes["api-server"], kubernetes["cluster-name"] = b.Endpoint, b.Cluster
	kubernetes["cluster-certificate"] = base64.StdEncoding.EncodeToString(b.Authority)
	kubernetes["cluster-dns-ip"] = b.clusterDNSIP()
	if _, chosen := kubernetes["max-pods"]; b.MaxPods > 0 && !chosen {
		kubernetes["max-pods"] = b.MaxPods
	}
	labels, err := table(kubernetes, "node-labels")
	if err != nil {
		return nil, err
	}
	for k, v := range b.Labels {
		labels[k] = v
	}
	if len(b.Taints) > 0 {
		taints, err := table(kubernetes, "node-taints")
		if err != nil {
			return nil, err
		}
		byKey := map[string][]string{}
		for _, t := range b.Taints {
			byKey[*t.Key] = append(byKey[*t.Key], stringValue(t.Value)+":"+taintEffect(t.Effect))
		}
		for k, v := range byKey {
			taints[k] = v
		}
	}
	return toml.Marshal(tables)
}

// archive returns a MIME archive of the parts of the user's, as they are, and one more.
func archive(users []byte, kind string, content []byte) ([]byte, error) {
	var out bytes.Buffer
	w := multipart.NewWriter(&out)
	if err := w.SetBoundary("//"); err != nil {
		return nil, err
	}
	fmt.Fprintf(&out, "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=%q\n\n", w.Boundary())
	add := func(header textproto.MIMEHeader, content []byte) error {
		part, err := w.CreatePart(header)
		if err == nil {
			_, err = part.Write(content)
		}
		return err
	}
	if len(bytes.TrimSpace(users)) > 0 {
		message, err := mail.ReadMessage(bytes.NewReader(users))
		if err != nil {
			return nil, errNotMIME
		}
		mediaType, params, err := mime.ParseMediaType(message.Header.Get("Content-Type"))
		if err != nil || !strings.HasPrefix(mediaType, "multipart/") || params["boundary"] == "" {
			return nil, errNotMIME
		}
		parts := multipart.NewReader(message.Body, params["boundary"])
		for {
			part, err := parts.NextRawPart()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, errNotMIME
			}
			text, err := io.ReadAll(part)
			if err != nil {
				return nil, errNotMIME
			}
			if err := add(part.Header, text); err != nil {
				return nil, err
			}
		}
	}
	if err := add(textproto.MIMEHeader{"Content-Type": {kind}}, content); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// clusterDNSIP returns the address of kube-dns: the tenth of the range of Services.
func (b boot) clusterDNSIP() string {
	prefix, err := netip.ParsePrefix(b.ServiceCIDR)
	if err != nil {
		return ""
	}
	a := prefix.Masked().Addr()
	for range 10 {
		a = a.Next()
	}
	return a.String()
}

// joinPairs returns a map as the kubelet takes it, "a=1,b=2".
func joinPairs(m map[string]string) string {
	var all []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		all = append(all, k+"="+m[k])
	}
	return strings.Join(all, ",")
}

// taintList returns taints as the kubelet takes them, "key=value:NoSchedule,...".
func taintList(taints []ekstypes.Taint) string {
	var all []string
	for _, t := range taints {
		all = append(all, *t.Key+"="+stringValue(t.Value)+":"+taintEffect(t.Effect))
	}
	return strings.Join(all, ",")
}

// taintEffect returns an effect as Kubernetes writes it.
func taintEffect(e ekstypes.TaintEffect) string {
	switch e {
	case ekstypes.TaintEffectNoExecute:
		return "NoExecute"
	case ekstypes.TaintEffectPreferNoSchedule:
		return "PreferNoSchedule"
	}
	return "NoSchedule"
}

func stringValue(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func ptr[T any](v T) *T { return &v }
