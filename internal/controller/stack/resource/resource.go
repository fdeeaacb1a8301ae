// Package resource is what the handlers of CloudFormation resource types and the stack engine agree on: the contract of
// a handler, the errors that it returns, tags, and a generic handler with which most types are one entry of a table.
//
// A handler is a client of an AWS service through the SDK, signed as the caller or as the stack's service role. It
// keeps nothing in memory: the engine calls it again after a crash, or while the resource is not stable, with what the
// last Result said. The contract is that of resource provider handlers on AWS:
// https://docs.aws.amazon.com/cloudformation-cli/latest/userguide/resource-type-test-contract.html
//
// handler.go has the generic handler, call.go makes its operations of those of the SDK, decode.go converts
// properties to API members by their names and back, error.go classifies errors, tag.go merges tags.
package resource

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// Handler makes, changes and removes the resources of a type. Every method is idempotent: it may have been called with
// the same Request before, by a daemon that died at any instruction.
type Handler interface {
	// Create makes the resource, and is called again with the PhysicalID and Progress of its last Result until that is
	// not pending. A Result with a PhysicalID beside an error names what has been made nevertheless, which the engine
	// deletes.
	Create(ctx context.Context, r *Request) (Result, error)
	// Update changes the resource in place from r.Previous to r.Properties. ErrReplace is the answer of a handler that
	// cannot, where the schema says that an update replaces the resource conditionally.
	Update(ctx context.Context, r *Request) (Result, error)
	// Delete removes the resource; what is gone already is done. Without a PhysicalID it removes what a Create, whose
	// answer was lost, may have made.
	Delete(ctx context.Context, r *Request) (Result, error)
	// Read returns the resource as it is, in the terms of its properties and attributes; ErrNotFound if it is gone.
	// Drift detection, imports and GetAtt use it.
	Read(ctx context.Context, r *Request) (properties, attributes map[string]any, err error)
}

// Request is what a handler is told about the resource.
type Request struct {
	Config                                                    aws.Config // of the caller's or the stack role's credentials
	Account, Region, Partition, StackID, StackName, LogicalID string

	PhysicalID string // empty in the first Create; later, what the last Result said
	Name       string // the generated physical name, stable for this resource, not longer than the type's NameLimit
	Token      string // a client token, stable for this operation on this resource: at most 64 characters
	// Retried tells that an earlier call of this operation may have got through: what it made is looked for by client
	// token, then by tags, then by name.
	Retried bool
	// Creation is, in a Delete, the Progress of a creation that has not ended.
	Creation map[string]string
	// Replaced are the physical IDs of resources that had this logical ID before, and are not deleted yet. They bear
	// the same tags, and a lookup by tags skips them.
	Replaced []string

	Properties map[string]any // resolved and coerced by the schema
	Previous   map[string]any // of the same form, in updates

	// Tags are those of the stack with aws:cloudformation:{stack-name,stack-id,logical-id}. MergeTags puts them below
	// the tags of the resource.
	Tags         map[string]string
	PreviousTags map[string]string // in updates

	// Capabilities are those that the stack was given, such as CAPABILITY_IAM, and AllowedTypes the resource types that
	// it may have, empty for all, in creations and updates.
	Capabilities, AllowedTypes []string

	Progress map[string]string // what the last Result of this operation said; empty in the first call
	Now      func() time.Time

	stepped []string // properties that steps of the table set
}

// Result is what a handler has done.
type Result struct {
	PhysicalID string
	Ref        string         // what Ref returns, if that is not the PhysicalID
	Attributes map[string]any // what GetAtt returns; in an update, nil for what it returned before
	Pending    time.Duration  // if positive, the resource is not stable yet: call again after this time
	Progress   map[string]string
}

// Type is a resource type that stacks may contain.
type Type struct {
	Handler

	NameLimit int      // longest physical name, in characters; 0 where the type has no name
	NameLower bool     // whether physical names must be in lower case
	Names     []string // properties that name the resource: a replacement under the same name is refused
	Refused   []string // properties that Coracle does not support: refused before anything is created
	Fixed     []string // properties whose changes CloudFormation refuses: "Updates are not supported"
	Tagged    bool     // whether its resources take the tags of stacks
	// Volatile are attributes that other resources change: the IPv6 blocks of a VPC are those of its VPCCidrBlocks.
	// GetAtt returns what Read says when it is evaluated, not what a Result said.
	Volatile []string
}
