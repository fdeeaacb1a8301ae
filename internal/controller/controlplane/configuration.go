package controlplane

import (
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"sigs.k8s.io/yaml"

	"github.com/coracle-eks/coracle/internal/record"
)

//go:embed audit.yaml
var auditPolicy []byte

// files are configuration files by name. They live in a directory that is named after their
// content, so that a process of an older configuration can start again from its own files until
// it is gone, and a changed file is a changed command line.
type files map[string][]byte

func (f files) hash() string {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(f)) {
		fmt.Fprintf(h, "%s\x00%d\x00", name, len(f[name]))
		h.Write(f[name])
	}
	return hex.EncodeToString(h.Sum(nil)[:6])
}

// writeConfiguration puts the files into their directory below config and returns its path.
func (c *Controller) writeConfiguration(clusterID string, f files) (string, error) {
	dir := c.clusterDir(clusterID, "config", f.hash())
	for name, content := range f {
		if err := ensureFile(filepath.Join(dir, name), content); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// removeConfigurations removes the configurations that no process uses any more.
func (c *Controller) removeConfigurations(clusterID string, used []string) error {
	entries, err := os.ReadDir(c.clusterDir(clusterID, "config"))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if dir := c.clusterDir(clusterID, "config", e.Name()); !slices.Contains(used, dir) {
			if err := os.RemoveAll(dir); err != nil {
				return err
			}
		}
	}
	return nil
}

// kubeconfig returns the kubeconfig with which a component reaches the API server.
func (c *Controller) kubeconfig(p plane, user, certificate string) ([]byte, error) {
	pki := func(name string) string { return c.clusterDir(p.cluster.ID, "pki", name) }
	return yaml.Marshal(map[string]any{
		"apiVersion":      "v1",
		"kind":            "Config",
		"current-context": user,
		"clusters": []any{map[string]any{"name": "kubernetes", "cluster": map[string]any{
			"server": p.serverURL(), "certificate-authority": p.trust,
		}}},
		"users": []any{map[string]any{"name": user, "user": map[string]any{
			"client-certificate": pki(certificate + ".crt"), "client-key": pki(certificate + ".key"),
		}}},
		"contexts": []any{map[string]any{"name": user, "context": map[string]any{"cluster": "kubernetes",
			"user": user}}},
	})
}

// authentication limits anonymous requests to the health checks, as EKS does, and accepts the tokens of the cluster's
// identity provider. Certificates, service-account tokens and the webhook come from flags. egress says whether there is
// an egress selector.
func authentication(p plane, egress bool) ([]byte, error) {
	version := "apiserver.config.k8s.io/v1"
	if p.minor == "1.33" {
		version = "apiserver.config.k8s.io/v1beta1"
	}
	config := map[string]any{
		"apiVersion": version,
		"kind":       "AuthenticationConfiguration",
		"anonymous": map[string]any{
			"enabled": true,
			"conditions": []any{map[string]any{"path": "/healthz"}, map[string]any{"path": "/livez"},
				map[string]any{"path": "/readyz"}},
		},
	}
	if provider := p.provider(); provider != nil {
		config["jwt"] = []any{tokensOf(*provider, egress)}
	}
	return yaml.Marshal(config)
}

// provider returns the identity provider with whose tokens users log in; nil without one. The API server of 1.33 could
// not be told by which way to reach it, so it is not asked to: such a cluster has none, as the API refuses it.
func (p plane) provider() *record.IdentityProvider {
	if p.minor == "1.33" {
		return nil
	}
	return p.cluster.TrustedProvider()
}

// tokensOf returns how the API server verifies tokens of an identity provider, and what they say of a user, as the
// flags --oidc-* of kube-apiserver do. The provider is reached through the same proxy as webhooks given by URL: its URL
// is a user's choice.
func tokensOf(provider record.IdentityProvider, egress bool) map[string]any {
	issuer := map[string]any{"url": provider.IssuerURL, "audiences": []any{provider.ClientID}}
	if egress {
		issuer["egressSelectorType"] = "controlplane"
	}
	claim, prefix := cmp.Or(provider.UsernameClaim, "sub"), provider.UsernamePrefix
	switch {
	case prefix == "-":
		prefix = ""
	case prefix == "" && claim != "email":
		prefix = provider.IssuerURL + "#"
	}
	mappings := map[string]any{"username": map[string]any{"claim": claim, "prefix": prefix}}
	if provider.GroupsClaim != "" {
		groupsPrefix := provider.GroupsPrefix
		if groupsPrefix == "-" {
			groupsPrefix = ""
		}
		mappings["groups"] = map[string]any{"claim": provider.GroupsClaim, "prefix": groupsPrefix}
	}
	config := map[string]any{
		"issuer":              issuer,
		"claimMappings":       mappings,
		"userValidationRules": userRules,
	}
	var rules []any
	for _, claim := range slices.Sorted(maps.Keys(provider.RequiredClaims)) {
		rules = append(rules, map[string]any{"claim": claim, "requiredValue": provider.RequiredClaims[claim]})
	}
	if rules != nil {
		config["claimValidationRules"] = rules
	}
	return config
}

// userRules keep the names of Kubernetes and of EKS, some of whose users administer clusters, from tokens.
var userRules = []any{
	map[string]any{"expression": "!user.username.startsWith('system:')", "message": "the username begins with system:"},
	map[string]any{"expression": "!user.username.startsWith('eks:')", "message": "the username begins with eks:"},
	map[string]any{"expression": "user.groups.all(group, !group.startsWith('system:'))",
		"message": "a group begins with system:"},
	map[string]any{"expression": "user.groups.all(group, !group.startsWith('eks:'))",
		"message": "a group begins with eks:"},
}

// egressConfiguration sends what the API server asks of kubelets, and of webhooks and aggregated APIs that are
// Services, through the proxy into the VPC, and what it asks of its authenticator, of webhooks given by URL and of
// identity providers through the other. Its etcd alone it reaches directly: users have a say in all other addresses.
func egressConfiguration(cluster, managed string) []byte {
	return fmt.Appendf(nil, `apiVersion: apiserver.k8s.io/v1beta1
kind: EgressSelectorConfiguration
egressSelections:
- {name: cluster, connection: %s}
- {name: controlplane, connection: %s}
- {name: etcd, connection: {proxyProtocol: Direct}}
`, through(cluster), through(managed))
}

// admission returns the configuration of admission plugins: what the API server shows to the admission webhooks.
func admission(hooks Webhooks, kubeconfig string) []byte {
	text := "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\n"
	if len(hooks.Admission) == 0 {
		return []byte(text + "plugins: []\n")
	}
	text += "plugins:\n"
	for _, plugin := range []string{"MutatingAdmissionWebhook", "ValidatingAdmissionWebhook"} {
		text += fmt.Sprintf(`- name: %s
  configuration:
    apiVersion: apiserver.config.k8s.io/v1
    kind: WebhookAdmissionConfiguration
    kubeConfigFile: %q
`, plugin, kubeconfig)
	}
	return []byte(text)
}

func through(socket string) string {
	return fmt.Sprintf("{proxyProtocol: HTTPConnect, transport: {uds: {udsName: %q}}}", socket)
}

// encryption encrypts Secrets in etcd by the KMS plugin at an endpoint, if there is one, or else with the cluster's
// newest key. What the cluster's keys have encrypted is read in either case.
func encryption(all [][]byte, plugin string) ([]byte, error) {
	var list []any
	for i, key := range all {
		list = append(list, map[string]any{"name": fmt.Sprintf("key%d", len(all)-i),
			"secret": base64.StdEncoding.EncodeToString(key)})
	}
	providers := []any{
		map[string]any{"secretbox": map[string]any{"keys": list}},
		map[string]any{"identity": map[string]any{}},
	}
	if plugin != "" {
		providers = slices.Insert(providers, 0, any(map[string]any{"kms": map[string]any{
			"apiVersion": "v2", "name": kmsProvider, "endpoint": plugin, "timeout": "5s",
		}}))
	}
	return yaml.Marshal(map[string]any{
		"apiVersion": "apiserver.config.k8s.io/v1",
		"kind":       "EncryptionConfiguration",
		"resources": []any{map[string]any{
			"resources": []any{"secrets"},
			"providers": providers,
		}},
	})
}

// schedulerConfiguration returns what the user's KubeSchedulerConfig says, on top of the defaults.
func schedulerConfiguration(cluster record.Cluster, kubeconfig string) ([]byte, error) {
	config := map[string]any{
		"apiVersion":       "kubescheduler.config.k8s.io/v1",
		"kind":             "KubeSchedulerConfiguration",
		"clientConnection": map[string]any{"kubeconfig": kubeconfig, "qps": clientQPS, "burst": clientBurst},
		"leaderElection":   map[string]any{"leaderElect": false},
		"enableProfiling":  false,
	}
	if k := cluster.KubeScheduler; k != nil && k.NodeResourcesFit != nil {
		strategy, err := scoringStrategy(k.NodeResourcesFit)
		if err != nil {
			return nil, err
		}
		config["profiles"] = []any{map[string]any{
			"schedulerName": "default-scheduler",
			"pluginConfig": []any{map[string]any{
				"name": "NodeResourcesFit",
				"args": map[string]any{
					"apiVersion":      "kubescheduler.config.k8s.io/v1",
					"kind":            "NodeResourcesFitArgs",
					"scoringStrategy": strategy,
				},
			}},
		}}
	}
	return yaml.Marshal(config)
}
