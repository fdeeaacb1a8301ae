package kms

import (
	"context"
	"maps"
	"slices"
	"strings"
	"unicode"

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
	caller, pairs := wire.CallerFrom(ctx), &matcher{pairs: u.context}
	for arn, name := range callerNames(caller) {
		grants, err := s.grantsTo.List(ctx, granteeIndex(r.row.Key, arn))
		if err != nil {
			return nil, err
		}
		for _, g := range grants {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			if isPrincipal(caller, arn, g.Value.GranteeID) && permits(g.Value, operation, u, pairs) {
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

// permits reports whether a grant lets its grantee use the key so, with the pairs of an encryption context.
func permits(g record.KMSGrant, operation types.GrantOperation, u use, pairs *matcher) bool {
	if !slices.Contains(g.Operations, operation) {
		return false
	}
	switch {
	case u.crypto:
		return (len(g.ContextEquals) == 0 || len(g.ContextEquals) == len(u.context) &&
			pairs.includes(g.ContextEquals) && includes(g.ContextEquals, u.context)) &&
			pairs.includes(g.ContextSubset)
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

// includes reports whether all pairs of part are in whole.
func includes(whole, part map[string]string) bool { return (&matcher{pairs: whole}).includes(part) }

// matcher finds pairs among others, many times. The case of keys does not matter in grants, that of values does.
type matcher struct {
	pairs  map[string]string
	folded map[[2]string]bool // once a pair is not among them as it is
}

// includes reports whether all pairs of part are among those of the matcher.
func (m *matcher) includes(part map[string]string) bool {
	if len(part) > 0 && len(m.pairs) == 0 {
		return false
	}
	for k, v := range part {
		if value, ok := m.pairs[k]; ok && value == v {
			continue
		}
		if m.folded == nil {
			m.folded = make(map[[2]string]bool, len(m.pairs))
			for key, value := range m.pairs {
				m.folded[[2]string{foldCase(key), value}] = true
			}
		}
		if !m.folded[[2]string{foldCase(k), v}] {
			return false
		}
	}
	return true
}

// foldCase returns the same text for all texts that [strings.EqualFold] takes for equal.
func foldCase(text string) string {
	return strings.Map(func(r rune) rune {
		first := r
		for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
			first = min(first, next)
		}
		return first
	}, text)
}
