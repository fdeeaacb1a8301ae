package kms

import (
	"context"
	"encoding/base64"
	"errors"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/kms/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// Quotas of grants of a key, of the pairs of an encryption context that a grant wants, and of the characters of each of
// their keys and values.
// https://docs.aws.amazon.com/kms/latest/developerguide/create-grant-overview.html#grant-constraints
const (
	maxGrants          = 50_000
	maxConstraints     = 8
	maxConstraintChars = 384
)

// grantable are the operations that a grant of a symmetric key may allow.
var grantable = []types.GrantOperation{
	types.GrantOperationDecrypt, types.GrantOperationEncrypt, types.GrantOperationGenerateDataKey,
	types.GrantOperationGenerateDataKeyWithoutPlaintext, types.GrantOperationReEncryptFrom,
	types.GrantOperationReEncryptTo, types.GrantOperationCreateGrant, types.GrantOperationRetireGrant,
	types.GrantOperationDescribeKey, types.GrantOperationGenerateDataKeyPair,
	types.GrantOperationGenerateDataKeyPairWithoutPlaintext,
}

// grantHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) grantHandlers() []wire.Handler {
	return []wire.Handler{
		handle(s.CreateGrant, func(
			ctx context.Context, action string, in *kms.CreateGrantInput,
		) ([]wire.Target, error) {
			r, err := s.resolveKey(ctx, *in.KeyId)
			if err != nil {
				return nil, err
			}
			t, err := s.target(ctx, action, r, grantUse(newGrant(r, in)))
			return []wire.Target{t}, err
		}).CheckingDryRun(),
		handle(s.ListGrants, func(
			ctx context.Context, action string, in *kms.ListGrantsInput,
		) ([]wire.Target, error) {
			targets, err := s.keyTargets(ctx, action, *in.KeyId)
			for _, t := range targets {
				t.Conditions["kms:GrantIsForAWSResource"] = boolCondition(false)
			}
			return targets, err
		}),
		handle(s.RevokeGrant, func(
			ctx context.Context, action string, in *kms.RevokeGrantInput,
		) ([]wire.Target, error) {
			targets, err := s.keyTargets(ctx, action, *in.KeyId)
			for _, t := range targets {
				t.Conditions["kms:GrantIsForAWSResource"] = boolCondition(false)
			}
			return targets, err
		}).CheckingDryRun(),
	}
}

// newGrant returns the grant that a request would make.
func newGrant(r reference, in *kms.CreateGrantInput) record.KMSGrant {
	g := record.KMSGrant{
		Account: r.account, Region: r.region, KeyID: r.keyID, Name: aws.ToString(in.Name),
		Grantee: aws.ToString(in.GranteePrincipal), Retirer: aws.ToString(in.RetiringPrincipal),
		Operations: slices.Compact(slices.Sorted(slices.Values(in.Operations))),
	}
	if c := in.Constraints; c != nil {
		g.ContextEquals, g.ContextSubset = c.EncryptionContextEquals, c.EncryptionContextSubset
	}
	return g
}

// grantUse returns what policies may ask about a grant that is to be made. No grant is for a resource of AWS: EKS, too,
// asks for one as its caller.
// https://docs.aws.amazon.com/eks/latest/userguide/enable-kms.html
func grantUse(g record.KMSGrant) use {
	keys := map[string][]string{
		"kms:GrantIsForAWSResource": boolCondition(false),
		"kms:GranteePrincipal":      {g.Grantee},
	}
	for _, operation := range g.Operations {
		keys["kms:GrantOperations"] = append(keys["kms:GrantOperations"], string(operation))
	}
	if g.Retirer != "" {
		keys["kms:RetiringPrincipal"] = []string{g.Retirer}
	}
	switch {
	case len(g.ContextEquals) > 0:
		keys["kms:GrantConstraintType"] = []string{"EncryptionContextEquals"}
	case len(g.ContextSubset) > 0:
		keys["kms:GrantConstraintType"] = []string{"EncryptionContextSubset"}
	}
	return use{grant: &g, keys: keys}
}

// CreateGrant lets a principal use a key.
func (s *Service) CreateGrant(ctx context.Context, in *kms.CreateGrantInput) (*kms.CreateGrantOutput, error) {
	if err := checkGrantInput(in); err != nil {
		return nil, err
	}
	for {
		g, ops, err := s.createGrantOps(ctx, in)
		if err != nil {
			return nil, err
		}
		if aws.ToBool(in.DryRun) {
			return nil, dryRun()
		}
		err = s.store.Txn(ctx, ops...)
		if err == nil {
			return &kms.CreateGrantOutput{GrantId: aws.String(g.ID), GrantToken: aws.String(grantToken(g))}, nil
		}
		if !errors.Is(err, store.ErrConflict) && !errors.Is(err, store.ErrNotFound) {
			return nil, err
		}
	}
}

