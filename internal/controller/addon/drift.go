package addon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/coracle-eks/coracle/internal/catalog"
)

// An object that another manager takes from EKS again and again is left to it for a while: two controllers that both
// know best would keep each other, and the API server, busy for ever.
const (
	takenBackMost   = 10
	takenBackWithin = time.Minute
)

// correctDrift restores fields that EKS owns and others changed, and objects that others deleted.
// Fields of others are never touched.
func (a *addon) correctDrift(ctx context.Context) error {
	var drifted []int
	for i, o := range a.state.Objects {
		is, there, known, err := a.server.findObject(o)
		switch {
		case errors.Is(err, errNoKind), apierrors.IsNotFound(err): // its definition is gone, and comes back before it
			drifted = append(drifted, i)
		case err != nil:
			return problemOf(o, err)
		case !known, is.deleting: // the watch tells
		case !there, is.eks != o.Owned, o.Others != "" && is.others != o.Others:
			drifted = append(drifted, i)
		}
	}
	want := a.row.Now(a.last)
	now := fmt.Sprint(want, a.plane.Endpoint, a.plane.Version, a.state.AppliedChange)
	if len(drifted) == 0 && a.verified == now {
		return nil
	}
	rendered, err := a.e.render(a.cluster, a.plane, a.row.Name, want)
	if err != nil {
		return err
	}
	for _, o := range rendered.Objects { // in the order in which they need each other
		ref := objectRef(o.Unstructured)
		at := a.indexOfObject(ref)
		if at >= 0 && !slices.Contains(drifted, at) {
			same, err := fingerprint(o.Object)
			if err != nil {
				return err
			}
			if same == a.state.Objects[at].Made {
				continue
			}
		}
		if err := a.restoreObject(ctx, o, at, rendered); err != nil {
			return err
		}
	}
	a.verified = now
	return nil
}

// restoreObject makes an object again what it is to be.
func (a *addon) restoreObject(ctx context.Context, o catalog.Object, at int, rendered renderedAddon) error {
	s := &step{object: o, ref: objectRef(o.Unstructured)}
	had := s.ref
	if at >= 0 {
		had = a.state.Objects[at]
		s.kept = had.Kept
	}
	a.server.learnKinds(rendered.objectList())
	if err := a.server.waitEstablished(ctx, s.ref, rendered.objectList()); err != nil {
		return err
	}
	if err := a.server.prepareStep(ctx, s, enforce, true); err != nil {
		return problemOf(s.ref, err)
	}
	if s.live != nil {
		sent, err := fingerprint(s.config)
		if err != nil {
			return err
		}
		mine, _ := fingerprints(s.live)
		if sent == had.Sent && mine == had.Owned {
			return a.recordObject(s, s.live) // somebody changed what is his
		}
		if mine != had.Owned {
			if fighting, err := a.isContested(ctx, s); fighting || err != nil {
				return err
			}
		}
	}
	result, err := a.server.serverSideApply(ctx, s.ref, s.config, false, true)
	if err != nil {
		return problemOf(s.ref, err)
	}
	crashTakenBack.Here()
	if err := a.recordObject(s, result); err != nil {
		return err
	}
	return a.saveState(ctx)
}

// isContested reports whether another manager takes the object from EKS so often that EKS leaves it alone for now.
func (a *addon) isContested(ctx context.Context, s *step) (bool, error) {
	id, now := resourceID(s.ref), a.e.now()
	recent := slices.DeleteFunc(a.taken[id], func(t time.Time) bool { return now.Sub(t) >= takenBackWithin })
	if len(recent) < takenBackMost {
		a.taken[id] = append(recent, now)
		return false, nil
	}
	a.taken[id] = recent
	_, err := a.server.serverSideApply(ctx, s.ref, s.config, true, false)
	if err == nil {
		return false, nil // nobody minds
	}
	if conflictsOf(err) == nil {
		return true, problemOf(s.ref, err)
	}
	var status apierrors.APIStatus
	errors.As(err, &status)
	a.issues = appendIssue(a.issues, issueOf(ekstypes.AddonIssueCodeConfigurationConflict,
		"Something in the cluster keeps changing fields that the add-on owns. "+oneLine(status.Status().Message),
		s.ref))
	a.requeueAfter(recent[0].Add(takenBackWithin).Sub(now))
	return true, nil
}
