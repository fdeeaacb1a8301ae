package simulated

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/coracle-eks/coracle/internal/document"
	"github.com/coracle-eks/coracle/internal/guest/cloudinit"
	"github.com/coracle-eks/coracle/internal/record"
)

// node is the node that user data configure on a machine.
type node struct {
	cluster   string
	endpoint  string // of the API server, if it is given
	authority []byte // PEM, if it is given
	labels    map[string]string
	taints    []corev1.Taint
	maxPods   int // 0 when the instance type decides
}

// parseUserData reads what the boot scripts of EKS's images act on: a call of /etc/eks/bootstrap.sh in a shell script
// (Amazon Linux 2), NodeConfigs (Amazon Linux 2023), or Bottlerocket's settings. It is nil for user data without any.
func parseUserData(data []byte) (*node, error) {
	if settings, err := parseBottlerocket(data); settings != nil || err != nil {
		return settings, err
	}
	parts, err := cloudinit.ParseWithin(data, maxText)
	if err != nil {
		return nil, err
	}
	n := &node{labels: map[string]string{}}
	left := maxText
	for _, part := range parts {
		if left -= len(part.Content); left < 0 {
			return nil, errText
		}
	}
	for _, part := range parts {
		switch part.Type {
		case cloudinit.NodeConfig:
			err = n.nodeConfig(part.Content)
		case cloudinit.ShellScript, cloudinit.Boothook, cloudinit.CloudConfig:
			err = n.parseScript(string(part.Content), &left)
		}
		if err != nil {
			return nil, err
		}
	}
	if n.cluster == "" {
		return nil, nil
	}
	if len(n.cluster) > maxName {
		return nil, fmt.Errorf("the name of the cluster has %d characters; it may have %d", len(n.cluster), maxName)
	}
	return n, nil
}

// against returns the reason why a kubelet with these settings cannot reach the cluster.
func (n *node) against(plane record.ControlPlane) string {
	if n.endpoint != "" && !strings.EqualFold(strings.TrimSuffix(n.endpoint, "/"), plane.Endpoint) {
		return fmt.Sprintf("the API server of the cluster is at %s, not at %s", plane.Endpoint, n.endpoint)
	}
	if n.authority != nil && !bytes.Equal(bytes.TrimSpace(n.authority), bytes.TrimSpace(plane.CertificateAuthority)) {
		return "tls: failed to verify certificate: x509: certificate signed by unknown authority"
	}
	return ""
}

// assignment is a line of a script that sets a variable to a word.
var assignment = regexp.MustCompile(`^(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)=(.*)$`)

// maxLine is the maximum length of a line in bytes when its variables are replaced: that of a Linux command line. A
// variable may hold others, and so each line of a script could otherwise double the one before it.
const maxLine = 128 << 10

// maxText is the maximum size in bytes of all parts of user data, uncompressed and with variables replaced. The daemon
// reads them, for every account, and again while the cluster that they name does not exist.
const maxText = 1 << 20

// maxSettings is the maximum size of Bottlerocket's settings in bytes: the parser's time grows with the square of their
// keys.
const maxSettings = 128 << 10

// maxName is the maximum length of the name of a cluster, in characters.
// https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateCluster.html
const maxName = 100

// parseScript searches for a call of bootstrap.sh. It knows the variables that the script sets before it to plain
// words. The length that expansion adds to lines is subtracted from left.
// https://github.com/awslabs/amazon-eks-ami/blob/main/templates/al2/runtime/bootstrap.sh
func (n *node) parseScript(text string, left *int) error {
	variables := map[string]string{}
	for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", " ")) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") {
			continue
		}
		split := func(text string) ([]string, error) {
			words, err := splitWords(text, variables)
			for _, w := range words {
				*left -= len(w)
			}
			if err == nil && *left < 0 {
				err = errText
			}
			return words, err
		}
		if m := assignment.FindStringSubmatch(line); m != nil {
			words, err := split(m[2])
			if err != nil {
				return err
			}
			if len(words) == 1 {
				variables[m[1]] = words[0]
				continue
			}
		}
		if !strings.Contains(line, "bootstrap.sh") {
			continue
		}
		words, err := split(line)
		if err != nil {
			return err
		}
		for i, w := range words {
			if strings.HasSuffix(w, "bootstrap.sh") {
				return n.bootstrap(words[i+1:])
			}
		}
	}
	return nil
}

