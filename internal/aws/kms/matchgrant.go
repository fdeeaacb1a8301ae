package kms

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/kms/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

// grantees returns the names of the caller to which grants of a key allow an operation: their unique ID, or the ARN of
// their account, whose IAM policies must allow it as well.
func (s *Service) grantees(ctx context.Context, r reference, operation types.GrantOperation, u use) ([]string, error) {
	if !slices.Contains(operation.Values(), operation) {
		return nil, nil
	}
	var names []string
	caller := wire.CallerFrom(ctx)
	for arn, name := range callerNames(caller) {
		grants, err := s.grantsTo.List(ctx, granteeIndex(r.row.Key, arn))
		if err != nil {
			return nil, err
		}
		for _, g := range grants {
			if isPrincipal(caller, arn, g.Value.GranteeID) && permits(g.Value, operation, u) {
				names = append(names, name)
				break
			}
		}
	}
	return names, nil
}

// callerNames returns the ARNs by which a grant may name a caller, and what the policy engine knows each by.
func callerNames(c wire.Caller) map[string]string {
	id := uniqueID(c)
	if id == "" {
		id = c.ARN
	}
	return map[string]string{c.ARN: id, c.PrincipalARN: id, accountARN(c.Account): accountARN(c.Account)}
}

// uniqueID returns the unique ID of the user or role that calls; empty for others.
func uniqueID(c wire.Caller) string {
	id, _, _ := strings.Cut(c.UserID, ":")
	if strings.HasPrefix(id, "AIDA") || strings.HasPrefix(id, "AROA") {
		return id
	}
	return ""
}

// isPrincipal reports whether the caller is the principal that a grant means by an ARN and a unique ID, and not another
// who has got its name.
func isPrincipal(c wire.Caller, arn, id string) bool {
	if arn != c.ARN && arn != c.PrincipalARN && arn != accountARN(c.Account) {
		return false
	}
	return id == "" || id == uniqueID(c)
}

// permits reports whether a grant lets its grantee use the key so.
func permits(g record.KMSGrant, operation types.GrantOperation, u use) bool {
	if !slices.Contains(g.Operations, operation) {
		return false
	}
	switch {
	case u.crypto:
		return (len(g.ContextEquals) == 0 || len(g.ContextEquals) == len(u.context) &&
			includes(u.context, g.ContextEquals) && includes(g.ContextEquals, u.context)) &&
			includes(u.context, g.ContextSubset)
	case operation == types.GrantOperationCreateGrant:
		return u.grant != nil && isNoWider(*u.grant, g)
	}
	return true // an encryption context is not theirs to have
}

// isNoWider reports whether a grant allows no more than its parent: whoever may create grants by a grant can pass on
// what that allows.
// https://docs.aws.amazon.com/kms/latest/developerguide/create-grant-overview.html#grant-creategrant
func isNoWider(child, parent record.KMSGrant) bool {
	for _, operation := range child.Operations {
		if !slices.Contains(parent.Operations, operation) {
			return false
		}
	}
	switch {
	case len(parent.ContextEquals) > 0:
		return maps.Equal(child.ContextEquals, parent.ContextEquals)
	case len(child.ContextEquals) > 0:
		return includes(child.ContextEquals, parent.ContextSubset)
	}
	return includes(child.ContextSubset, parent.ContextSubset)
}

// includes reports whether all pairs of part are in whole. The case of keys does not matter in grants, that of values
// does.
func includes(whole, part map[string]string) bool {
	for k, v := range part {
		if value, ok := whole[k]; ok && value == v {
			continue
		}
		found := false
		for other, value := range whole {
			found = found || strings.EqualFold(other, k) && value == v
		}
		if !found {
			return false
		}
	}
	return true
}