func checkGrantInput(in *kms.CreateGrantInput) error {
	if err := checkGrantTokens(in.GrantTokens); err != nil {
		return err
	}
	switch c := in.Constraints; {
	case in.GranteeServicePrincipal != nil || in.RetiringServicePrincipal != nil:
		return unsupported("Grants to service principals are not implemented by coracle: name the role of the service.")
	case in.GranteePrincipal == nil:
		return validation("1 validation error detected: Value null at 'granteePrincipal' failed to satisfy constraint: " +
			"Member must not be null")
	case len(in.Operations) == 0:
		return validation("1 validation error detected: Value '[]' at 'operations' failed to satisfy constraint: " +
			"Member must have length greater than or equal to 1")
	case c != nil && c.SourceArn != nil:
		return unsupported("The grant constraint SourceArn is not implemented by coracle.")
	case c != nil && len(c.EncryptionContextEquals) > 0 && len(c.EncryptionContextSubset) > 0:
		return validation("Only one of EncryptionContextEquals and EncryptionContextSubset can be specified")
	}
	for _, operation := range in.Operations {
		if !slices.Contains(grantable, operation) {
			return validation("Grant operation %s is not supported for this key spec", operation)
		}
	}
	return checkConstraints(in.Constraints)
}

// checkConstraints refuses constraints that are larger than their quotas.
func checkConstraints(c *types.GrantConstraints) error {
	if c == nil {
		return nil
	}
	for name, pairs := range map[string]map[string]string{"encryptionContextEquals": c.EncryptionContextEquals,
		"encryptionContextSubset": c.EncryptionContextSubset} {
		if len(pairs) > maxConstraints {
			return validation("1 validation error detected: Value at 'constraints.%s' failed to satisfy constraint: Member "+
				"must have length less than or equal to %d", name, maxConstraints)
		}
		for key, value := range pairs {
			if utf8.RuneCountInString(key) > maxConstraintChars || utf8.RuneCountInString(value) > maxConstraintChars {
				return validation("1 validation error detected: Value at 'constraints.%s' failed to satisfy constraint: Map "+
					"keys and values must have length less than or equal to %d", name, maxConstraintChars)
			}
		}
	}
	return nil
}

// createGrantOps returns the grant of a request and what makes it: nothing when a grant of the same name says the same.
func (s *Service) createGrantOps(ctx context.Context, in *kms.CreateGrantInput) (record.KMSGrant, []store.Op, error) {
	none := record.KMSGrant{}
	r, err := s.resolveForUpdate(ctx, *in.KeyId)
	if err != nil {
		return none, nil, err
	}
	if err := requireKept(r.row.Value); err != nil {
		return none, nil, err
	}
	g := newGrant(r, in)
	for arn, id := range map[string]*string{g.Grantee: &g.GranteeID, g.Retirer: &g.RetirerID} {
		if arn == "" {
			continue
		}
		exists := false
		if *id, exists, err = s.named.ID(ctx, arn); err != nil {
			return none, nil, err
		}
		if !exists {
			return none, nil, invalidARN("ARN does not refer to a valid principal: %s", arn)
		}
	}
	if g.Grantee == g.Retirer { // one entry of the map above
		id, _, err := s.named.ID(ctx, g.Grantee)
		if err != nil {
			return none, nil, err
		}
		g.GranteeID, g.RetirerID = id, id
	}
	if g.Name != "" {
		same, err := s.grantsTo.List(ctx, granteeIndex(r.row.Key, g.Grantee))
		if err != nil {
			return none, nil, err
		}
		for _, old := range same {
			if isSameGrant(old.Value, g) {
				return old.Value, []store.Op{s.grants.CheckOp(old)}, nil
			}
		}
	}
	if n := s.grants.Count(store.Prefix(g.Account, g.Region, g.KeyID)); n >= maxGrants {
		return none, nil, limitExceeded("Key %s has %d grants already, and may have no more.", r.arn(), n)
	}
	g.ID, g.Issuer, g.CreatedAt = newHexID(), wire.CallerFrom(ctx).Account, s.timestamp()
	return g, []store.Op{s.grants.CreateOp(g.Key(), g), s.keys.CheckOp(r.row)}, nil
}

