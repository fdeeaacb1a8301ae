package controlplane

import (
	"context"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"time"

	"k8s.io/client-go/util/keyutil"

	"github.com/coracle-eks/coracle/internal/record"
)

// The key that signs the tokens of service accounts changes every seven days, as on EKS. An API server reads its keys
// only when it starts, and verifiers elsewhere remember the published key set. A key therefore changes in steps, each
// of which is recorded before it is carried out, and replaces the API server without an outage (handover.go):
//
//  1. A new key is stored. It is published, and the API server accepts its tokens; that is recorded, too.
//  2. After publicationTime the new key signs, and the former private key is forgotten.
//  3. After formerKeyLife the former public key is forgotten: it is neither published nor accepted.
//
// The record tells a daemon that starts which step is next. The resync of the controller is often enough for all.
//
// Tokens in Secrets (kubernetes.io/service-account-token) do not expire, and Kubernetes does not replace them when a
// key changes. The controller manager signs them with the first key of the cluster for ever, which the API server never
// stops accepting; others than the API server have no use for them, so the key is published no longer than another.
const (
	// signingTime is the time after which a key is replaced.
	// https://docs.aws.amazon.com/eks/latest/userguide/irsa-fetch-keys.html
	signingTime = 7 * 24 * time.Hour
	// publicationTime is the time for which verifiers may remember a key set: the max-age of package oidc.
	publicationTime = time.Hour
	// maxTokenLife is the most that the API server grants a request for a token, on EKS as well.
	maxTokenLife = 24 * time.Hour
	// formerKeyLife is the longest life of a token. The API server lets those that it gives to pods for an hour live
	// longer, for old clients that read them once: Kubernetes for a year, EKS for 90 days, after which it refuses them.
	// https://docs.aws.amazon.com/eks/latest/userguide/service-accounts.html
	formerKeyLife = 90 * 24 * time.Hour
)

// rotationStep is what is next for the service-account keys of a cluster.
type rotationStep int

const (
	keepKeys  rotationStep = iota
	forgetKey              // the oldest
	addKey                 // which will sign
	signWithKey
)

// nextStep returns the step that is due for the service-account keys of a cluster that was created at a time.
func nextStep(s record.ControlPlaneSecrets, created, now time.Time) rotationStep {
	all := s.ServiceAccountKeys
	if len(all) == 0 {
		if now.Before(created.Add(signingTime)) {
			return keepKeys
		}
		return addKey
	}
	if len(all) > 1 && passed(all[1].SigningSince, formerKeyLife, now) {
		return forgetKey
	}
	switch newest := all[len(all)-1]; {
	case passed(newest.SigningSince, signingTime, now):
		return addKey
	case newest.SigningSince.IsZero() && passed(newest.AcceptedAt, publicationTime, now):
		return signWithKey
	}
	return keepKeys
}

// passed reports whether a time has passed since an event; not if there was none yet.
func passed(since time.Time, d time.Duration, now time.Time) bool {
	return !since.IsZero() && !now.Before(since.Add(d))
}

// advanceKeys carries out a step in the record.
func advanceKeys(
	s *record.ControlPlaneSecrets, step rotationStep, created, now time.Time, next record.ServiceAccountKey,
) error {
	switch step {
	case keepKeys:
	case forgetKey:
		s.ServiceAccountKeys = s.ServiceAccountKeys[1:]
	case addKey:
		if len(s.ServiceAccountKeys) == 0 {
			key, err := parseRSA(s.ServiceAccountKey)
			if err != nil {
				return err
			}
			first, err := newServiceAccountKey(key)
			if err != nil {
				return err
			}
			first.AcceptedAt, first.SigningSince = created, created
			s.ServiceAccountKeys = append(s.ServiceAccountKeys, first)
		}
		s.ServiceAccountKeys = append(s.ServiceAccountKeys, next)
	case signWithKey:
		newest := len(s.ServiceAccountKeys) - 1
		s.ServiceAccountKeys[newest].SigningSince = now
		s.ServiceAccountKeys[newest-1].PrivateKey = nil
	}
	return nil
}

