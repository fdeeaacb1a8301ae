package authenticator

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"github.com/coracle-eks/coracle/internal/pki"
)

const (
	// cacheTTL is how long an API server may go by an earlier answer.
	cacheTTL = time.Second
	// timeout is how long an API server waits for an answer about authorisation.
	timeout = 5 * time.Second
)

// clientName is the common name of the client certificate of a cluster's API server.
func clientName(clusterID string) string { return "authenticator-client:" + clusterID }

// ServerLeaf is the certificate of the listener that serves the webhooks on the given address.
func ServerLeaf(ip net.IP) pki.Leaf {
	return pki.Leaf{CommonName: "authenticator", IPs: []net.IP{ip}, Server: true}
}

// ClientLeaf is the certificate with which the API server of a cluster asks, to be issued by the
// same authority.
func ClientLeaf(clusterID string) pki.Leaf {
	return pki.Leaf{CommonName: clientName(clusterID), Client: true}
}

// TLSConfig is the listener's: server is the PEM pair that [ServerLeaf] describes, and clients
// must show a certificate of authority.
func TLSConfig(authority *pki.Authority, server pki.Pair) (*tls.Config, error) {
	pair, err := tls.X509KeyPair(server.Certificate, server.Key)
	if err != nil {
		return nil, fmt.Errorf("certificate of the authenticator's listener: %w", err)
	}
	clients := x509.NewCertPool()
	clients.AddCert(authority.Certificate)
	return &tls.Config{
		Certificates: []tls.Certificate{pair},
		ClientAuth:   tls.RequireAndVerifyClientCert,
		ClientCAs:    clients,
		MinVersion:   tls.VersionTLS12,
	}, nil
}

// admitted reports whether a connection is from the API server of that cluster.
func admitted(state *tls.ConnectionState, clusterID string) bool {
	return state != nil && len(state.VerifiedChains) > 0 &&
		state.VerifiedChains[0][0].Subject.CommonName == clientName(clusterID)
}

// Endpoint is where the API server of one cluster finds the webhooks. The URL has to stay the
// same over restarts of the daemon, because API servers live through them.
type Endpoint struct {
	ClusterID string
	URL       string // of the listener: https://127.0.0.1:24567
	CA        []byte // PEM of the authority of the listener's certificate
	// CertificateFile and KeyFile hold what [ClientLeaf] describes. They are read again when
	// they change.
	CertificateFile, KeyFile string
}

// WriteFiles writes into dir what the API server must read to use the webhooks, and returns the
// flags that name it. They replace --authorization-mode.
//
// The API server goes by an answer for one second, so that a change of access takes effect within
// two: about tokens it has a cache of its own in front of the webhook's, which is switched off. When the webhooks cannot be reached, tokens of IAM identities are not accepted,
// and what RBAC does not allow to those that were accepted before is denied.
func (e Endpoint) WriteFiles(dir string) (flags []string, err error) {
	authentication := filepath.Join(dir, "authentication-webhook.kubeconfig")
	authorization := filepath.Join(dir, "authorization-webhook.kubeconfig")
	configuration := filepath.Join(dir, "authorization.yaml")
	for _, file := range []struct {
		name   string
		render func() ([]byte, error)
	}{
		{authentication, func() ([]byte, error) { return e.Kubeconfig("authenticate") }},
		{authorization, func() ([]byte, error) { return e.Kubeconfig("authorize") }},
		{configuration, func() ([]byte, error) { return AuthorizationConfiguration(authorization) }},
	} {
		data, err := file.render()
		if err != nil {
			return nil, fmt.Errorf("render %s: %w", file.name, err)
		}
		if err := writeFile(file.name, data); err != nil {
			return nil, err
		}
	}
	return []string{
		"--authentication-token-webhook-config-file=" + authentication,
		"--authentication-token-webhook-version=v1",
		"--authentication-token-webhook-cache-ttl=0s",
		"--authorization-config=" + configuration,
	}, nil
}

// Kubeconfig is the kubeconfig of one of the webhooks, "authenticate" or "authorize".
func (e Endpoint) Kubeconfig(webhook string) ([]byte, error) {
	config := clientcmdapi.NewConfig()
	config.Clusters["authenticator"] = &clientcmdapi.Cluster{
		Server:                   e.URL + "/clusters/" + e.ClusterID + "/" + webhook,
		CertificateAuthorityData: e.CA,
	}
	config.AuthInfos["kube-apiserver"] = &clientcmdapi.AuthInfo{ClientCertificate: e.CertificateFile, ClientKey: e.KeyFile}
	config.Contexts["webhook"] = &clientcmdapi.Context{Cluster: "authenticator", AuthInfo: "kube-apiserver"}
	config.CurrentContext = "webhook"
	return clientcmd.Write(*config)
}

// AuthorizationConfiguration is the file for --authorization-config: Node, RBAC, and for IAM
// identities the webhook behind that kubeconfig. RBAC comes before the webhook, so that what it
// allows, such as every request of a node, costs no call; the condition spares the call for
// users who cannot have an access entry: those with certificates and service accounts.
// https://kubernetes.io/docs/reference/access-authn-authz/authorization/#using-configuration-file-for-authorization
func AuthorizationConfiguration(webhookKubeconfig string) ([]byte, error) {
	// These are fields of apiserver.config.k8s.io/v1, which Kubernetes 1.32 and later read.
	type object = map[string]any
	return yaml.Marshal(object{
		"apiVersion": "apiserver.config.k8s.io/v1",
		"kind":       "AuthorizationConfiguration",
		"authorizers": []object{
			{"type": "Node", "name": "node"},
			{"type": "RBAC", "name": "rbac"},
			{"type": "Webhook", "name": "eks-access-policy", "webhook": object{
				"authorizedTTL":              metav1.Duration{Duration: cacheTTL},
				"unauthorizedTTL":            metav1.Duration{Duration: cacheTTL},
				"timeout":                    metav1.Duration{Duration: timeout},
				"subjectAccessReviewVersion": "v1",
				"matchConditionSubjectAccessReviewVersion": "v1",
				"failurePolicy":  "Deny",
				"connectionInfo": object{"type": "KubeConfigFile", "kubeConfigFile": webhookKubeconfig},
				"matchConditions": []object{
					{"expression": "has(request.extra) && '" + extraPrincipal + "' in request.extra"},
				},
			}},
		},
	})
}

// writeFile replaces a file at once unless it has that content already: the API server reads
// the authorisation configuration again whenever it changes.
func writeFile(name string, data []byte) error {
	old, err := os.ReadFile(name)
	if err == nil && bytes.Equal(old, data) {
		return nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	part := name + ".part"
	if err := os.WriteFile(part, data, 0o600); err != nil {
		return err
	}
	return os.Rename(part, name)
}
