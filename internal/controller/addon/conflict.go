package addon

import (
	"context"
	"errors"
	"slices"
	"strings"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// mode is the treatment of fields for which EKS and another manager want different values.
type mode int

const (
	// none: a conflict is an error, and nothing is changed. Yielding fields are left to other managers.
	none mode = iota
	// overwrite: EKS takes the ownership of all fields, yielding ones too.
	overwrite
	// preserve: conflicting fields are left to other managers, and recorded as kept.
	preserve
	// enforce: EKS takes all fields but yielding and kept ones. It corrects drift of an add-on that has been applied.
	enforce
)

// conflictMode returns the mode for resolveConflicts of a request.
func conflictMode(r ekstypes.ResolveConflicts) mode {
	switch r {
	case ekstypes.ResolveConflictsOverwrite:
		return overwrite
	case ekstypes.ResolveConflictsPreserve:
		return preserve
	}
	return none
}

// isForced reports whether fields are taken from other managers.
func (m mode) isForced() bool { return m == overwrite || m == enforce }

// dryRun dry-runs a step and resolves conflicts by the mode. Forced modes take the fields. Otherwise a conflict stands
// unless EKS owns the field as well, or preserve leaves it to the other manager.
func (r *requester) dryRun(ctx context.Context, s *step, m mode) (err error) {
	for range 3 {
		s.result, err = r.serverSideApply(ctx, s.ref, s.config, true, false)
		found := conflictsOf(err)
		if found == nil {
			return err
		}
		s.conflicts, s.refusal = found, err
		if m.isForced() {
			s.result, err = r.serverSideApply(ctx, s.ref, s.config, true, true)
			return err
		}
		if m == none && len(s.object.Yields) == 0 {
			return err
		}
		if s.live, err = r.getObject(ctx, s.ref); err != nil {
			return err
		}
		eks, err := ownedFields(s.live)
		if err != nil {
			return err
		}
		theirs, err := foreignClaims(s.live)
		if err != nil {
			return err
		}
		left, stands := false, false
		yielding := newPathSet(s.object.Yields)
		for _, c := range found {
			claim, ok := theirs[c.Field]
			switch {
			case ok && eks.Has(claim.path) && !claim.declared && (m == preserve || yielding.contains(c.Field)):
			case ok && m == preserve && removePath(s.config, claim.path):
				left = true
				s.kept = append(s.kept, c.Field)
			default:
				stands = true
			}
		}
		switch {
		case stands:
			return s.refusal
		case !left: // EKS owns all conflicting fields as well
			s.force, s.conflicts, s.refusal = true, nil, nil
			s.result, err = r.serverSideApply(ctx, s.ref, s.config, true, true)
			return err
		}
		s.conflicts, s.refusal = nil, nil
	}
	return s.refusal // another manager keeps claiming fields
}

// conflictsOf returns the fields that others own according to err, the response to an apply without force; none for any
// other error.
func conflictsOf(err error) []metav1.StatusCause {
	var status *apierrors.StatusError
	if !errors.As(err, &status) || !apierrors.IsConflict(err) || status.ErrStatus.Details == nil ||
		strings.HasPrefix(status.ErrStatus.Message, "admission webhook ") { // a webhook may give any causes
		return nil
	}
	return slices.DeleteFunc(slices.Clone(status.ErrStatus.Details.Causes), func(c metav1.StatusCause) bool {
		return c.Type != metav1.CauseTypeFieldManagerConflict
	})
}

// managerOf takes the manager out of the API server's words: `conflict with "kubectl-client-side-apply" using apps/v1`.
func managerOf(message string) string {
	_, rest, _ := strings.Cut(message, `"`)
	manager, _, _ := strings.Cut(rest, `"`)
	return manager
}
