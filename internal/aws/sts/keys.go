package sts

import (
	"context"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"golang.org/x/sync/singleflight"

	"github.com/coracle-eks/coracle/internal/outbound"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// KeySource finds the public keys of a token issuer.
type KeySource interface {
	// Keys returns the key set of an issuer, such as "https://oidc.eks.us-east-1.amazonaws.com/id/0123...". thumbprints
	// are those of the registered provider. fresh asks for keys that were not remembered from before. An issuer that
	// does not answer is an *UnreachableError.
	Keys(ctx context.Context, issuer string, thumbprints []string, fresh bool) (jose.JSONWebKeySet, error)
}

// UnreachableError reports that the keys of an issuer cannot be fetched. Its text is for the daemon's log: the callers
// of AssumeRoleWithWebIdentity are nobody yet, and are not told what this host can reach.
type UnreachableError struct {
	Issuer string
	Err    error
}

func (e *UnreachableError) Error() string {
	return fmt.Sprintf("fetch the keys of the identity provider %s: %v", e.Issuer, e.Err)
}

func (e *UnreachableError) Unwrap() error { return e.Err }

// Issuers is the KeySource of the daemon. The keys of its own clusters come from the store: their issuers bear names of
// AWS that do not lead here. Those of others are fetched by OpenID Connect discovery, from public addresses only
// (package outbound).
type Issuers struct {
	clusters store.Table[record.Issuer]
	policy   outbound.Policy
	log      *slog.Logger
	now      func() time.Time
	roots    *x509.CertPool // the host's when nil

	fetches singleflight.Group // by source
	mu      sync.Mutex
	known   map[string]remembered // by source
}

// remembered is the outcome of a fetch.
type remembered struct {
	keys jose.JSONWebKeySet
	err  error
	at   time.Time
}

const (
	keysLife    = time.Hour       // that remembered keys are used
	keysMinLife = 5 * time.Second // that an outcome is used even when it is a failure, or an unknown key is asked for
	fetchTime   = 5 * time.Second
	maxDocument = 128 << 10
	maxKnown    = 1024
)

// NewIssuers returns the key source of a store. Providers are fetched from addresses that policy admits. log is
// slog.Default() when nil.
func NewIssuers(s *store.Store, policy outbound.Policy, log *slog.Logger) *Issuers {
	if log == nil {
		log = slog.Default()
	}
	return &Issuers{clusters: record.Issuers(s), policy: policy, log: log, now: time.Now,
		known: map[string]remembered{}}
}

// Keys implements KeySource.
func (i *Issuers) Keys(ctx context.Context, issuer string, thumbprints []string, fresh bool) (
	jose.JSONWebKeySet, error) {
	if keys, ok, err := i.ofCluster(ctx, issuer); ok || err != nil {
		return keys, err
	}
	// Keys are only for those who vouch for where they came from: another account, or this one later, may have other
	// thumbprints.
	source := strings.Join(append([]string{issuer}, thumbprints...), " ")
	if known, ok := i.cachedOutcome(source, fresh); ok {
		return known.keys, known.err
	}
	fetch := i.fetches.DoChan(source, func() (any, error) {
		if known, ok := i.cachedOutcome(source, fresh); ok { // who was first has just come back
			return known, nil
		}
		keys, err := i.fetchKeys(context.WithoutCancel(ctx), issuer, thumbprints)
		if err != nil {
			err = &UnreachableError{issuer, err}
			i.log.Warn("the tokens of an identity provider are refused", "error", err)
		}
		known := remembered{keys, err, i.now()}
		i.mu.Lock()
		defer i.mu.Unlock()
		if len(i.known) >= maxKnown {
			clear(i.known)
		}
		i.known[source] = known
		return known, nil
	})
	select {
	case outcome := <-fetch:
		known := outcome.Val.(remembered)
		return known.keys, known.err
	case <-ctx.Done(): // others may wait for it
		return jose.JSONWebKeySet{}, ctx.Err()
	}
}

// cachedOutcome returns an outcome that is young enough. A failure is remembered for a moment only, which keeps callers
// from having the daemon connect as often as they ask.
func (i *Issuers) cachedOutcome(source string, fresh bool) (remembered, bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	known, ok := i.known[source]
	age := i.now().Sub(known.at)
	return known, ok && (age < keysMinLife || !fresh && known.err == nil && age < keysLife)
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

// fetchKeys reads the issuer's discovery document and the key set that it names.
// https://openid.net/specs/openid-connect-discovery-1_0.html
func (i *Issuers) fetchKeys(ctx context.Context, issuer string, thumbprints []string) (jose.JSONWebKeySet, error) {
	var keys jose.JSONWebKeySet
	client := outbound.Client(outbound.Options{
		Policy: i.policy, MaxBody: maxDocument, Timeout: fetchTime,
		TLS: &tls.Config{
			MinVersion: tls.VersionTLS12,
			// Not unchecked: VerifyConnection does all that Go would, and takes the provider's thumbprints besides the
			// host's authorities.
			InsecureSkipVerify: true, //nolint:gosec // see above
			VerifyConnection: func(state tls.ConnectionState) error {
				return verifyChain(state, thumbprints, i.roots)
			},
		},
	})
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, 2*fetchTime) // of both documents
	defer cancel()
	if !strings.HasPrefix(issuer, "https://") {
		return keys, errors.New("its URL does not begin with https://")
	}
	var discovery struct {
		Issuer  string `json:"issuer"`
		JWKSURI string `json:"jwks_uri"`
	}
	if err := getJSON(ctx, client, strings.TrimSuffix(issuer, "/")+"/.well-known/openid-configuration",
		&discovery); err != nil {
		return keys, err
	}
	if discovery.Issuer != issuer {
		return keys, fmt.Errorf("its discovery document is of the issuer %.500q", discovery.Issuer)
	}
	if !strings.HasPrefix(discovery.JWKSURI, "https://") {
		return keys, fmt.Errorf("its jwks_uri %.500q is not an https URL", discovery.JWKSURI)
	}
	var set struct {
		Keys []bareKey `json:"keys"`
	}
	if err := getJSON(ctx, client, discovery.JWKSURI, &set); err != nil {
		return jose.JSONWebKeySet{}, err
	}
	for _, key := range set.Keys {
		keys.Keys = append(keys.Keys, jose.JSONWebKey(key))
	}
	return usableKeys(keys)
}

// bareKey is a key without its certificates, which nothing needs here, and which take much more memory than their text.
type bareKey jose.JSONWebKey

// UnmarshalJSON implements json.Unmarshaler.
func (k *bareKey) UnmarshalJSON(text []byte) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		return err
	}
	maps.DeleteFunc(members, func(name string, _ json.RawMessage) bool {
		return strings.HasPrefix(strings.ToLower(name), "x5") // as encoding/json compares names
	})
	text, err := json.Marshal(members)
	if err != nil {
		return err
	}
	return (*jose.JSONWebKey)(k).UnmarshalJSON(text)
}

