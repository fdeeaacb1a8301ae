package sts

import (
	"context"
	"crypto/sha1"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// KeySource finds the public keys of a token issuer.
type KeySource interface {
	// Keys returns the key set of an issuer, such as "https://oidc.eks.us-east-1.amazonaws.com/id/0123...". thumbprints are those of the registered
	// provider. fresh asks for keys that were not remembered from before. An issuer that does not answer is an *UnreachableError.
	Keys(ctx context.Context, issuer string, thumbprints []string, fresh bool) (jose.JSONWebKeySet, error)
}

// UnreachableError says that the keys of an issuer could not be had.
type UnreachableError struct {
	Issuer string
	Err    error
}

func (e *UnreachableError) Error() string {
	return fmt.Sprintf("Couldn't retrieve the keys of your identity provider %s: %v", e.Issuer, e.Err)
}

func (e *UnreachableError) Unwrap() error { return e.Err }

// Issuers is the KeySource of the daemon. The keys of its own clusters come from the store: their issuers bear names of AWS that do not lead here.
// Those of others are fetched by OpenID Connect discovery.
type Issuers struct {
	clusters store.Table[record.Issuer]
	now      func() time.Time
	roots    *x509.CertPool // the host's when nil

	mu    sync.Mutex
	known map[string]remembered
}

type remembered struct {
	keys jose.JSONWebKeySet
	at   time.Time
}

const (
	keysLife     = time.Hour       // that remembered keys are used
	keysMinLife  = 5 * time.Second // that they are used even when an unknown key is asked for
	fetchTime    = 5 * time.Second
	maxDocument  = 1 << 20
	maxRedirects = 3
)

// NewIssuers returns the key source of a store.
func NewIssuers(s *store.Store) *Issuers {
	return &Issuers{clusters: record.Issuers(s), now: time.Now, known: map[string]remembered{}}
}

// Keys implements KeySource.
func (i *Issuers) Keys(ctx context.Context, issuer string, thumbprints []string, fresh bool) (jose.JSONWebKeySet, error) {
	if keys, ok, err := i.ofCluster(ctx, issuer); ok || err != nil {
		return keys, err
	}
	// Keys are only for those who vouch for where they came from: another account, or this one later, may have other thumbprints.
	source := strings.Join(append([]string{issuer}, thumbprints...), " ")
	i.mu.Lock()
	known, ok := i.known[source]
	i.mu.Unlock()
	age := i.now().Sub(known.at)
	if ok && (age < keysMinLife || !fresh && age < keysLife) {
		return known.keys, nil
	}
	keys, err := i.fetch(ctx, issuer, thumbprints)
	if err != nil {
		return keys, &UnreachableError{issuer, err}
	}
	i.mu.Lock()
	i.known[source] = remembered{keys, i.now()}
	i.mu.Unlock()
	return keys, nil
}

// ofCluster returns the keys of a cluster of this daemon.
func (i *Issuers) ofCluster(ctx context.Context, issuer string) (jose.JSONWebKeySet, bool, error) {
	var keys jose.JSONWebKeySet
	id := issuer[strings.LastIndexByte(issuer, '/')+1:]
	row, err := i.clusters.Get(ctx, store.Key(id))
	if errors.Is(err, store.ErrNotFound) || err == nil && record.IssuerURL(row.Value.Region, id) != issuer {
		return keys, false, nil
	}
	if err != nil {
		return keys, false, err
	}
	if err := json.Unmarshal(row.Value.JWKS, &keys); err != nil {
		return keys, false, fmt.Errorf("the key set of cluster %s: %w", row.Value.Cluster, err)
	}
	return keys, true, nil
}

// fetch reads the issuer's discovery document and the key set that it names.
// https://openid.net/specs/openid-connect-discovery-1_0.html
func (i *Issuers) fetch(ctx context.Context, issuer string, thumbprints []string) (jose.JSONWebKeySet, error) {
	var keys jose.JSONWebKeySet
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	transport := &http.Transport{
		Proxy:             http.ProxyFromEnvironment,
		DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{
			MinVersion: tls.VersionTLS12,
			// Not unchecked: VerifyConnection does all that Go would, and takes the provider's thumbprints besides the host's authorities.
			InsecureSkipVerify: true, //nolint:gosec // see above
			VerifyConnection: func(state tls.ConnectionState) error {
				return verifyChain(state, thumbprints, i.roots)
			},
		},
	}
	client := &http.Client{Transport: transport, CheckRedirect: func(r *http.Request, via []*http.Request) error {
		if len(via) > maxRedirects || r.URL.Scheme != "https" {
			return errors.New("redirected too often, or away from https")
		}
		return nil
	}}
	var discovery struct {
		Issuer  string `json:"issuer"`
		JWKSURI string `json:"jwks_uri"`
	}
	if err := get(ctx, client, strings.TrimSuffix(issuer, "/")+"/.well-known/openid-configuration", &discovery); err != nil {
		return keys, err
	}
	if discovery.Issuer != issuer {
		return keys, fmt.Errorf("its discovery document is of the issuer %q", discovery.Issuer)
	}
	if !strings.HasPrefix(discovery.JWKSURI, "https://") {
		return keys, fmt.Errorf("its jwks_uri %q is not an https URL", discovery.JWKSURI)
	}
	return keys, get(ctx, client, discovery.JWKSURI, &keys)
}

func get(ctx context.Context, client *http.Client, url string, into any) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %s", url, response.Status)
	}
	if err := json.NewDecoder(io.LimitReader(response.Body, maxDocument)).Decode(into); err != nil {
		return fmt.Errorf("%s: %w", url, err)
	}
	return nil
}

// verifyChain accepts a server whose certificate leads to an authority of the host, or to a certificate in its chain that has one of the
// provider's thumbprints.
func verifyChain(state tls.ConnectionState, thumbprints []string, roots *x509.CertPool) error {
	leaf, intermediates := state.PeerCertificates[0], x509.NewCertPool()
	for _, c := range state.PeerCertificates[1:] {
		intermediates.AddCert(c)
	}
	_, err := leaf.Verify(x509.VerifyOptions{DNSName: state.ServerName, Intermediates: intermediates, Roots: roots})
	if err == nil {
		return nil
	}
	pinned := x509.NewCertPool()
	found := false
	for _, c := range state.PeerCertificates {
		sum := sha1.Sum(c.Raw) //nolint:gosec // IAM's thumbprints are SHA-1
		if slices.ContainsFunc(thumbprints, func(t string) bool { return strings.EqualFold(t, hex.EncodeToString(sum[:])) }) {
			pinned.AddCert(c)
			found = true
		}
	}
	if !found {
		return err
	}
	_, err = leaf.Verify(x509.VerifyOptions{DNSName: state.ServerName, Intermediates: intermediates, Roots: pinned})
	return err
}
