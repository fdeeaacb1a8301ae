package eks

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
)

// change is one update of EKS, of those that an update of a resource consists of.
type change[L any] struct {
	// due reports whether the resource differs from what the properties want, which is why an update is needed.
	due func(r *resource.Request, live *L) (bool, error)
	// start starts the update, with a client token of its own.
	start func(ctx context.Context, c *eks.Client, r *resource.Request, token *string) (*types.Update, error)
}

// updater makes the changes of a resource one after the other, as EKS has one update of a resource at a time.
//
// Progress has the number of the change and the ID of its update, which DescribeUpdate follows. A change whose answer
// was lost is started again with the same client token, which EKS answers with the same update.
type updater[L any] struct {
	resource.Handler // what the table describes: everything else, and the tags in updates
	describe         func(ctx context.Context, c *eks.Client, r *resource.Request) (*L, error)
	busy             func(live *L) bool // whether an update of the resource is in progress
	// of completes a request for an update of the resource.
	of      func(r *resource.Request, in *eks.DescribeUpdateInput)
	changes []change[L]
}

// Updatable returns the properties that the handler changes in place.
func (u updater[L]) Updatable() []string {
	properties, _ := resource.Updatable(u.Handler)
	return properties
}

// What Progress has of an update.
const (
	step   = "step"   // the number of the change that is made
	update = "update" // the ID of its update
)

// Update is part of [resource.Handler].
func (u updater[L]) Update(ctx context.Context, r *resource.Request) (resource.Result, error) {
	c, result := newClient(r.Config), resource.Result{PhysicalID: r.PhysicalID}
	next, err := strconv.Atoi(r.Progress[step])
	if err != nil {
		next = 0 // there is no progress
	}
	pending := func(id string) (resource.Result, error) {
		result.Pending, result.Progress = poll, map[string]string{step: strconv.Itoa(next), update: id}
		return result, nil
	}
	if id := r.Progress[update]; id != "" {
		done, err := u.finished(ctx, c, r, id)
		if err != nil {
			return result, err
		}
		if !done {
			return pending(id)
		}
		next++
	}
	if next < len(u.changes) {
		live, err := u.describe(ctx, c, r)
		if err != nil {
			return result, err
		}
		for ; next < len(u.changes); next++ {
			id, started, err := u.make(ctx, c, r, live, next)
			if err != nil {
				return result, err
			}
			if started {
				return pending(id)
			}
		}
	}
	result, err = u.Handler.Update(ctx, r)
	if result.Pending > 0 {
		result.Progress[step] = strconv.Itoa(next) // all changes are made
	}
	return result, err
}

// make starts a change that is due. It returns the ID of its update, or none while another update is in progress.
func (u updater[L]) make(
	ctx context.Context, c *eks.Client, r *resource.Request, live *L, number int,
) (id string, started bool, err error) {
	ch := u.changes[number]
	due, err := ch.due(r, live)
	if err != nil || !due {
		return "", false, err
	}
	sum := sha256.Sum256([]byte(r.Token + "/" + strconv.Itoa(number)))
	up, err := ch.start(ctx, c, r, aws.String(hex.EncodeToString(sum[:16])))
	switch {
	case err == nil:
		return aws.ToString(up.Id), true, nil
	case alreadySo(err):
		return "", false, nil
	case resource.HasCode(err, "ResourceInUseException") && u.busy(live):
		return "", true, nil // somebody else's update
	}
	return "", false, err
}

// alreadySo reports whether EKS refuses an update because it would change nothing: the resource is as it would be.
func alreadySo(err error) bool {
	if !resource.HasCode(err, "InvalidParameterException") {
		return false
	}
	text := err.Error()
	return strings.Contains(text, "already at the desired configuration") || strings.Contains(text, "No changes needed")
}

// finished reports whether an update has succeeded, with an error if it has failed.
func (u updater[L]) finished(ctx context.Context, c *eks.Client, r *resource.Request, id string) (bool, error) {
	in := &eks.DescribeUpdateInput{UpdateId: &id}
	u.of(r, in)
	out, err := c.DescribeUpdate(ctx, in)
	if err != nil {
		return false, err
	}
	switch out.Update.Status {
	case types.UpdateStatusSuccessful:
		return true, nil
	case types.UpdateStatusInProgress:
		return false, nil
	}
	var reasons []string
	for _, e := range out.Update.Errors {
		reasons = append(reasons, issue(string(e.ErrorCode), aws.ToString(e.ErrorMessage), e.ResourceIds))
	}
	what := "Update " + id + " (" + string(out.Update.Type) + ") of " + r.PhysicalID
	return false, failure(what, string(out.Update.Status), reasons)
}

// covers reports whether what is live has all that is wanted. The order of lists does not count.
func covers(live, wanted any) bool {
	switch wanted := wanted.(type) {
	case nil:
		return true
	case map[string]any:
		object, _ := live.(map[string]any)
		for name, value := range wanted {
			if !covers(object[name], value) {
				return false
			}
		}
		return true
	case []any:
		list, _ := live.([]any)
		if len(list) != len(wanted) {
			return false
		}
		for _, w := range wanted {
			found := false
			for _, l := range list {
				found = found || covers(l, w)
			}
			if !found {
				return false
			}
		}
		return true
	}
	return live != nil && resource.Text(live) == resource.Text(wanted)
}