func isSameGrant(a, b record.KMSGrant) bool {
	return a.Name == b.Name && a.GranteeID == b.GranteeID && a.Retirer == b.Retirer && a.RetirerID == b.RetirerID &&
		slices.Equal(a.Operations, b.Operations) && maps.Equal(a.ContextEquals, b.ContextEquals) &&
		maps.Equal(a.ContextSubset, b.ContextSubset)
}

// A grant token names its grant. Grants take effect at once here, so that it is needed for nothing else: it is no
// credential.
const tokenPrefix = "coracle-grant:"

func grantToken(g record.KMSGrant) string {
	return base64.StdEncoding.EncodeToString([]byte(tokenPrefix + g.Key()))
}

// parseGrantToken returns the key of a grant's record.
func parseGrantToken(token string) (string, error) {
	text, err := base64.StdEncoding.DecodeString(token)
	key, ok := strings.CutPrefix(string(text), tokenPrefix)
	if err != nil || !ok || len(store.Parts(key)) != 4 {
		return "", &types.InvalidGrantTokenException{Message: new("Invalid grant token")}
	}
	return key, nil
}

func checkGrantTokens(tokens []string) error {
	for _, token := range tokens {
		if _, err := parseGrantToken(token); err != nil {
			return err
		}
	}
	return nil
}

// ListGrants lists the grants of a key.
func (s *Service) ListGrants(ctx context.Context, in *kms.ListGrantsInput) (*kms.ListGrantsOutput, error) {
	r, err := s.resolveForUpdate(ctx, *in.KeyId)
	if err != nil {
		return nil, err
	}
	limit, err := pageSize(in.Limit, 50, 100)
	if err != nil {
		return nil, err
	}
	if in.GranteeServicePrincipal != nil {
		return &kms.ListGrantsOutput{Grants: []types.GrantListEntry{}}, nil // there are none
	}
	rows, err := s.grants.List(ctx, store.Prefix(r.account, r.region, r.keyID))
	if err != nil {
		return nil, err
	}
	rows = slices.DeleteFunc(rows, func(row store.Row[record.KMSGrant]) bool {
		return in.GrantId != nil && row.Value.ID != *in.GrantId ||
			in.GranteePrincipal != nil && row.Value.Grantee != *in.GranteePrincipal
	})
	page, next, err := wire.Page(ctx, rows, limit, in.Marker, rowKey[record.KMSGrant])
	if err != nil {
		return nil, err
	}
	return &kms.ListGrantsOutput{Grants: grantEntries(page), NextMarker: next, Truncated: next != nil}, nil
}

func grantEntries(rows []store.Row[record.KMSGrant]) []types.GrantListEntry {
	list := make([]types.GrantListEntry, 0, len(rows))
	for _, row := range rows {
		g := row.Value
		e := types.GrantListEntry{
			KeyId: new(record.KMSKeyARN(g.Account, g.Region, g.KeyID)), GrantId: &g.ID, CreationDate: &g.CreatedAt,
			GranteePrincipal: &g.Grantee, IssuingAccount: new(accountARN(g.Issuer)), Operations: g.Operations,
		}
		if g.Name != "" {
			e.Name = &g.Name
		}
		if g.Retirer != "" {
			e.RetiringPrincipal = &g.Retirer
		}
		if len(g.ContextEquals)+len(g.ContextSubset) > 0 {
			e.Constraints = &types.GrantConstraints{EncryptionContextEquals: g.ContextEquals,
				EncryptionContextSubset: g.ContextSubset}
		}
		list = append(list, e)
	}
	return list
}

// RevokeGrant deletes a grant, as an administrator of the key does.
func (s *Service) RevokeGrant(ctx context.Context, in *kms.RevokeGrantInput) (*kms.RevokeGrantOutput, error) {
	r, err := s.resolveForUpdate(ctx, *in.KeyId)
	if err != nil {
		return nil, err
	}
	if err := s.deleteGrant(ctx, record.KMSGrantKey(r.account, r.region, r.keyID, *in.GrantId),
		aws.ToBool(in.DryRun)); err != nil {
		return nil, err
	}
	return &kms.RevokeGrantOutput{}, nil
}

// deleteGrant deletes a grant unless that is only tried.
func (s *Service) deleteGrant(ctx context.Context, key string, try bool) error {
	row, err := s.grants.Get(ctx, key)
	if err == nil && try {
		return dryRun()
	}
	if err == nil {
		err = s.grants.Delete(ctx, row)
	}
	if errors.Is(err, store.ErrNotFound) {
		parts := store.Parts(key)
		return notFound("Grant ID %s not found", parts[len(parts)-1])
	}
	return err
}
