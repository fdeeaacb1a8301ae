package resource

import (
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// Kind is one kind of EC2 resource: rows of type R.
type Kind[R interface{ Identity() record.EC2Resource }] struct {
	Naming
	records *Records
	Table   store.Table[R]
	// VPC is the VPC that a resource belongs to, for the condition key ec2:Vpc; nil for those that belong to none.
	VPC func(R) string
	// Hidden reports that a resource is Amazon's own, out of the account's sight: every operation answers as if there were
	// no such resource. It is nil for kinds that have none such.
	Hidden func(R) bool
}

// WithHidden returns the kind with the resources that are hidden from operations. It is for the life cycles of those
// resources, and for nothing that a request asks for.
func (k Kind[R]) WithHidden() Kind[R] {
	k.Hidden = nil
	return k
}

// isHidden reports whether operations must not see a resource.
func (k Kind[R]) isHidden(r R) bool { return k.Hidden != nil && k.Hidden(r) }

// View describes the representation of the resources of a kind as V.
type View[R interface{ Identity() record.EC2Resource }, V any] struct {
	Kind[R]
	// Show converts a record to its representation in the API.
	Show func(Scope, R) V
	// ShowAll is Show for many rows, for kinds whose views list other resources: it lists them once. It is nil for others.
	ShowAll func(Scope) func(R) V
	// Tagged are the tags in a view.
	Tagged func(V) []types.Tag
	// Filters are the values by which a view is found, by filter name; tag filters go without saying.
	Filters Filters[V]
}

// Naming has the names of a kind of resource and of its IDs.
type Naming struct {
	Resource  types.ResourceType // in ARNs and tags: "internet-gateway"
	Prefix    string             // of ids: "igw-"
	Noun      string             // in messages: "internetGateway ID"
	Parameter string             // of requests: "internetGatewayId"
	NotFound  string             // error code: "InvalidInternetGatewayID.NotFound"
	Malformed string             // error code: "InvalidInternetGatewayId.Malformed"
	Absent    string             // message about one that does not exist, when it is not AWS's usual one
	Form      *regexp.Regexp     // of what follows the prefix, when it is not AWS's usual one
}

var hexDigits = regexp.MustCompile(`^([0-9a-f]{8}|[0-9a-f]{17})$`)

// Validate refuses an id that cannot be one of this kind.
func (n Naming) Validate(id string) error {
	digits, ok := strings.CutPrefix(id, n.Prefix)
	form := n.Form
	if form == nil {
		form = hexDigits
	}
	switch {
	case id == "":
		return MissingParameter(n.Parameter)
	case !ok:
		return wire.Errorf(n.Malformed, `Invalid id: "%s" (expecting "%s...")`, id, n.Prefix)
	case !form.MatchString(digits):
		return wire.Errorf(n.Malformed, `Invalid id: "%s"`, id)
	}
	return nil
}

// Missing returns the error about IDs that do not exist.
func (n Naming) Missing(ids ...string) error {
	if n.Absent != "" {
		return wire.Errorf(n.NotFound, n.Absent, strings.Join(ids, ", "))
	}
	if len(ids) == 1 {
		return wire.Errorf(n.NotFound, "The %s '%s' does not exist", n.Noun, ids[0])
	}
	return wire.Errorf(n.NotFound, "The %ss '%s' do not exist", n.Noun, strings.Join(ids, ", "))
}

// Get returns the resource with that id, or AWS's error about it.
func (k Kind[R]) Get(sc Scope, id string) (store.Row[R], error) {
	if err := k.Validate(id); err != nil {
		return store.Row[R]{}, err
	}
	row, err := k.Find(sc, id)
	if errors.Is(err, store.ErrNotFound) {
		err = k.Missing(id)
	}
	return row, err
}

// Find returns the resource with that ID; store.ErrNotFound when operations see none.
func (k Kind[R]) Find(sc Scope, id string) (store.Row[R], error) {
	row, err := k.Table.Get(sc, sc.Key(id))
	if err == nil && k.isHidden(row.Value) {
		return store.Row[R]{}, store.ErrNotFound
	}
	return row, err
}

// GetRecord returns the record of Get, for callers that need no revision.
func (k Kind[R]) GetRecord(sc Scope, id *string) (R, error) {
	row, err := k.Get(sc, aws.ToString(id))
	return row.Value, err
}

// List returns every resource of the kind that fits; all of them when fits is nil.
func (k Kind[R]) List(sc Scope, fits func(R) bool) ([]R, error) {
	rows, err := k.Table.List(sc, sc.KeyPrefix())
	if err != nil {
		return nil, err
	}
	found := make([]R, 0, len(rows))
	for _, row := range rows {
		if !k.isHidden(row.Value) && (fits == nil || fits(row.Value)) {
			found = append(found, row.Value)
		}
	}
	return found, nil
}

// HasMatch reports whether a resource of the kind fits.
func (k Kind[R]) HasMatch(sc Scope, fits func(R) bool) (bool, error) {
	found, err := k.List(sc, fits)
	return len(found) > 0, err
}

// AnyKind is a kind when its types do not matter.
type AnyKind interface {
	IDFormat() Naming
	// CheckExists returns AWS's error about an ID that does not exist.
	CheckExists(sc Scope, id string) error
	// RequirePresent adds to c that the resource is still there.
	RequirePresent(c *Change, id string) error
	// resolveVPC returns the VPC of the resource; empty when it has none or does not exist.
	resolveVPC(sc Scope, id string) string
}

// IDFormat returns the naming of the kind.
func (k Kind[R]) IDFormat() Naming { return k.Naming }

// CheckExists returns AWS's error about an ID that does not exist.
func (k Kind[R]) CheckExists(sc Scope, id string) error {
	_, err := k.Get(sc, id)
	return err
}

// RequirePresent calls Require.
func (k Kind[R]) RequirePresent(c *Change, id string) error { return k.Require(c, id) }

func (k Kind[R]) resolveVPC(sc Scope, id string) string {
	if k.VPC == nil {
		return ""
	}
	row, err := k.Get(sc, id)
	if err != nil {
		return ""
	}
	return k.VPC(row.Value)
}

// KindForID returns the kind of the resource with that id.
func (s *Records) KindForID(id string) (AnyKind, bool) {
	kinds := s.resourceKinds()
	i := slices.IndexFunc(kinds, func(k AnyKind) bool { return k.IDFormat().Validate(id) == nil })
	if i < 0 {
		return nil, false
	}
	return kinds[i], true
}
