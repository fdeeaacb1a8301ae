package resource

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/region"
	"github.com/coracle-eks/coracle/internal/store"
)

// Scope is what a call works in: its account, its region and who calls.
type Scope struct {
	context.Context
	Account string
	Region  string
	Caller  wire.Caller
}

// RequestScope returns the scope of a request, in which the account's default resources exist.
func (s *Records) RequestScope(ctx context.Context) (Scope, error) {
	in, err := ScopeOf(ctx)
	if err != nil {
		return in, err
	}
	return in, s.EnsureDefaults(in)
}

// ScopeOf returns the scope of a request, whether the account's default resources exist or not.
func ScopeOf(ctx context.Context) (Scope, error) {
	caller := wire.CallerFrom(ctx)
	in := Scope{Context: ctx, Account: caller.Account, Region: wire.RegionFrom(ctx), Caller: caller}
	if !region.Valid(in.Region) {
		return in, wire.Errorf("InvalidParameterValue",
			"Invalid region: '%s'. DescribeRegions lists the valid regions.", in.Region)
	}
	return in, nil
}

// KeyPrefix returns the prefix of the keys of the account's resources in the region.
func (in Scope) KeyPrefix() string { return store.Prefix(in.Account, in.Region) }

// Key returns the key of a resource of the account.
func (in Scope) Key(id string) string { return record.EC2Key(in.Account, in.Region, id) }

// ARN returns the ARN of a resource of the account.
func (in Scope) ARN(resource types.ResourceType, id string) string {
	return "arn:aws:ec2:" + in.Region + ":" + in.Account + ":" + string(resource) + "/" + id
}

// IsService reports whether the caller is an AWS service that acts for the account under its service-linked role.
func (in Scope) IsService() bool {
	// Only the prefix tells: the path of a user may hold anything.
	return strings.HasPrefix(in.Caller.PrincipalARN, "arn:aws:iam::"+in.Account+":role/aws-service-role/")
}

// NewID returns a new id with that prefix and 17 hexadecimal digits, of which AWS's first is always 0.
func NewID(prefix string) string {
	var b [8]byte
	rand.Read(b[:]) // never fails
	return prefix + "0" + hex.EncodeToString(b[:])
}

// NewShortID returns an id of eight hexadecimal digits, as spot requests have.
func NewShortID(prefix string) string {
	var b [4]byte
	rand.Read(b[:]) // never fails
	return prefix + hex.EncodeToString(b[:])
}
