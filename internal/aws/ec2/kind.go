package ec2

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

// kind is one kind of EC2 resource: rows of type R, shown as V.
type kind[R interface{ Identity() record.EC2Resource }, V any] struct {
	naming
	table store.Table[R]
	// view is how a row looks in the API.
	view func(scope, R) V
	// tagged are the tags in a view.
	tagged func(V) []types.Tag
	// filters are the values by which a view is found, by filter name; tag filters go without saying.
	filters filters[V]
	// vpc is the VPC that a resource belongs to, for the condition key ec2:Vpc; nil for those that belong to none.
	vpc func(R) string
}

// naming is how a kind of resource and its ids are called.
type naming struct {
	resource  types.ResourceType // in ARNs and tags: "internet-gateway"
	prefix    string             // of ids: "igw-"
	noun      string             // in messages: "internetGateway ID"
	param     string             // of requests: "internetGatewayId"
	notFound  string             // error code: "InvalidInternetGatewayID.NotFound"
	malformed string             // error code: "InvalidInternetGatewayId.Malformed"
	absent    string             // message about one that does not exist, when it is not AWS's usual one
	form      *regexp.Regexp     // of what follows the prefix, when it is not AWS's usual one
}

var hexDigits = regexp.MustCompile(`^([0-9a-f]{8}|[0-9a-f]{17})$`)

// validate refuses an id that cannot be one of this kind.
func (n naming) validate(id string) error {
	digits, ok := strings.CutPrefix(id, n.prefix)
	form := n.form
	if form == nil {
		form = hexDigits
	}
	switch {
	case id == "":
		return missing(n.param)
	case !ok:
		return wire.Errorf(n.malformed, `Invalid id: "%s" (expecting "%s...")`, id, n.prefix)
	case !form.MatchString(digits):
		return wire.Errorf(n.malformed, `Invalid id: "%s"`, id)
	}
	return nil
}

func (n naming) missing(ids ...string) error {
	if n.absent != "" {
		return wire.Errorf(n.notFound, n.absent, strings.Join(ids, ", "))
	}
	if len(ids) == 1 {
		return wire.Errorf(n.notFound, "The %s '%s' does not exist", n.noun, ids[0])
	}
	return wire.Errorf(n.notFound, "The %ss '%s' do not exist", n.noun, strings.Join(ids, ", "))
}

// get is the resource with that id, or AWS's error about it.
func (k kind[R, V]) get(in scope, id string) (store.Row[R], error) {
	if err := k.validate(id); err != nil {
		return store.Row[R]{}, err
	}
	row, err := k.table.Get(in, in.key(id))
	if errors.Is(err, store.ErrNotFound) {
		err = k.missing(id)
	}
	return row, err
}

// getRecord is get for those who need no revision.
func (k kind[R, V]) getRecord(in scope, id *string) (R, error) {
	row, err := k.get(in, aws.ToString(id))
	return row.Value, err
}

// list is every resource of the kind that fits; all of them when fits is nil.
func (k kind[R, V]) list(in scope, fits func(R) bool) ([]R, error) {
	rows, err := k.table.List(in, in.keyPrefix())
	if err != nil {
		return nil, err
	}
	found := make([]R, 0, len(rows))
	for _, row := range rows {
		if fits == nil || fits(row.Value) {
			found = append(found, row.Value)
		}
	}
	return found, nil
}

// hasMatch reports whether a resource of the kind fits.
func (k kind[R, V]) hasMatch(in scope, fits func(R) bool) (bool, error) {
	found, err := k.list(in, fits)
	return len(found) > 0, err
}

// anyKind is a kind when its types do not matter.
type anyKind interface {
	idFormat() naming
	// exists is AWS's error about an id that does not exist.
	checkExists(in scope, id string) error
	// present adds to c that the resource is still there.
	present(c *change, id string) error
	// vpcOf is the VPC of the resource; empty when it has none or does not exist.
	resolveVPC(in scope, id string) string
}

func (k kind[R, V]) idFormat() naming { return k.naming }

func (k kind[R, V]) checkExists(in scope, id string) error {
	_, err := k.get(in, id)
	return err
}

func (k kind[R, V]) present(c *change, id string) error { return k.require(c, id) }

func (k kind[R, V]) resolveVPC(in scope, id string) string {
	if k.vpc == nil {
		return ""
	}
	row, err := k.get(in, id)
	if err != nil {
		return ""
	}
	return k.vpc(row.Value)
}

// kindForID is the kind of the resource with that id.
func (s *Service) kindForID(id string) (anyKind, bool) {
	kinds := s.resourceKinds()
	i := slices.IndexFunc(kinds, func(k anyKind) bool { return k.idFormat().validate(id) == nil })
	if i < 0 {
		return nil, false
	}
	return kinds[i], true
}
