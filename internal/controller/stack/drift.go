package stack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/coracle-eks/coracle/internal/cloudformation/plan"
	"github.com/coracle-eks/coracle/internal/cloudformation/revision"
	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// driftFor bounds how long the resources of a stack are read for one detection, which holds a worker that others need.
const driftFor = 10 * time.Minute

// detectDrift reads the resources of a stack and records how they differ from what the stack made of them.
func (c *Controller) detectDrift(ctx context.Context, key string) (reconcile.Result, error) {
	ctx = store.Paced(ctx)
	row, err := c.drifts.Copy(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return reconcile.Result{Gone: true}, nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	d := &row.Value
	if d.Status != types.StackDriftDetectionStatusDetectionInProgress {
		return reconcile.Result{Gone: true}, nil
	}
	stack, err := c.stacks.Get(ctx, record.StackKey(d.Account, d.Region, d.StackID))
	if errors.Is(err, store.ErrNotFound) {
		return reconcile.Result{Gone: true}, c.drifts.Delete(ctx, row)
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	p := &pass{c: c, key: stack.Key, stack: stack.Value, config: c.configOf(stack.Value, d.ID, d.Caller, d.RoleARN)}
	state, err := c.states.Get(ctx, stack.Key)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return reconcile.Result{}, err
	}
	if err := p.loadSecrets(ctx, stack.Value.Operation.Revision, state.Value.Revision, state.Value.Current); err != nil {
		return reconcile.Result{}, err
	}
	if err := p.loadResources(ctx); err != nil {
		return reconcile.Result{}, err
	}
	d.Status, d.StackStatus = types.StackDriftDetectionStatusDetectionComplete, types.StackDriftStatusInSync
	var faults []string
	reading, cancel := context.WithTimeout(ctx, driftFor)
	defer cancel()
	for _, id := range p.ids() {
		r := p.row(id)
		if r.Value.Live == nil || len(d.LogicalIDs) > 0 && !slices.Contains(d.LogicalIDs, id) {
			continue
		}
		drift, err := p.readDrift(reading, r.Value)
		if ctx.Err() != nil {
			return reconcile.Result{}, ctx.Err()
		}
		if reading.Err() != nil {
			faults = append(faults, fmt.Sprintf("they took longer than %s to read", driftFor))
			break
		}
		if err != nil {
			faults = append(faults, fmt.Sprintf("%s: %v", id, err))
			continue
		}
		if drift.Status == types.StackResourceDriftStatusModified || drift.Status == types.StackResourceDriftStatusDeleted {
			d.Drifted++
			d.StackStatus = types.StackDriftStatusDrifted
		}
		r, err = c.resources.Copy(ctx, r.Key)
		if err != nil {
			continue // the stack has begun another operation
		}
		r.Value.Drift = drift
		_, err = c.resources.Update(store.Limited(ctx), r)
		var full *store.FullError
		if errors.As(err, &full) && !full.Recent {
			faults = append(faults, fmt.Sprintf("%s: %v", id, err))
		} else if err != nil && !errors.Is(err, store.ErrConflict) {
			return reconcile.Result{}, err
		}
	}
	if len(faults) > 0 {
		d.Status = types.StackDriftDetectionStatusDetectionFailed
		d.Reason = bound("Failed to detect drift on resources " + strings.Join(faults, "; "))
	}
	_, err = c.drifts.Update(ctx, row)
	return reconcile.Result{Gone: true}, err
}

// readDrift returns how a resource differs from what the stack made of it. Only properties that the template sets
// count.
func (p *pass) readDrift(ctx context.Context, r record.StackResource) (*record.StackResourceDrift, error) {
	now := p.c.now().UTC()
	kind, ok := p.c.options.Types[r.Live.Type]
	if !ok {
		return &record.StackResourceDrift{Status: types.StackResourceDriftStatusNotChecked, CheckedAt: now}, nil
	}
	in := p.newRequest(r.LogicalID, *r.Live)
	if err := revision.Decode(r.Live.Properties, &in.Properties); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, callFor)
	defer cancel()
	actual, _, err := kind.Read(ctx, in)
	switch {
	case errors.Is(err, resource.ErrNotFound):
		return &record.StackResourceDrift{Status: types.StackResourceDriftStatusDeleted, CheckedAt: now,
			Expected: p.secrets.JSON(r.Live.Properties)}, nil
	case resource.Classify(err) == resource.UnsupportedTarget && err != nil:
		return &record.StackResourceDrift{Status: types.StackResourceDriftStatusNotChecked, CheckedAt: now}, nil
	case err != nil:
		return nil, err
	}
	expected := maps.Clone(in.Properties)
	drift := &record.StackResourceDrift{Status: types.StackResourceDriftStatusInSync, CheckedAt: now}
	shown := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(expected)) {
		value, known := actual[name]
		if !known { // what cannot be read does not count
			continue
		}
		shown[name] = value
		if name == "Tags" {
			expected[name], value = resource.OwnTags(expected[name]), ownTags(resource.OwnTags(value), in.Tags)
		}
		drift.Differences = append(drift.Differences, differences("/"+name, normal(expected[name]), normal(value))...)
	}
	drift.Expected, drift.Actual = p.secrets.JSON(r.Live.Properties), p.secrets.JSON(encode(shown))
	for i := range drift.Differences {
		difference := &drift.Differences[i]
		difference.Expected, difference.Actual = p.secrets.Text(difference.Expected), p.secrets.Text(difference.Actual)
	}
	if len(drift.Differences) > 0 {
		drift.Status = types.StackResourceDriftStatusModified
	}
	return drift, nil
}

// ownTags returns tags without those that the stack gives its resources.
func ownTags(tags, stack map[string]string) map[string]string {
	maps.DeleteFunc(tags, func(key, value string) bool {
		of, ok := stack[key]
		return ok && of == value || strings.HasPrefix(key, "aws:")
	})
	return tags
}

// normal returns a value as JSON has it.
func normal(value any) any {
	text, err := json.Marshal(value)
	if err != nil {
		return value
	}
	var decoded any
	if err := revision.Decode(text, &decoded); err != nil {
		return value
	}
	return decoded
}

// maxDifferences is the number of differences that are shown of a resource.
const maxDifferences = 100

// differences returns where two values differ, by their paths. What only the actual value has does not count: services
// add defaults.
func differences(path string, expected, actual any) []record.StackPropertyDifference {
	if old, ok := expected.(map[string]any); ok {
		if now, ok := actual.(map[string]any); ok {
			var all []record.StackPropertyDifference
			for _, key := range slices.Sorted(maps.Keys(old)) {
				value, known := now[key]
				if !known {
					all = append(all, record.StackPropertyDifference{Path: path + "/" + key, Expected: textOf(old[key]),
						Type: types.DifferenceTypeRemove})
				} else {
					all = append(all, differences(path+"/"+key, old[key], value)...)
				}
				if len(all) > maxDifferences {
					return all[:maxDifferences]
				}
			}
			return all
		}
	}
	if textOf(expected) == textOf(actual) || plan.Equal(expected, actual) {
		return nil
	}
	return []record.StackPropertyDifference{{Path: path, Expected: textOf(expected), Actual: textOf(actual),
		Type: types.DifferenceTypeNotEqual}}
}

func textOf(value any) string {
	if text, ok := value.(string); ok {
		return text
	}
	return string(encode(value))
}