// rotateKeys carries out the steps that are due in the record of the cluster's keys, and returns it.
func (c *Controller) rotateKeys(ctx context.Context, cluster record.Cluster, s record.ControlPlaneSecrets) (
	record.ControlPlaneSecrets, error) {
	for {
		now := c.clock.Now().UTC()
		step := nextStep(s, cluster.CreatedAt, now)
		if step == keepKeys {
			return s, nil
		}
		var next record.ServiceAccountKey
		if step == addKey {
			key, err := c.rsaKey()
			if err != nil {
				return s, err
			}
			if next, err = newServiceAccountKey(key); err != nil {
				return s, err
			}
		}
		row, err := c.secrets.Modify(ctx, cluster.Key(), func(s *record.ControlPlaneSecrets) error {
			return advanceKeys(s, step, cluster.CreatedAt, now, next)
		})
		if err != nil {
			return s, err
		}
		s = row.Value
		switch step {
		case addKey:
			crashKeyAdded.Here()
			c.log.Info("a new key of service-account tokens is published", "cluster", cluster.Name)
		case signWithKey:
			crashKeySigns.Here()
			c.log.Info("service-account tokens are signed with the new key", "cluster", cluster.Name)
		}
	}
}

// recordAccepted records that the API server accepts the key that is next to sign, and that it is published.
func (c *Controller) recordAccepted(ctx context.Context, p plane) error {
	if !p.keys.serviceAccount.awaitsAcceptance {
		return nil
	}
	_, err := c.secrets.Modify(ctx, p.cluster.Key(), func(s *record.ControlPlaneSecrets) error {
		s.ServiceAccountKeys[len(s.ServiceAccountKeys)-1].AcceptedAt = c.clock.Now().UTC()
		return nil
	})
	if err != nil {
		return fmt.Errorf("record the new service-account key: %w", err)
	}
	crashKeyAccepted.Here()
	return nil
}

// serviceAccountKeys are the keys of service-account tokens.
type serviceAccountKeys struct {
	signing   *rsa.PrivateKey
	legacy    *rsa.PrivateKey  // of the tokens in Secrets
	published []*rsa.PublicKey // oldest first
	// awaitsAcceptance reports that the last of them is not known to be accepted by the API server.
	awaitsAcceptance bool
}

// accepted returns the public keys of the tokens that the API server accepts.
func (k serviceAccountKeys) accepted() []*rsa.PublicKey {
	for _, key := range k.published {
		if key.Equal(&k.legacy.PublicKey) {
			return k.published
		}
	}
	return append([]*rsa.PublicKey{&k.legacy.PublicKey}, k.published...)
}

// files returns the files from which the API server reads the keys.
func (k serviceAccountKeys) files() (files, error) {
	private, err := keyutil.MarshalPrivateKeyToPEM(k.signing)
	if err != nil {
		return nil, err
	}
	var public []byte
	for _, key := range k.accepted() {
		text, err := encodePublic(key)
		if err != nil {
			return nil, err
		}
		public = append(public, text...)
	}
	return files{"sa.key": private, "sa.pub": public}, nil
}

func parseServiceAccountKeys(s record.ControlPlaneSecrets) (k serviceAccountKeys, err error) {
	if k.legacy, err = parseRSA(s.ServiceAccountKey); err != nil {
		return k, err
	}
	if len(s.ServiceAccountKeys) == 0 {
		k.signing, k.published = k.legacy, []*rsa.PublicKey{&k.legacy.PublicKey}
		return k, nil
	}
	signing := s.ServiceAccountKeys[0]
	for _, key := range s.ServiceAccountKeys {
		parsed, err := keyutil.ParsePublicKeysPEM(key.PublicKey)
		if err != nil {
			return k, err
		}
		public, ok := parsed[0].(*rsa.PublicKey)
		if !ok {
			return k, fmt.Errorf("a %T is not an RSA key", parsed[0])
		}
		k.published = append(k.published, public)
		if !key.SigningSince.IsZero() {
			signing = key
		}
		k.awaitsAcceptance = key.AcceptedAt.IsZero()
	}
	k.signing, err = parseRSA(signing.PrivateKey)
	return k, err
}

func parseRSA(text []byte) (*rsa.PrivateKey, error) {
	parsed, err := keyutil.ParsePrivateKeyPEM(text)
	if err != nil {
		return nil, err
	}
	key, ok := parsed.(*rsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("a %T is not an RSA key", parsed)
	}
	return key, nil
}

// newServiceAccountKey returns the record of a key that neither signs nor is accepted yet.
func newServiceAccountKey(key *rsa.PrivateKey) (record.ServiceAccountKey, error) {
	private, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return record.ServiceAccountKey{}, err
	}
	public, err := encodePublic(&key.PublicKey)
	return record.ServiceAccountKey{PrivateKey: private, PublicKey: public}, err
}

func encodePublic(key *rsa.PublicKey) ([]byte, error) {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: keyutil.PublicKeyBlockType, Bytes: der}), nil
}
