package fargate

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/coracle-eks/coracle/internal/guest/imds"
	"github.com/coracle-eks/coracle/internal/guest/rootfs/boot"
)

// credentialsURL is where the metadata service has the credentials of the pod execution role, for the token. The pod,
// which has the machine's network, may see what is sent to this address, and get it: so the service has to prove that
// it is the host's.
const credentialsURL = "https://169.254.169.254/fargate/credentials"

// authorities is the file of the authority by which the machine knows its host, PEM.
const authorities = "/etc/pki/ca-trust/source/anchors/coracle.pem"

// maxCredentials bounds what is read of the metadata service's answer, in bytes.
const maxCredentials = 64 << 10

// Credentials returns the credentials of the pod execution role, for what runs beside the pod.
func Credentials(ctx context.Context) (imds.Credentials, error) { return credentialProcess{}.get(ctx) }

// credentialProcess prints the credentials of the pod execution role as the AWS SDKs want them from a process.
// https://docs.aws.amazon.com/sdkref/latest/guide/feature-process-credentials.html
type credentialProcess struct {
	url  string // empty: credentialsURL
	root string // of the file system; empty means /
}

func (p credentialProcess) print(ctx context.Context, stdout io.Writer) error {
	c, err := p.get(ctx)
	if err != nil {
		return fmt.Errorf("get the credentials of the pod execution role: %w", err)
	}
	return json.NewEncoder(stdout).Encode(struct {
		Version                                    int
		AccessKeyId, SecretAccessKey, SessionToken string //nolint:revive,staticcheck // the names of the SDKs
		Expiration                                 time.Time
	}{1, c.AccessKeyID, c.SecretAccessKey, c.Token, c.Expiration})
}

func (p credentialProcess) get(ctx context.Context) (c imds.Credentials, err error) {
	token, err := os.ReadFile(filepath.Join("/", p.root, boot.HostDir, boot.FargateTokenFile))
	if err != nil {
		return c, err
	}
	url := p.url
	if url == "" {
		url = credentialsURL
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second) // SDKs wait a minute
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return c, err
	}
	request.Header.Set("Authorization", string(bytes.TrimSpace(token)))
	trusted, err := os.ReadFile(filepath.Join("/", p.root, authorities))
	if err != nil {
		return c, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(trusted) {
		return c, fmt.Errorf("%s contains no PEM certificate", authorities)
	}
	transport := &http.Transport{Proxy: nil, DisableKeepAlives: true, // the address is on the link
		TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return c, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxCredentials))
	if err != nil {
		return c, err
	}
	if response.StatusCode != http.StatusOK {
		return c, fmt.Errorf("the metadata service answers %s: %.500s", response.Status, bytes.TrimSpace(body))
	}
	if err := json.Unmarshal(body, &c); err != nil {
		return c, err
	}
	if c.AccessKeyID == "" || c.SecretAccessKey == "" {
		return c, fmt.Errorf("the metadata service returned no credentials: %s: %s", c.Code, c.Message)
	}
	return c, nil
}
