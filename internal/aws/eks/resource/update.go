package resource

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/uuid"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// Attempt is the outcome of checking a request to change something: the update that it starts, and what is written with
// it; or the update that this very request has started before.
type Attempt struct {
	key    string // of the update
	Update record.Update
	Ops    []store.Op
	Before *types.Update
}

// StartUpdate records a change and its update object, both or neither. A cluster, a node group, an add-on and a
// capability have one update at a time: the operations that check returns fail unless the object is as it was when no
// update was found in progress, and every update writes the object. check may run several times.
func (r *Records) StartUpdate(ctx context.Context, check func() (Attempt, error)) (*types.Update, error) {
	for {
		a, err := check()
		if err != nil || a.Before != nil {
			return a.Before, err
		}
		err = r.Store.Txn(ctx, append(a.Ops, r.Updates.CreateOp(a.key, a.Update))...)
		if LostRace(err) {
			continue // something changed meanwhile: check again
		} else if err != nil {
			return nil, err
		}
		return DescribeUpdate(a.Update), nil
	}
}

// UpdateOwner names what an update is of: the node group, the add-on or the capability with that ID, or with none of
// them the cluster itself.
type UpdateOwner struct{ NodegroupID, AddonID, CapabilityID string }

// OwnerOf returns what an update is of.
func OwnerOf(u record.Update) UpdateOwner {
	return UpdateOwner{u.NodegroupID, u.AddonID, u.CapabilityID}
}

// NewAttempt returns a new update of a cluster, or of what it has; or the one that the request, an input structure of
// the SDK, has started before.
func (r *Records) NewAttempt(
	ctx context.Context, c record.Cluster, of UpdateOwner, kind types.UpdateType, token *string, request any,
) (Attempt, error) {
	u := record.Update{
		ID: uuid.NewString(), Cluster: c.Name, ClusterID: c.ID, NodegroupID: of.NodegroupID, AddonID: of.AddonID,
		CapabilityID: of.CapabilityID, Type: kind, Status: types.UpdateStatusInProgress, CreatedAt: r.Timestamp(),
		ClientRequestToken: aws.ToString(token), RequestHash: wire.Fingerprint(request),
	}
	a := Attempt{key: record.UpdateKey(c.Account, c.Region, c.Name, u.ID), Update: u}
	if u.ClientRequestToken == "" {
		return a, nil
	}
	all, err := r.UpdatesOf(ctx, c, of)
	if err != nil {
		return a, err
	}
	for _, b := range all {
		if same, err := wire.Repeated(ctx, token, u.RequestHash, b.ClientRequestToken, b.RequestHash); err != nil {
			return a, err
		} else if same {
			a.Before = DescribeUpdate(b)
		}
	}
	return a, nil
}

// UpdatesOf returns the updates of a cluster, or of one of its node groups, add-ons or capabilities.
func (r *Records) UpdatesOf(ctx context.Context, c record.Cluster, of UpdateOwner) ([]record.Update, error) {
	all, err := ValuesOf(ctx, r.Updates, c, func(u record.Update) string { return u.ClusterID })
	return slices.DeleteFunc(all, func(u record.Update) bool { return OwnerOf(u) != of }), err
}

// DescribeUpdate returns an update as the API shows it.
func DescribeUpdate(u record.Update) *types.Update {
	out := &types.Update{
		Id:        new(u.ID),
		Status:    u.Status,
		Type:      u.Type,
		Params:    u.Params,
		CreatedAt: new(u.CreatedAt),
		Errors:    u.Errors,
	}
	if out.Params == nil {
		out.Params = []types.UpdateParam{}
	}
	if out.Errors == nil {
		out.Errors = []types.ErrorDetail{}
	}
	return out
}

// UpdateParam returns a parameter of an update object.
func UpdateParam(kind types.UpdateParamType, value string) types.UpdateParam {
	return types.UpdateParam{Type: kind, Value: &value}
}

// JSON renders the value of an update's parameter.
func JSON(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("eks: render an update's parameter: %v", err)) // the values are made of strings and numbers
	}
	return string(raw)
}
