package addon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/coracle-eks/coracle/internal/record"
)

// applyConfiguration applies the desired configuration. It changes nothing before all objects have passed a dry run.
// done is false while it waits for images.
func (a *addon) applyConfiguration(ctx context.Context) (done bool, err error) {
	want := a.row.Now(a.last)
	m := conflictMode(want.Conflicts)
	if m == preserve && !a.updating() {
		// PRESERVE is for updates: a new add-on has no changes to preserve.
		// https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateAddon.html
		m = none
	}
	if a.returning() && a.state.AppliedChange > 0 {
		m = enforce // this configuration has been applied before
	}
	rendered, err := a.e.render(a.cluster, a.plane, a.row.Name, want)
	if err != nil {
		return false, err
	}
	steps, err := a.server.dryRunAll(ctx, rendered.Objects, a.state.Objects, m, false)
	if err != nil {
		return false, err
	}
	var all problems
	for _, s := range steps {
		if s.problem != nil {
			all = append(all, s.problem)
		}
	}
	if len(all) > 0 {
		return false, all
	}
	if ready, err := a.provideImages(rendered.Images, want); !ready || err != nil {
		return false, err
	}
	if err := a.recordApplying(ctx, want, steps); err != nil {
		return false, err
	}
	for _, s := range steps {
		if err := a.applyObject(ctx, s, m, rendered.objectList()); err != nil {
			return false, err
		}
		crashObject.Here()
	}
	crashObjects.Here()
	if err := a.deleteRemovedObjects(ctx, steps); err != nil {
		return false, err
	}
	a.state.Applied, a.state.Applying, a.state.AppliedChange = want, nil, a.row.Change
	a.verified = ""
	if err := a.saveState(ctx); err != nil {
		return false, err
	}
	crashDone.Here()
	return true, nil
}

// recordApplying records the configuration that is being applied, and the objects that may exist from now on.
func (a *addon) recordApplying(ctx context.Context, want record.AddonConfig, steps []*step) error {
	a.state.Applying = &want
	objects := slices.Clone(a.state.Objects)
	for _, s := range steps {
		if at := a.indexOfObject(s.ref); at >= 0 {
			objects[at].Kept = s.kept
			continue
		}
		o := s.ref
		o.Kept = s.kept
		objects = append(objects, o)
	}
	a.state.Objects = objects
	if err := a.saveState(ctx); err != nil {
		return err
	}
	crashApplying.Here()
	return a.server.watchObjects(a.row.Key(), a.state.Objects)
}

// indexOfObject returns the index of an object in the state; -1 when the state does not have it.
func (a *addon) indexOfObject(o record.AddonObject) int {
	return slices.IndexFunc(a.state.Objects, func(h record.AddonObject) bool { return sameName(h, o) })
}

// applyObject applies one object.
func (a *addon) applyObject(ctx context.Context, s *step, m mode, all []*unstructured.Unstructured) error {
	if s.later { // the objects that it depends on have been applied
		if err := a.server.waitEstablished(ctx, s.ref, all); err != nil {
			return err
		}
		err := a.server.prepareStep(ctx, s, m, false)
		if err == nil {
			err = a.server.dryRun(ctx, s, m)
		}
		if err != nil {
			return problemOf(s.ref, err)
		}
		s.later = false
	}
	result, err := a.server.serverSideApply(ctx, s.ref, s.config, false, m != none || s.force)
	if err != nil {
		return problemOf(s.ref, err)
	}
	return a.recordObject(s, result)
}

// recordObject records what was applied of an object, and the owned fields that the API server then reports.
func (a *addon) recordObject(s *step, result *unstructured.Unstructured) error {
	o := s.ref
	o.Kept = s.kept
	var err error
	if o.Made, err = fingerprint(s.object.Object); err != nil {
		return err
	}
	if o.Sent, err = fingerprint(s.config); err != nil {
		return err
	}
	o.Owned, o.Others = fingerprints(result)
	if len(s.object.Yields)+len(s.kept) == 0 {
		o.Others = ""
	}
	if at := a.indexOfObject(s.ref); at >= 0 {
		a.state.Objects[at] = o
	} else {
		a.state.Objects = append(a.state.Objects, o)
	}
	return nil
}

// objectList returns the objects as unstructured objects.
func (m renderedAddon) objectList() []*unstructured.Unstructured {
	var all []*unstructured.Unstructured
	for _, o := range m.Objects {
		all = append(all, o.Unstructured)
	}
	return all
}

// establishTime is the time that the API server may take to serve a kind after its definition.
const establishTime = 10 * time.Second

// waitEstablished waits until the kind of an object is served, if one of the add-on's own objects defines it.
func (r *requester) waitEstablished(ctx context.Context, o record.AddonObject, all []*unstructured.Unstructured) error {
	at := slices.IndexFunc(all, func(d *unstructured.Unstructured) bool {
		group, _, kind, _, versions := definedKind(d)
		return kind == o.Kind && slices.ContainsFunc(versions,
			func(v string) bool { return group+"/"+v == o.APIVersion })
	})
	if at < 0 {
		return nil
	}
	definition := objectRef(all[at])
	err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, establishTime, true, func(ctx context.Context) (
		bool, error) {
		live, err := r.getObject(ctx, definition)
		if err != nil {
			return false, err
		}
		conditions, _, _ := unstructured.NestedSlice(live.Object, "status", "conditions")
		if !slices.ContainsFunc(conditions, func(c any) bool {
			m, ok := c.(map[string]any)
			return ok && m["type"] == "Established" && m["status"] == "True"
		}) {
			return false, nil
		}
		_, err = r.getObject(ctx, o) // the condition may be set a moment before the kind is served
		var status apierrors.APIStatus
		if apierrors.IsNotFound(err) && errors.As(err, &status) && status.Status().Details != nil &&
			status.Status().Details.Name != "" || err == nil {
			return true, nil
		}
		return false, nil
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		return &problem{issueOf(ekstypes.AddonIssueCodeInternalFailure, fmt.Sprintf("%s is not established after %v.",
			resourceID(definition), establishTime), definition), true}
	}
	if err != nil {
		return problemOf(definition, err)
	}
	return nil
}

// deleteRemovedObjects deletes the objects that the new configuration no longer has.
func (a *addon) deleteRemovedObjects(ctx context.Context, steps []*step) error {
	for _, o := range slices.Backward(slices.Clone(a.state.Objects)) {
		if slices.ContainsFunc(steps, func(s *step) bool { return sameName(o, s.ref) }) {
			continue
		}
		if _, _, err := a.deleteObject(ctx, o); err != nil {
			return err
		}
		crashPruned.Here()
		a.state.Objects = slices.DeleteFunc(a.state.Objects, func(h record.AddonObject) bool { return sameName(h, o) })
	}
	return nil
}
