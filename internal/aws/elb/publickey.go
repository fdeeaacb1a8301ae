package elb

import (
	"context"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"

	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// The names under which AWS serves public keys: public-keys.auth.elb.<region>.amazonaws.com.
const (
	publicKeysPrefix = "public-keys.auth.elb."
	publicKeysSuffix = ".amazonaws.com"
)

// PublicKeys serves GET /<key ID>: the public key by which targets verify the x-amzn-oidc-data of an Application Load
// Balancer, PEM. Requests are not signed, as on AWS.
// https://docs.aws.amazon.com/elasticloadbalancing/latest/application/listener-authenticate-users.html
type PublicKeys struct {
	balancers store.Index[record.LoadBalancer]
	log       *slog.Logger
}

// NewPublicKeys returns the handler of the keys of a store.
func NewPublicKeys(s *store.Store, log *slog.Logger) PublicKeys {
	return PublicKeys{record.LoadBalancersBySigningKey(s), log}
}

// Serves reports whether a request is for a name of public keys.
func (PublicKeys) Serves(r *http.Request) bool {
	_, ok := publicKeysRegion(r.Host)
	return ok
}

// publicKeysRegion returns the region of a name of public keys.
func publicKeysRegion(host string) (region string, ok bool) {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	rest, ok := strings.CutPrefix(strings.ToLower(host), publicKeysPrefix)
	if !ok {
		return "", false
	}
	return strings.CutSuffix(rest, publicKeysSuffix)
}

func (k PublicKeys) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "a public key is read with GET", http.StatusMethodNotAllowed)
		return
	}
	region, _ := publicKeysRegion(r.Host)
	id := strings.TrimPrefix(r.URL.Path, "/")
	key, err := k.find(r.Context(), region, id)
	switch {
	case errors.Is(err, store.ErrNotFound):
		w.Header().Set("Cache-Control", "no-store")
		http.Error(w, "no load balancer of "+region+" signs with a key of that ID", http.StatusNotFound)
		return
	case err != nil:
		k.log.Error("cannot serve the public key of a load balancer", "key", id, "error", err)
		http.Error(w, "Internal Server Error", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/x-pem-file")
	if _, err := io.WriteString(w, key); err != nil {
		k.log.Debug("client of public keys went away", "error", err)
	}
}

// find returns a public key, PEM; [store.ErrNotFound] where there is none.
func (k PublicKeys) find(ctx context.Context, region, id string) (string, error) {
	rows, err := k.balancers.List(ctx, id)
	if err != nil {
		return "", err
	}
	if id == "" || len(rows) != 1 || rows[0].Value.Region != region {
		return "", store.ErrNotFound
	}
	block, _ := pem.Decode([]byte(rows[0].Value.Application.SigningKey))
	if block == nil {
		return "", errors.New("the signing key of a load balancer is no PEM")
	}
	private, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return "", fmt.Errorf("the signing key of a load balancer: %w", err)
	}
	key, ok := private.(*ecdsa.PrivateKey)
	if !ok {
		return "", fmt.Errorf("the signing key of a load balancer is a %T", private)
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return "", fmt.Errorf("encode the public key of a load balancer: %w", err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})), nil
}