// bootstrap reads the arguments of bootstrap.sh.
func (n *node) bootstrap(args []string) error {
	for i := 0; i < len(args); i++ {
		name, value, inline := strings.Cut(args[i], "=")
		if !strings.HasPrefix(name, "--") {
			if strings.ContainsAny(args[i], ";|&>") {
				break // the script goes on
			}
			if n.cluster == "" {
				n.cluster = args[i]
			}
			continue
		}
		if !inline {
			if i++; i == len(args) {
				return fmt.Errorf("bootstrap.sh: %s needs a value", name)
			}
			value = args[i]
		}
		switch name {
		case "--kubelet-extra-args":
			flags, err := splitWords(value, nil)
			if err == nil {
				err = n.kubelet(flags)
			}
			if err != nil {
				return err
			}
		case "--apiserver-endpoint":
			n.endpoint = value
		case "--b64-cluster-ca":
			if err := n.decodeAuthority(value); err != nil {
				return err
			}
		}
	}
	if n.cluster == "" {
		return fmt.Errorf("bootstrap.sh: CLUSTER_NAME is not defined")
	}
	return nil
}

func (n *node) decodeAuthority(text string) error {
	var err error
	if n.authority, err = base64.StdEncoding.DecodeString(text); err != nil {
		return fmt.Errorf("the certificate authority of the cluster is no base64: %w", err)
	}
	return nil
}

// kubelet reads flags of the kubelet.
func (n *node) kubelet(flags []string) error {
	for i := 0; i < len(flags); i++ {
		name, value, inline := strings.Cut(flags[i], "=")
		if !inline && i+1 < len(flags) && !strings.HasPrefix(flags[i+1], "-") {
			i++
			value = flags[i]
		}
		switch name {
		case "--node-labels":
			for pair := range strings.SplitSeq(value, ",") {
				if label, v, _ := strings.Cut(strings.TrimSpace(pair), "="); label != "" {
					n.labels[label] = v
				}
			}
		case "--register-with-taints":
			for text := range strings.SplitSeq(value, ",") {
				if text = strings.TrimSpace(text); text == "" {
					continue
				}
				taint, err := parseTaint(text)
				if err != nil {
					return err
				}
				n.taints = append(n.taints, taint)
			}
		case "--max-pods":
			var err error
			if n.maxPods, err = strconv.Atoi(value); err != nil {
				return fmt.Errorf("kubelet: --max-pods: %w", err)
			}
		}
	}
	return nil
}

// parseTaint reads key=value:effect or key:effect.
func parseTaint(text string) (t corev1.Taint, err error) {
	rest, effect, found := strings.Cut(text, ":")
	t.Key, t.Value, _ = strings.Cut(rest, "=")
	t.Effect = corev1.TaintEffect(effect)
	switch t.Effect {
	case corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute:
	default:
		found = false
	}
	if !found || t.Key == "" {
		return t, fmt.Errorf("kubelet: %q is no taint, which is key=value:effect", text)
	}
	return t, nil
}

// maxDocuments is the maximum number of YAML documents of a NodeConfig.
const maxDocuments = 100

// nodeConfig reads a NodeConfig. Of several, each adds to those before.
// https://awslabs.github.io/amazon-eks-ami/nodeadm/doc/api/
func (n *node) nodeConfig(documents []byte) error {
	if n := bytes.Count(documents, []byte("\n---")); n > maxDocuments {
		return fmt.Errorf("nodeadm: NodeConfig: %d documents are more than the %d that are read", n, maxDocuments)
	}
	for text := range strings.SplitSeq(string(documents), "\n---") {
		var c struct {
			Kind string `json:"kind"`
			Spec struct {
				Cluster struct {
					Name                 string `json:"name"`
					APIServerEndpoint    string `json:"apiServerEndpoint"`
					CertificateAuthority string `json:"certificateAuthority"`
				} `json:"cluster"`
				Kubelet struct {
					Config struct {
						MaxPods            int            `json:"maxPods"`
						RegisterWithTaints []corev1.Taint `json:"registerWithTaints"`
					} `json:"config"`
					Flags []string `json:"flags"`
				} `json:"kubelet"`
			} `json:"spec"`
		}
		err := document.CheckYAML([]byte(text))
		if err == nil {
			err = yaml.Unmarshal([]byte(text), &c)
		}
		if err != nil {
			return fmt.Errorf("nodeadm: NodeConfig: %w", err)
		}
		if c.Kind != "NodeConfig" {
			continue
		}
		if c.Spec.Cluster.Name != "" {
			n.cluster = c.Spec.Cluster.Name
		}
		if c.Spec.Cluster.APIServerEndpoint != "" {
			n.endpoint = c.Spec.Cluster.APIServerEndpoint
		}
		if c.Spec.Cluster.CertificateAuthority != "" {
			if err := n.decodeAuthority(c.Spec.Cluster.CertificateAuthority); err != nil {
				return err
			}
		}
		if c.Spec.Kubelet.Config.MaxPods != 0 {
			n.maxPods = c.Spec.Kubelet.Config.MaxPods
		}
		n.taints = append(n.taints, c.Spec.Kubelet.Config.RegisterWithTaints...)
		if err := n.kubelet(c.Spec.Kubelet.Flags); err != nil {
			return err
		}
	}
	return nil
}