// Bounds of what verifying a token costs, which an identity provider chooses and an unsigned request causes.
const (
	maxKeys    = 100
	maxKeyID   = 1024 // bytes
	minRSABits = 2048
	maxRSABits = 4096
	// maxRSAExponent is beyond 65537, which all have. A verification takes time in proportion to its length.
	maxRSAExponent = 1 << 17
)

// usableKeys returns the keys of a set that may verify a token: RSA of a common size and exponent, and the curves of
// NIST.
func usableKeys(keys jose.JSONWebKeySet) (jose.JSONWebKeySet, error) {
	if len(keys.Keys) > maxKeys {
		return jose.JSONWebKeySet{}, fmt.Errorf("its key set has %d keys, and may have %d", len(keys.Keys), maxKeys)
	}
	keys.Keys = slices.DeleteFunc(keys.Keys, func(key jose.JSONWebKey) bool {
		if len(key.KeyID) > maxKeyID {
			return true
		}
		switch public := key.Key.(type) {
		case *rsa.PublicKey:
			bits := public.N.BitLen()
			return bits < minRSABits || bits > maxRSABits || public.E > maxRSAExponent
		case *ecdsa.PublicKey:
			return false
		}
		return true
	})
	if len(keys.Keys) == 0 {
		return jose.JSONWebKeySet{}, fmt.Errorf("its key set has no RSA key of %d to %d bits, with an exponent such as "+
			"65537, and no ECDSA key", minRSABits, maxRSABits)
	}
	return keys, nil
}

func getJSON(ctx context.Context, client *http.Client, url string, into any) error {
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
	if err := json.NewDecoder(response.Body).Decode(into); err != nil {
		return fmt.Errorf("%s: %w", url, err)
	}
	return nil
}

// verifyChain accepts a server whose certificate leads to an authority of the host, or to a certificate in its chain
// that has one of the provider's thumbprints.
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
		if slices.ContainsFunc(thumbprints,
			func(t string) bool { return strings.EqualFold(t, hex.EncodeToString(sum[:])) }) {
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
