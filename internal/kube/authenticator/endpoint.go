package authenticator

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"github.com/coracle-eks/coracle/internal/pki"
)

const (
	// cacheTTL is the time for which an API server may cache a response.
	cacheTTL = time.Second
	// timeout is the time that an API server waits for an authorization response.
	timeout = 5 * time.Second
)

// clientName returns the common name of the client certificate of a cluster's API server.
func clientName(clusterID string) string { return "authenticator-client:" + clusterID }

// ServerLeaf returns the certificate of the listener that serves the webhooks on the given address.
func ServerLeaf(ip net.IP) pki.Leaf {
	return pki.Leaf{CommonName: "authenticator", IPs: []net.IP{ip}, Server: true}
}

// ClientLeaf returns the client certificate of a cluster's API server, to be issued by the same authority.
func ClientLeaf(clusterID string) pki.Leaf {
	return pki.Leaf{CommonName: clientName(clusterID), Client: true}
}

// TLSConfig returns the listener's configuration: server is the PEM pair that [ServerLeaf] describes, and clients must
// present a certificate of authority.
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

// Endpoint is the endpoint of the webhooks for the API server of one cluster. Its URL has to stay the same over
// restarts of the daemon, because API servers outlive them.
type Endpoint struct {
	ClusterID string
	URL       string // of the listener: https://127.0.0.1:24567
	CA        []byte // PEM of the authority of the listener's certificate
	// CertificateFile and KeyFile hold what [ClientLeaf] describes. They are read again when
	// they change.
	CertificateFile, KeyFile string
}

// Kubeconfig returns the kubeconfig of one of the webhooks, "authenticate" or "authorize".
func (e Endpoint) Kubeconfig(webhook string) ([]byte, error) {
	config := clientcmdapi.NewConfig()
	config.Clusters["authenticator"] = &clientcmdapi.Cluster{
		Server:                   e.URL + "/clusters/" + e.ClusterID + "/" + webhook,
		CertificateAuthorityData: e.CA,
	}
	config.AuthInfos["kube-apiserver"] = &clientcmdapi.AuthInfo{ClientCertificate: e.CertificateFile,
		ClientKey: e.KeyFile}
	config.Contexts["webhook"] = &clientcmdapi.Context{Cluster: "authenticator", AuthInfo: "kube-apiserver"}
	config.CurrentContext = "webhook"
	return clientcmd.Write(*config)
}

// AdmissionKubeconfig returns the kubeconfig of the admission plugins MutatingAdmissionWebhook and
// ValidatingAdmissionWebhook, with what the API server shows to the listener alone.
// https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/#authenticate-apiservers
func (e Endpoint) AdmissionKubeconfig() ([]byte, error) {
	config := clientcmdapi.NewConfig()
	config.AuthInfos[strings.TrimPrefix(e.URL, "https://")] = &clientcmdapi.AuthInfo{
		ClientCertificate: e.CertificateFile, ClientKey: e.KeyFile}
	return clientcmd.Write(*config)
}

// MutateURL returns the URL to which the API server sends admission reviews of pods.
func (e Endpoint) MutateURL() string { return e.URL + "/clusters/" + e.ClusterID + "/mutate" }

// FargateURL returns the URL to which the API server sends the admission reviews of Fargate's webhooks.
func (e Endpoint) FargateURL() string { return e.URL + "/clusters/" + e.ClusterID + "/fargate" }

// VPCResourceURL returns the URL below which the API server sends the admission reviews of the webhooks of the VPC
// resource controller.
func (e Endpoint) VPCResourceURL() string { return e.URL + "/clusters/" + e.ClusterID }

// TokenWebhookFlags have an API server ask the webhook behind that kubeconfig about bearer tokens.
//
// It goes by the answer for one second, so that a change of access takes effect within two. That
// is the cache that a bundle's API server has for all tokens (kubernetes/source/main.go.txt); the
// webhook's own, behind it, is switched off.
func TokenWebhookFlags(kubeconfig string) []string {
	return []string{
		"--authentication-token-webhook-config-file=" + kubeconfig,
		"--authentication-token-webhook-version=v1",
		"--authentication-token-webhook-cache-ttl=0s",
	}
}

// AuthorizationConfiguration returns the file for --authorization-config: Node, RBAC, and for IAM identities the
// webhook of that kubeconfig, if one is given. RBAC comes before the webhook, so that what it allows, such as every
// request of a node, costs no call; the condition spares the call for users who cannot have an access entry: those with
// certificates, but [ManagedUser], and service accounts. While the webhook cannot be reached, what RBAC does not allow
// is denied.
// https://kubernetes.io/docs/reference/access-authn-authz/authorization/#using-configuration-file-for-authorization
func AuthorizationConfiguration(webhookKubeconfig string) ([]byte, error) {
	type object = map[string]any
	authorizers := []object{{"type": "Node", "name": "node"}, {"type": "RBAC", "name": "rbac"}}
	if webhookKubeconfig != "" {
		authorizers = append(authorizers, object{"type": "Webhook", "name": "eks-access-policy", "webhook": object{
			"authorizedTTL":              metav1.Duration{Duration: cacheTTL},
			"unauthorizedTTL":            metav1.Duration{Duration: cacheTTL},
			"timeout":                    metav1.Duration{Duration: timeout},
			"subjectAccessReviewVersion": "v1",
			"matchConditionSubjectAccessReviewVersion": "v1",
			"failurePolicy":  "Deny",
			"connectionInfo": object{"type": "KubeConfigFile", "kubeConfigFile": webhookKubeconfig},
			"matchConditions": []object{
				{"expression": "has(request.extra) && ('" + extraPrincipal + "' in request.extra || '" +
					strings.ToLower(extraPrincipal) + "' in request.extra) || request.user == '" + ManagedUser + "'"},
			},
		}})
	}
	return yaml.Marshal(object{
		"apiVersion":  "apiserver.config.k8s.io/v1", // which Kubernetes 1.32 and later read
		"kind":        "AuthorizationConfiguration",
		"authorizers": authorizers,
	})
}