// parseBottlerocket reads Bottlerocket's settings; nil when the data are something else.
// https://bottlerocket.dev/en/os/latest/#/api/settings/kubernetes/
func parseBottlerocket(data []byte) (*node, error) {
	data, err := cloudinit.DecodeWithin(data, maxText)
	if err == nil && len(data) > maxText {
		return nil, errText
	}
	if err != nil || !bytes.Contains(data, []byte("settings.kubernetes")) {
		return nil, err
	}
	if len(data) > maxSettings {
		return nil, fmt.Errorf("the Bottlerocket settings are more than %d KiB", maxSettings>>10)
	}
	var c struct {
		Settings struct {
			Kubernetes struct {
				ClusterName        string            `toml:"cluster-name"`
				APIServer          string            `toml:"api-server"`
				ClusterCertificate string            `toml:"cluster-certificate"`
				MaxPods            int               `toml:"max-pods"`
				NodeLabels         map[string]string `toml:"node-labels"`
				NodeTaints         map[string]any    `toml:"node-taints"`
			} `toml:"kubernetes"`
		} `toml:"settings"`
	}
	err = document.CheckTOML(data)
	if err == nil {
		err = toml.Unmarshal(data, &c)
	}
	if err != nil {
		return nil, nil //nolint:nilerr // a script that only mentions the settings
	}
	s := c.Settings.Kubernetes
	if s.ClusterName == "" {
		return nil, nil
	}
	n := &node{cluster: s.ClusterName, endpoint: s.APIServer, maxPods: s.MaxPods, labels: map[string]string{}}
	for k, v := range s.NodeLabels {
		n.labels[k] = v
	}
	if s.ClusterCertificate != "" {
		if err := n.decodeAuthority(s.ClusterCertificate); err != nil {
			return nil, err
		}
	}
	for key, value := range s.NodeTaints { // "value:Effect", or several of them
		values, several := value.([]any)
		if !several {
			values = []any{value}
		}
		for _, v := range values {
			taint, err := parseTaint(fmt.Sprintf("%s=%v", key, v))
			if err != nil {
				return nil, err
			}
			n.taints = append(n.taints, taint)
		}
	}
	return n, nil
}

// splitWords divides a command line into words as a shell does that knows quotes and variables, and nothing else. It
// refuses a line that becomes longer than maxLine.
func splitWords(line string, variables map[string]string) ([]string, error) {
	if len(line) > maxLine {
		return nil, errLine
	}
	var words []string
	var word strings.Builder
	open, quote := false, rune(0)
	length := len(line)
	flush := func() {
		if open {
			words = append(words, word.String())
			word.Reset()
			open = false
		}
	}
	expand := func(text string) string {
		if variables == nil {
			return text
		}
		return os.Expand(text, func(name string) string {
			if length += len(variables[name]); length > maxLine {
				return ""
			}
			return variables[name]
		})
	}
	var plain strings.Builder // what is still to be expanded
	expandPlain := func() {
		word.WriteString(expand(plain.String()))
		plain.Reset()
	}
	escaped := false
	for _, r := range line {
		switch {
		case escaped:
			expandPlain()
			word.WriteRune(r)
			open, escaped = true, false
		case r == '\\' && quote != '\'':
			escaped = true
		case quote == 0 && (r == '\'' || r == '"'):
			expandPlain()
			quote, open = r, true
		case r == quote:
			if quote == '\'' {
				word.WriteString(plain.String())
				plain.Reset()
			} else {
				expandPlain()
			}
			quote = 0
		case quote == 0 && (r == ' ' || r == '\t' || r == '\n'):
			expandPlain()
			flush()
		default:
			plain.WriteRune(r)
			open = true
		}
	}
	expandPlain()
	flush()
	if length > maxLine {
		return nil, errLine
	}
	return words, nil
}

var errText = fmt.Errorf("the user data have more than %d KiB of text, uncompressed and with the variables of scripts "+
	"replaced: a simulated machine reads no more", maxText>>10)

var errLine = fmt.Errorf("a line of the user data's script is longer than %d KiB once its variables are replaced",
	maxLine>>10)
