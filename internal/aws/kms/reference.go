package kms

import (
	"context"
	"errors"
	"regexp"
	"strings"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// reference is what a request names: a key, or an alias and the key that it stands for.
type reference struct {
	place
	keyID string // empty for an alias that does not exist
	alias string // "alias/team", if the request names one
	row   store.Row[record.KMSKey]
	err   error // why there is no row, for those who may know; nil when there is one
}

// key returns the key, or the error for one that does not exist.
func (r reference) key() (record.KMSKey, error) { return r.row.Value, r.err }

// arn returns the ARN of the key, or of the alias that does not exist.
func (r reference) arn() string {
	if r.keyID == "" {
		return record.KMSAliasARN(r.account, r.region, r.alias)
	}
	return record.KMSKeyARN(r.account, r.region, r.keyID)
}

var keyID = regexp.MustCompile(`^([0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|mrk-[0-9a-f]{32})$`)

// resolve finds the key that a request names by its ID or ARN, or by the name or ARN of an alias.
func (s *Service) resolve(ctx context.Context, id string) (reference, error) {
	r, err := parseReference(placeOf(ctx), id)
	if err != nil {
		return r, err
	}
	if r.alias != "" {
		alias, err := s.aliases.Get(ctx, record.KMSAliasKey(r.account, r.region, r.alias))
		if errors.Is(err, store.ErrNotFound) {
			r.err = notFound("Alias %s is not found.", r.arn())
			return r, nil
		}
		if err != nil {
			return r, err
		}
		r.keyID = alias.Value.KeyID
	}
	r.row, err = s.keys.Get(ctx, record.KMSKeyKey(r.account, r.region, r.keyID))
	if errors.Is(err, store.ErrNotFound) {
		r.err = notFound("Key '%s' does not exist", r.arn())
		return r, nil
	}
	return r, err
}

// resolveKey does what resolve does for operations that take no alias.
func (s *Service) resolveKey(ctx context.Context, id string) (reference, error) {
	if r, err := parseReference(placeOf(ctx), id); err == nil && r.alias != "" {
		if strings.HasPrefix(id, "arn:") {
			return r, invalidARN("ARN does not refer to a key: %s", id)
		}
		return r, notFound("Invalid keyId '%s'", id)
	}
	return s.resolve(ctx, id)
}

// parseReference reads an identifier, in the place of a request.
func parseReference(at place, id string) (reference, error) {
	r := reference{place: at}
	rest := id
	if strings.HasPrefix(id, "arn:") {
		parts := strings.SplitN(id, ":", 6)
		if len(parts) < 6 || parts[2] != "kms" || !accountID.MatchString(parts[4]) {
			return r, invalidARN("Invalid ARN: %s", id)
		}
		if parts[1] != "aws" || parts[3] != at.region {
			return r, notFound("Invalid arn %s", parts[3])
		}
		r.account, rest = parts[4], parts[5]
		key, isKey := strings.CutPrefix(rest, "key/")
		if isKey {
			rest = key
		}
		if isKey != keyID.MatchString(rest) {
			return r, invalidARN("Invalid ARN: %s", id)
		}
	}
	switch {
	case keyID.MatchString(rest):
		r.keyID = rest
	case isAlias(rest):
		r.alias = rest
	case rest != id:
		return r, invalidARN("Invalid ARN: %s", id)
	default:
		return r, notFound("Invalid keyId '%s'", id)
	}
	return r, nil
}

// resolveForUpdate reads a key that an operation is about to change.
func (s *Service) resolveForUpdate(ctx context.Context, id string) (reference, error) {
	r, err := s.resolveKey(ctx, id)
	if err == nil {
		err = r.err
	}
	return r, err
}

// modify changes the key that a request names.
func (s *Service) modify(ctx context.Context, id string, change func(*record.KMSKey) error) (record.KMSKey, error) {
	r, err := s.resolveForUpdate(ctx, id)
	if err != nil {
		return record.KMSKey{}, err
	}
	row, err := s.keys.Modify(ctx, r.row.Key, change)
	if errors.Is(err, store.ErrNotFound) {
		err = notFound("Key '%s' does not exist", r.arn())
	}
	return row.Value, err
}

// keyTargets returns the targets of an operation on the key that a request names, and takes no alias.
func (s *Service) keyTargets(ctx context.Context, action, id string) ([]wire.Target, error) {
	r, err := s.resolveKey(ctx, id)
	if err != nil {
		return nil, err
	}
	t, err := s.target(ctx, action, r, use{})
	return []wire.Target{t}, err
}
