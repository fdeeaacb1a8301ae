package kms

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/kms/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

// use is what a request does with a key, as far as policies and grants ask about it.
type use struct {
	context map[string]string   // the encryption context
	crypto  bool                // whether it is a cryptographic operation
	grant   *record.KMSGrant    // that CreateGrant would make
	keys    map[string][]string // condition keys of the operation
}

type viaServiceKey struct{}

// viaService returns a context for the requests of an AWS service, such as "eks", on behalf of the caller.
func viaService(ctx context.Context, service string) context.Context {
	return context.WithValue(ctx, viaServiceKey{}, service+"."+wire.RegionFrom(ctx)+".amazonaws.com")
}

// target returns the target of an action on a key. What does not exist has no policy: its own account's principals
// learn so if their policies let them ask, and nobody else.
// https://docs.aws.amazon.com/kms/latest/developerguide/conditions-kms.html
func (s *Service) target(ctx context.Context, action string, r reference, u use) (wire.Target, error) {
	caller := wire.CallerFrom(ctx)
	t := wire.Target{Action: action, Resource: r.arn(), Owner: r.account, Conditions: map[string][]string{
		"kms:CallerAccount": {caller.Account},
	}}
	maps.Copy(t.Conditions, u.keys)
	if r.alias != "" {
		t.Conditions["kms:RequestAlias"] = []string{r.alias}
		if r.account != caller.Account {
			t.Named = record.KMSAliasARN(r.account, r.region, r.alias)
		}
	}
	if via, ok := ctx.Value(viaServiceKey{}).(string); ok {
		t.Conditions["kms:ViaService"] = []string{via}
	}
	if u.crypto {
		t.Conditions["kms:EncryptionAlgorithm"] = []string{string(types.EncryptionAlgorithmSpecSymmetricDefault)}
		for k, v := range u.context {
			t.Conditions["kms:EncryptionContext:"+k] = []string{v}
		}
		if len(u.context) > 0 {
			t.Conditions["kms:EncryptionContextKeys"] = slices.Sorted(maps.Keys(u.context))
		}
	}
	if r.err != nil {
		return t, nil //nolint:nilerr // the operation returns it
	}
	key := r.row.Value
	t.Policy, t.PolicyIDs, t.PolicyMust = key.Policy, key.PolicyIDs, true
	maps.Copy(t.Conditions, specConditions())
	for k, v := range key.Tags {
		t.Conditions["aws:ResourceTag/"+k] = []string{v}
	}
	aliases, err := s.aliasesOf.List(ctx, r.row.Key)
	if err != nil {
		return t, err
	}
	for _, a := range aliases {
		t.Conditions["kms:ResourceAliases"] = append(t.Conditions["kms:ResourceAliases"], a.Value.Name)
	}
	operation, _ := strings.CutPrefix(action, "kms:")
	t.Grantees, err = s.grantees(ctx, r, types.GrantOperation(operation), u)
	return t, err
}

// specConditions returns the condition keys of the one spec that keys have.
func specConditions() map[string][]string {
	return map[string][]string{
		"kms:KeySpec":               {string(types.KeySpecSymmetricDefault)},
		"kms:CustomerMasterKeySpec": {string(types.KeySpecSymmetricDefault)},
		"kms:KeyUsage":              {string(types.KeyUsageTypeEncryptDecrypt)},
		"kms:CustomerMasterKeyUsage": {
			string(types.KeyUsageTypeEncryptDecrypt),
		},
		"kms:KeyOrigin":   {string(types.OriginTypeAwsKms)},
		"kms:MultiRegion": {"false"},
	}
}

// addRequestTags adds the condition keys of tags in a request.
func addRequestTags(t wire.Target, tags map[string]string) {
	for k, v := range tags {
		t.Conditions["aws:RequestTag/"+k] = []string{v}
	}
	if len(tags) > 0 {
		t.Conditions["aws:TagKeys"] = slices.Sorted(maps.Keys(tags))
	}
}

func boolCondition(b bool) []string { return []string{strconv.FormatBool(b)} }
